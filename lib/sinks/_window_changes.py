"""What a batch changes in a table of windows: what each window was, and what it has become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..aggregates import merges
from ..columns import quoted
from ..commit.batch import Batch
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
    """How windows that arrive change those that are stored.

    windowed: the windows, by which keys, and the aggregates whose partials they bear.
    merging: which windows become one.
    """

    windowed: Windowed
    merging: Same | Overlapping

    @property
    def keys(self) -> list[str]:
        """The columns that make a row of the current table one."""
        return [WINDOW, *self.windowed.by]

    @property
    def aggs(self) -> list[str]:
        """The names of the aggregates."""
        return list(self.windowed.aggs)

    def of(self, frame: DataFrame, stored: DataFrame | None, batch: Batch) -> DataFrame:
        """Return the windows that become another by a batch's rows of partials.

        stored: the table's windows; None where there are none, or none that concern the batch.

        Columns: the keys; `old` and `new`, what the window was and is, either of them null: structs
        of answers, version, final and partials.
        """
        arrived = self._arrived(frame)
        met = None if stored is None else self._met(stored, arrived, batch)
        rows = arrived if met is None else met.unionByName(arrived)
        placed = self.merging.joint(rows, _JOINT)
        issued = self._issued(placed, batch)
        # A session that became part of a larger one is not there any more.
        gone = placed.where(quoted(_OLD).isNotNull() & (quoted(WINDOW) != quoted(_JOINT)))
        nothing = F.lit(None).cast(issued.schema["new"].dataType)
        withdrawn = gone.select(
            *map(quoted, self.keys), quoted(_OLD).alias("old"), nothing.alias("new")
        )
        return issued.unionByName(withdrawn)

    def concerned(
        self, frame: DataFrame, state: DeltaState, path: str, batch: Batch
    ) -> DataFrame | None:
        """Return the table at `path`; None where none of its windows concerns the batch."""
        if state.version < 0:
            return None
        stored = frame.sparkSession.read.format("delta").load(path)
        return None if self._are_new(frame, stored, batch, known_end(state)) else stored

    def _are_new(
        self, frame: DataFrame, stored: DataFrame, batch: Batch, ended: datetime | None
    ) -> bool:
        """Return whether no window that arrives is stored, and none that is stored is open.

        So it is where all that are stored ended before the batch, and all that arrive end within
        it. Sessions may touch one that has ended.

        ended: what no stored window ends after; None to have it looked for.
        """
        if not isinstance(self.merging, Same):
            return False
        found = frame.agg(*edges("end", "end")).head()
        arrived = found is not None and found[0] is not None
        if found is not None and arrived:
            first, last = found
            before, now = since_1970(batch.late_watermark), since_1970(batch.watermark)
            if first <= before or last > now:
                return False
        if ended is not None:
            return ended <= batch.late_watermark
        was_open = quoted(WINDOW)["end"] > F.lit(batch.late_watermark)
        return arrived and stored.where(was_open).isEmpty()

    def _arrived(self, frame: DataFrame) -> DataFrame:
        """Return the batch's partials, which were nothing before."""
        rows = frame.select(*map(quoted, [*self.keys, *self.aggs]))
        unknown = self._value(F.lit(0).cast("bigint"), F.lit(False))
        return rows.withColumn(_OLD, F.when(F.lit(False), unknown))

    def _met(self, stored: DataFrame, arrived: DataFrame, batch: Batch) -> DataFrame:
        """Return the stored windows that the batch meets, and those that became final since."""
        window = quoted(WINDOW)
        passed_now = window["end"] <= F.lit(batch.watermark)
        # What earlier batches left open ends after their watermark; Delta skips the files of what
        # ended before it.
        was_open = window["end"] > F.lit(batch.late_watermark)
        met = stored.where(~quoted(FINAL) & was_open & passed_now)
        found = arrived.agg(*edges("start", "end")).head()
        if found is not None and found[0] is not None:
            first, last = instants(found)
            near = stored.where((window["end"] >= first) & (window["start"] <= last))
            # The others of those near became final since, and are among the first ones.
            settled = near.where(quoted(FINAL) | ~passed_now)
            met = self.merging.met(settled, arrived).unionByName(met)
        value = F.struct(*map(quoted, [*self.aggs, *OWN]))
        partials = [quoted(PARTIALS)[name].alias(name) for name in self.aggs]
        return met.select(*map(quoted, self.keys), *partials, value.alias(_OLD))

    def _issued(self, placed: DataFrame, batch: Batch) -> DataFrame:
        """Merge the rows that become one window, and finish their answers."""
        by = [quoted(name) for name in self.windowed.by]
        merging = merges(placed, self.windowed.mergeable)
        partials = [merge.alias(name) for name, merge in merging.items()]
        itself = F.when(quoted(WINDOW) == quoted(_JOINT), quoted(_OLD))
        was = F.any_value(itself, F.lit(True)).alias("old")
        merged = placed.groupBy(_JOINT, *by).agg(*partials, was)

        old = quoted("old")
        end = quoted(_JOINT)["end"]
        passed = end <= changing(batch.watermark, end)
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


def edges(first: str, last: str) -> tuple[Column, Column]:
    """Return the least and the greatest of two edges of windows, as microseconds."""
    least = F.unix_micros(F.min(quoted(WINDOW)[first]))
    greatest = F.unix_micros(F.max(quoted(WINDOW)[last]))
    return least, greatest


def instants(found: Sequence[int]) -> list[Column]:
    """Return what `edges` found as instants."""
    return [F.timestamp_micros(F.lit(micros)) for micros in found]


def is_answered(side: Column) -> Column:
    """Return whether a window's answer was given: windows that are still open have no version."""
    return F.coalesce(side[VERSION], F.lit(0).cast("bigint")) > 0
