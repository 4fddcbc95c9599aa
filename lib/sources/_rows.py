"""Records decoded, timed and judged: good rows, rows that are left out, and dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import quoted
from ..conditions import condition
from ..formats.format import Format
from ..made_once import made_once
from ._parts import CARRIED
from .aside import BAD, UNREAD
from .before import FILTERED
from .event_time import EVENT_TIME, EventTime


@dataclass(frozen=True)
class ReadRows:
    """How a `Reading` makes rows of records, and which of them are good; its rules stand there."""

    format: Format
    event_time: EventTime
    keep: tuple[str, ...]
    where: str | None

    @property
    def needs(self) -> Sequence[str]:
        """Kafka's columns that the format reads: all but the headers where it does not say."""
        needs: Sequence[str] = getattr(self.format, "needs", CARRIED)
        return needs

    def judged(self, raw: DataFrame, also: Sequence[str] = ()) -> DataFrame:
        """Decode each record, take its event time, decide whether it is good, and look at `where`.

        Of Kafka's columns those are carried along that something reads, those of `also` among them.
        """
        carried = list(dict.fromkeys([*also, *self.keep, *self.event_time.needs, *self.needs]))
        try:
            timed = self._carrying(carried, raw)
        except AnalysisException:
            # The event time is an expression over others.
            timed = self._carrying(list(dict.fromkeys([*carried, *CARRIED])), raw)
        return self._filtered(timed)

    def _carrying(self, carried: Sequence[str], raw: DataFrame) -> DataFrame:
        asked = dict.fromkeys([*carried, "value"])
        decoded = self.format.decode(raw.select(*map(quoted, asked)))
        fields = self.format.schema.fieldNames()
        flat = decoded.select(
            *[_of_record(name) for name in fields],
            *[_named(name, kafka_name(self.format, name)) for name in carried],
            F.col("bad").alias(UNREAD),
        )
        timed = self.event_time.added(flat)
        return timed.withColumn(BAD, quoted(UNREAD) | self.event_time.fault().isNotNull())

    def _filtered(self, judged: DataFrame) -> DataFrame:
        """Mark the good rows that `where` leaves out."""
        if self.where is None:
            return judged
        holds = condition(judged.select(*self.kept(self.keep)), self.where)
        left_out = F.when(~quoted(BAD), ~F.coalesce(holds, F.lit(False))).otherwise(F.lit(False))
        return judged.withColumn(FILTERED, left_out)

    def chosen(self, marked: DataFrame) -> DataFrame:
        """Leave out the rows that are marked."""
        return marked if self.where is None else marked.where(~quoted(FILTERED)).drop(FILTERED)

    def kept(self, kafka: Sequence[str]) -> list[Column]:
        """Return the columns of a good row: the fields, the event time, and these of Kafka's."""
        fields = [quoted(name) for name in self.format.schema.fieldNames() if name != EVENT_TIME]
        own = [quoted(kafka_name(self.format, name)) for name in kafka]
        return [*fields, F.col(EVENT_TIME), *own]


@made_once
def _of_record(field: str) -> Column:
    return F.col("record").getField(field).alias(field)


@made_once
def _named(column: str, name: str) -> Column:
    """Return one of Kafka's columns under a name."""
    return quoted(column).alias(name)


def kafka_name(format: Format, name: str) -> str:
    """Return what one of Kafka's columns is called beside the fields of a format."""
    taken = {field.lower() for field in format.schema.fieldNames()}
    return f"kafka_{name}" if name in taken else name
