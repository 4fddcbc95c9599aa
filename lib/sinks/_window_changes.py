"""What a batch changes in a table of windows: what each window was, and what it has become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import merges
from ..columns import quoted
from ..commit.batch import Batch
from ..commit.side_by_side import under_way
from ..durations import since_1970
from ..eventtime.changing import changing
from ..jvm import DeltaState
from ..windows import Overlapping, Same, Windowed
from ..windows.merging import WINDOW
from ._ended import known_end

VERSION = "version"
FINAL = "final"
PARTIALS = "partials"
OWN = (VERSION, FINAL, PARTIALS)
"""What the current table has of a window beside its answers."""

_JOINT = "__tidegate_joint"
_OLD = "__tidegate_old"


@dataclass(frozen=True)
class WindowChanges:
    """How windows that arrive with a batch change those that are stored.

    windowed: the windows, by which keys, and the aggregates whose partials they bear.
    merging: which windows become one.
    frame: the batch's rows of partials.
    """

    windowed: Windowed
    merging: Same | Overlapping
    frame: DataFrame
    batch: Batch

    @property
    def keys(self) -> list[str]:
        """The columns that make a row of the current table one."""
        return [WINDOW, *self.windowed.by]

    @property
    def aggs(self) -> list[str]:
        """The names of the aggregates."""
        return list(self.windowed.aggs)

    @cached_property
    def _span(self) -> Sequence[int] | None:
        """The first start, last end and first end of the windows that arrive; None without any."""
        first_end, _ = _edges("end", "end")
        found = self.frame.agg(*_edges("start", "end"), first_end).head()
        return None if found is None or found[0] is None else found

    @property
    def have_ended(self) -> bool:
        """Whether the watermark has passed all windows that arrive."""
        if self._span is None:
            return True
        _, last_end, _ = self._span
        return last_end <= since_1970(self.batch.watermark)

    def of(self, stored: DataFrame | None) -> DataFrame:
        """Return the windows that become another by the batch.

        stored: the table's windows; None where there are none, or none that concern the batch.

        Columns: the keys; `old` and `new`, what the window was and is, either of them null: structs
        of answers, version, final and partials.
        """
        arrived = self._arrived()
        met = None if stored is None else self._met(stored, arrived)
        rows = arrived if met is None else met.unionByName(arrived)
        placed = self.merging.joint(rows, _JOINT)
        issued = self._issued(placed)
        # A session that became part of a larger one is not there any more.
        gone = placed.where(quoted(_OLD).isNotNull() & (quoted(WINDOW) != quoted(_JOINT)))
        nothing = F.lit(None).cast(issued.schema["new"].dataType)
        withdrawn = gone.select(
            *map(quoted, self.keys), quoted(_OLD).alias("old"), nothing.alias("new")
        )
        return issued.unionByName(withdrawn)

    def against(self, state: DeltaState, path: str) -> tuple[DataFrame, bool | None]:
        """Return the changed windows, as `of` does, and whether they may meet stored ones.

        None where only the changed windows tell.

        state, path: the table's.
        """
        if state.version < 0:
            return self.of(None), False
        spark = self.frame.sparkSession
        stored = spark.read.format("delta").load(path)
        if not isinstance(self.merging, Same):
            # Sessions may touch one that has ended.
            return self.of(stored), None
        ended = known_end(state)
        with under_way(spark, [lambda: self._span]):
            # What follows windows that were new is mostly new too: so it is planned meanwhile.
            planned = None if ended is None else self.of(None)
        if self._are_new(stored, ended):
            return self.of(None) if planned is None else planned, False
        # Where none arrive there may be some that became final, or none.
        return self.of(stored), None if self._span is None else True

    def near(self, window: Column) -> Column:
        """Whether a stored window may be one that the batch changes, by its times alone.

        By literal times Delta skips most files. They stand on a grid as wide as they are apart: a
        literal is a part of the code that Spark generates, which another one in each batch would
        have compiled anew.
        """
        instants = [*map(since_1970, (self.batch.late_watermark, self.batch.watermark))]
        if self._span is not None:
            first, last, _ = self._span
            instants += [first, last]
        step = 1 << (max(instants) - min(instants)).bit_length()
        earliest = min(instants) // step * step
        latest = -(-max(instants) // step) * step
        end, start = window["end"], window["start"]
        return (end >= _instant(earliest)) & (start <= _instant(latest))

    def _are_new(self, stored: DataFrame, ended: datetime | None) -> bool:
        """Return whether no window that arrives is stored, and none that is stored is open.

        So it is where all that are stored ended before the batch, and all that arrive end within
        it.

        ended: what no stored window ends after; None to have it looked for.
        """
        before = self.batch.late_watermark
        if self._span is not None:
            *_, first_end = self._span
            if first_end <= since_1970(before) or not self.have_ended:
                return False
        if ended is not None:
            return ended <= before
        return self._span is not None and stored.where(self._was_open).isEmpty()

    @property
    def _was_open(self) -> Column:
        """Whether a stored window may be one that earlier batches left open.

        It ends after their watermark; Delta skips the files of what ended before it.
        """
        return quoted(WINDOW)["end"] > F.lit(self.batch.late_watermark)

    def _arrived(self) -> DataFrame:
        """Return the batch's partials, which were nothing before."""
        rows = self.frame.select(*map(quoted, [*self.keys, *self.aggs]))
        unknown = self._value(F.lit(0).cast("bigint"), F.lit(False))
        return rows.withColumn(_OLD, F.when(F.lit(False), unknown))

    def _met(self, stored: DataFrame, arrived: DataFrame) -> DataFrame:
        """Return the stored windows that the batch meets, and those that became final since."""
        near = stored.where(self.near(quoted(WINDOW)))
        end = quoted(WINDOW)["end"]
        ended_before = end <= changing(self.batch.late_watermark, end)
        passed = end <= changing(self.batch.watermark, end)
        passed_now = ~quoted(FINAL) & passed & ~ended_before
        met = self.merging.met(near, arrived, passed_now)
        value = F.struct(*map(quoted, [*self.aggs, *OWN]))
        partials = [quoted(PARTIALS)[name].alias(name) for name in self.aggs]
        return met.select(*map(quoted, self.keys), *partials, value.alias(_OLD))

    def _issued(self, placed: DataFrame) -> DataFrame:
        """Merge the rows that become one window, and finish their answers."""
        by = [quoted(name) for name in self.windowed.by]
        merging = merges(placed, self.windowed.mergeable)
        partials = [merge.alias(name) for name, merge in merging.items()]
        itself = F.when(quoted(WINDOW) == quoted(_JOINT), quoted(_OLD))
        was = F.any_value(itself, F.lit(True)).alias("old")
        merged = placed.groupBy(_JOINT, *by).agg(*partials, was)

        old = quoted("old")
        end = quoted(_JOINT)["end"]
        passed = end <= changing(self.batch.watermark, end)
        final = passed | F.coalesce(old[FINAL], F.lit(False))
        # The version is that of the log's last entry, which only final windows have.
        last_version = F.coalesce(old[VERSION], F.lit(0).cast("bigint"))
        version = last_version + final.cast("bigint")
        new = self._value(version, final)
        return merged.select(quoted(_JOINT).alias(WINDOW), *by, old, new.alias("new"))

    def _value(self, version: Column, final: Column) -> Column:
        """Return what the current table holds of a window, from its partials."""
        answers = [
            agg.finish(quoted(name)).alias(name) for name, agg in self.windowed.mergeable.items()
        ]
        partials = F.struct(*map(quoted, self.aggs))
        return F.struct(
            *answers, version.alias(VERSION), final.alias(FINAL), partials.alias(PARTIALS)
        )


def _edges(first: str, last: str) -> tuple[Column, Column]:
    """Return the least and the greatest of two edges of windows, as microseconds."""
    least = F.unix_micros(F.min(quoted(WINDOW)[first]))
    greatest = F.unix_micros(F.max(quoted(WINDOW)[last]))
    return least, greatest


def _instant(micros: int) -> Column:
    return F.timestamp_micros(F.lit(micros))
