"""Bytes -> typed rows with an event time, and the rows that could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, Literal

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from ..columns import quoted
from ..conditions import require_text
from ..durations import interval, microseconds
from ..eventtime.watermark import watermarked
from ..formats.format import Format
from ..offsets import EventTimes, Offsets
from ._parts import require_parts
from ._rows import ReadRows, kafka_name
from .aside import BAD, PLACE, UNTIMED, Behind, SetAside, chosen, where_bad
from .before import FILTERED, Before
from .by_log import LATE, ByLog
from .counts import counts
from .event_time import CLAMPED, EVENT_TIME, EventTime, TimeUnit
from .heartbeat import Heartbeats
from .kafka import COLUMNS, HEADERS, KafkaSource
from .reached import Reached

OBSERVATION = "tidegate"


@dataclass(frozen=True)
class Reading:
    """A source, its format and its event time: which rows are good, and which are dead letters.

    time: a timestamp field's name, or an expression over the fields and the Kafka columns. It must
        not raise for any value: `tidegate.eventtime.instant` turns epoch numbers into timestamps
        safely.
    time_unit: "seconds", "milliseconds" or "microseconds" where the field of `time` is a whole
        number that counts them since 1970. The rows have it as the timestamp `event_time`.
    lateness: how far behind the latest event time a row may be: the watermark's delay.
    keep: of "topic", "partition", "offset", "timestamp", "key", "headers", those that the good rows
        carry beside the fields.
    future_tolerance: how far an event time may be ahead of the record's own timestamp; None lets
        any through.
    future: what becomes of a row beyond that, which must not move the watermark: with "reject" it
        is a dead letter, with "clamp" its event time is the record's timestamp plus the tolerance.
    value_cap: bytes of a dead letter's value, of its key and of each of its headers that are kept;
        the value's full length stands beside them.
    where: a condition in Spark's SQL on the good rows' columns. Rows of which it is false or null
        are left out once they are counted: they move the watermark, and are never late.

    A Kafka column whose name a field has is called kafka_<name>, so a field `timestamp` leaves
    `kafka_timestamp`.

    Observed in each batch of the stream, under the name `OBSERVATION` where no other is given:
    `rows` (raw rows), `dead`, and `earliest` and `latest`, the good rows' smallest and largest
    event time in microseconds since 1970 (None without a good row). With future="clamp" also
    `clamped`, the rows whose event time was brought back; with `where` also `filtered`, the good
    rows that it left out; and where rows are late by the log, `late`, those that are.

    Raises ArgumentError, ColumnError and ColumnTypeError, at construction; for a `where` that the
    rows cannot answer, when they are read.
    """

    source: KafkaSource
    format: Format
    _: KW_ONLY
    time: str | Column
    lateness: str | timedelta
    keep: Sequence[str] = ()
    future_tolerance: str | timedelta | None = "1 hour"
    future: Literal["reject", "clamp"] = "reject"
    value_cap: int = 65_536
    time_unit: TimeUnit | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        require_parts(self.source, self.format, self.keep, self.value_cap)
        microseconds(self.lateness, "lateness", least=0)
        require_text(self.where)
        self._event_time.require()

    @property
    def columns(self) -> list[str]:
        """The columns of the good rows."""
        fields = [name for name in self.format.schema.fieldNames() if name != EVENT_TIME]
        return [*fields, EVENT_TIME, *(kafka_name(self.format, name) for name in self.keep)]

    @property
    def place(self) -> list[str]:
        """What rows that bear their place call its topic, partition and offset."""
        return [kafka_name(self.format, name) for name in PLACE[:3]]

    @property
    def _headers(self) -> bool:
        """Whether something reads the headers of a row."""
        return HEADERS in {*self.keep, *self._rows.needs}

    @property
    def _event_time(self) -> EventTime:
        return EventTime(
            self.time,
            unit=self.time_unit,
            tolerance=self.future_tolerance,
            future=self.future,
            fields=self.format.schema,
            received=kafka_name(self.format, "timestamp"),
        )

    @property
    def _rows(self) -> ReadRows:
        return ReadRows(self.format, self._event_time, tuple(self.keep), self.where)

    def stream(
        self,
        spark: SparkSession,
        observation: str = OBSERVATION,
        heartbeats: Heartbeats | None = None,
        before: Before | None = None,
        by_log: ByLog | None = None,
    ) -> DataFrame:
        """Return the good rows: the fields, `event_time`, then the kept Kafka columns.

        The watermark is that of all good rows, whatever `where` or the transform filters out. Two
        readings in one query need an `observation`, the name of their counts, each of its own.
        `heartbeats` can move the watermark on without an event. Rows that a batch has read `before`
        are rows of the stream too, and are not counted again. Rows that are late `by_log` are left
        out, which takes a source of one partition.
        """
        raw = self.source.stream(spark, headers=self._headers)
        judged = self._rows.judged(raw, () if before is None else PLACE[:3])
        if by_log is not None:
            judged = by_log.of_stream(judged, ~quoted(BAD), self.source.place)
        good = self._good(judged, observation, before)
        delay = interval(microseconds(self.lateness, "lateness", least=0))
        if heartbeats is None:
            return self._rows.chosen(watermarked(good, EVENT_TIME, delay))
        return self._rows.chosen(heartbeats.below(good, EVENT_TIME, delay))

    def batch(
        self,
        spark: SparkSession,
        start: Offsets,
        end: Offsets,
        observation: Observation,
        *,
        by_log: ByLog | None = None,
        reached: Reached | None = None,
    ) -> DataFrame:
        """Return the good rows of one offset range as a batch, with the columns of the stream.

        Counted are the same numbers, and what `reached` asks for. Rows are left out as late
        `by_log` alone, for which the range begins with the first record that counts.
        """
        raw = self._between(spark, start, end, apart=by_log is not None)
        topic, *place = map(quoted, self.place)
        carried: Sequence[str] = PLACE[:3]
        if len(end) == 1:
            # The name of the only topic need not be carried along from row to row.
            topic = F.lit(*end)
            carried = PLACE[1:3]
        place = [topic, *place]
        placed = by_log is not None or reached is not None
        judged = self._rows.judged(raw, carried if placed else ())
        judged = self._late_by(by_log, judged, {}, place)
        if reached is not None:
            judged = reached.observing(judged, ~quoted(BAD), place)
        return self._rows.chosen(self._good(judged, observation))

    def _good(
        self,
        judged: DataFrame,
        observation: str | Observation,
        before: Before | None = None,
    ) -> DataFrame:
        """Count all rows, and keep the good ones; those that `where` leaves out are marked."""
        marks = {BAD: quoted(BAD)}
        for mark in (CLAMPED, FILTERED, LATE):
            if mark in judged.columns:
                marks[mark] = quoted(mark)
        if before is not None:
            marks |= before.marks(*map(quoted, self.place))
        rows = judged.select(
            *self._rows.kept(self.keep), *[at.alias(name) for name, at in marks.items()]
        )
        counted = counts(marks)
        kept = ~quoted(BAD)
        if before is not None:
            kept = kept & before.in_time
        if LATE in marks:
            kept = kept & ~quoted(LATE)
        # Whether a row is filtered out is asked above the watermark, which such rows move on.
        marks.pop(FILTERED, None)
        return rows.observe(observation, *counted).where(kept).drop(*marks)

    def counted(
        self,
        spark: SparkSession,
        start: Offsets,
        end: Offsets,
        *,
        by_log: ByLog | None = None,
        newest: EventTimes | None = None,
    ) -> dict[str, Any]:
        """Count one offset range as `stream` and `batch` count it while it is read.

        A query of its own counts each row once, however often Spark runs a task.

        newest: for rows that are late `by_log`, what was newest where the range begins.
        """
        raw = self._between(spark, start, end, apart=by_log is not None)
        judged = self._rows.judged(raw, () if by_log is None else PLACE[:3])
        judged = self._late_by(by_log, judged, newest or {})
        (found,) = judged.agg(*counts(judged.columns)).collect()
        return found.asDict()

    def rows(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Return the good rows of one offset range as a batch, with the columns of PLACE.

        Rows that `where` leaves out are not among them.
        """
        judged = self._rows.judged(self._between(spark, start, end), PLACE)
        extra = [name for name in self.keep if name not in PLACE]
        kept = self._rows.chosen(judged.where(~quoted(BAD)))
        return kept.select(*self._rows.kept([*PLACE, *extra]))

    def timed(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Return the good rows of one offset range, also those that `where` leaves out."""
        return self._rows.judged(self._between(spark, start, end), PLACE[:3]).where(~quoted(BAD))

    def _late_by(
        self,
        by_log: ByLog | None,
        judged: DataFrame,
        newest: EventTimes,
        place: Sequence[Column] = (),
    ) -> DataFrame:
        """Mark the rows of a range that are late `by_log`."""
        if by_log is None:
            return judged
        own = place or [quoted(name) for name in self.place]
        return by_log.of_range(judged, ~quoted(BAD), own, newest)

    def _between(
        self, spark: SparkSession, start: Offsets, end: Offsets, *, apart: bool = False
    ) -> DataFrame:
        return self.source.between(spark, start, end, headers=self._headers, apart=apart)

    def dead(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Return the rows of one offset range that could not be read.

        Columns: topic, partition, offset, timestamp, key, value, value_bytes (the value's full
        length), headers, stage ("decode" or "event_time"), reason. The same range gives the same
        rows, for as long as the broker keeps them.
        """
        return self.aside(spark, start, end).dead()

    def aside(
        self, spark: SparkSession, start: Offsets, end: Offsets, behind: Behind | None = None
    ) -> SetAside:
        """Return the rows of one offset range that could not be read, and those that are late.

        They are read once for both. Rows that `where` leaves out are never late.
        """
        by_log = None if behind is None else behind.log
        records = self.source.between(spark, start, end, apart=by_log is not None)
        judged = self._rows.judged(records, COLUMNS)
        judged = self._late_by(by_log, judged, {} if behind is None else behind.newest)
        raw = [where_bad(kafka_name(self.format, name), name) for name in COLUMNS]
        extra = [name for name in self.keep if name not in PLACE]
        row = F.struct(*self._rows.kept([*PLACE, *extra]))
        told = judged.withColumn(UNTIMED, self._event_time.fault())
        rows = chosen(told, behind, raw=raw, row=row)
        return SetAside(rows, format=self.format, cap=self.value_cap, behind=behind)
