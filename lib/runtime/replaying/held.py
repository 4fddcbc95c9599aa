"""A replay's tables held against those of the job, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ...columns import quoted, quoted_in
from ...commit.batch import Batch
from ...commit.epochs import EpochFiles
from ...commit.identity import Identity, TableMark
from ...commit.once import untouched
from ...commit.table import at_version
from ...differences import Differences, differences
from ...errors import CheckpointError, ColumnTypeError, ReplayMismatchError
from ...offsets import at_place
from ...sinks import Corrected, Upsert
from ...windows import Windowed
from ..job import Job
from ..query.comparable import EXACT, freshness, innermost
from .before import of_after, of_before, since
from .found import Held
from .noted import Noted, at_the_end

_OF_BATCHES = ("version", "final", "partials")
"""Columns of windows that were corrected, which tell of batches and not of windows."""


def held(job: Job, new: Job, at: Noted, spark: SparkSession, *, ignore: Sequence[str] = ()) -> Held:
    """Compare the target of a replay with that of the job, as it was when the replay began.

    Of final results those are compared that had to be out in both; everything else whole. Raises
    ColumnTypeError for tables without a common column, or without the time of a result.
    """
    last = at_the_end(new, at, spark)
    identity = EpochFiles(spark, new.places.checkpoint).read()
    assert identity is not None  # It has a last batch.
    return _Both(job, new, at, last, identity, spark).held(ignore)


@dataclass(frozen=True)
class _Both:
    """The job and its replay."""

    job: Job
    new: Job
    at: Noted
    last: Batch
    identity: Identity
    spark: SparkSession

    def held(self, ignore: Sequence[str]) -> Held:
        """Return how the targets differ."""
        step = self.new.sink.step
        old, new = self._old(step), self._new(step)
        until = self._until()
        columns = [name for name in new.columns if name in old.columns]
        alone = [
            name for name in dict.fromkeys([*old.columns, *new.columns]) if name not in columns
        ]
        if not columns:
            raise ColumnTypeError(
                f"{self.job.sink.path} has the columns {', '.join(old.columns)}, and the replay "
                f"has {', '.join(new.columns)}.",
                "tables with columns in common.",
            )
        kept = [*ignore, *self._of_batches(columns)]
        before = of_before(self.new, self.at, self.spark, old).count()
        old = of_after(self.new, self.at, self.spark, old)
        old, new = (self._certain(each, until, columns) for each in (old, new))
        keys = [name for name in self._keys() if name in columns and name not in kept]
        found = differences(old, new, keys=keys, ignore=kept)
        late = [self._late(name) for name in self.new.inputs]
        unexplained = None
        if not found.agree and set(self._window_keys()) <= set(columns):
            unexplained = self._unexplained(old, new, late, keys, kept)
        return Held(
            target=self.job.sink.path,
            replayed=self.new.sink.path,
            found=found,
            until=until,
            since=since(self.at),
            before=before,
            late=(sum(then.count() for then, _ in late), sum(now.count() for _, now in late)),
            unexplained=unexplained,
            rows={step: (self._old(step).count(), self._new(step).count()) for step in self._steps},
            columns=alone,
        )

    @property
    def _steps(self) -> list[str]:
        return sorted({*self.at.tables, *self.identity.tables})

    def _old(self, step: str) -> DataFrame:
        """Return a table of the job, as it was when the replay began."""
        mark = self.at.tables.get(step)
        if mark is not None and untouched(self.spark, mark.path).id != mark.id:
            raise ReplayMismatchError(
                f"{mark.path} is no longer the table {mark.id} that it was when the replay began.",
                "the job's tables where they were.",
                "put the table back; or delete the replay, and replay again.",
            )
        return self._read(mark)

    def _new(self, step: str) -> DataFrame:
        return self._read(self.identity.tables.get(step))

    def _read(self, mark: TableMark | None) -> DataFrame:
        if mark is None:
            return self.spark.createDataFrame([], "nothing INT")
        return at_version(self.spark, mark.path, mark.version)

    def _until(self) -> datetime | None:
        """Return up to which instant results must be out in both tables."""
        transform = self.new.transform
        if transform is None or transform.result_time is None or self.new.emission != "final":
            return None
        until = min(self.last.watermark, self.at.closed) - freshness(self.new)
        begun = since(self.at)
        if begun is not None and until <= begun:
            checkpoint, reached = self.new.places.checkpoint, self.last.watermark
            raise CheckpointError(
                f"{checkpoint} has reached {reached.isoformat()}, and its results are whole after "
                f"{begun.isoformat()}: there is nothing to compare.",
                "a replay that closes whole results.",
                "an earlier --from, by which each partition has records that are read.",
            )
        return until

    def _certain(
        self, rows: DataFrame, until: datetime | None, columns: Sequence[str]
    ) -> DataFrame:
        transform = self.new.transform
        if until is not None and transform is not None and transform.result_time is not None:
            rows = rows.where(transform.result_time <= F.lit(until))
        return rows.select(*map(quoted, columns))

    def _of_batches(self, columns: Sequence[str]) -> list[str]:
        changing = isinstance(innermost(self.new.sink), Corrected)
        return [name for name in _OF_BATCHES if changing and name in columns]

    def _keys(self) -> Sequence[str]:
        sink = innermost(self.new.sink)
        return list(sink.keys) if isinstance(sink, Upsert) else self._window_keys() or []

    def _window_keys(self) -> list[str]:
        """Return the columns of which a row's windows are known by the row alone."""
        transform = self.new.transform
        if isinstance(transform, Windowed) and isinstance(transform.window, EXACT):
            return ["window", *transform.by]
        return []

    def _late(self, name: str) -> tuple[DataFrame, DataFrame]:
        """Return the rows of an input that were late in the job alone, and in the replay alone."""
        step = self.new.places.late[name].step
        then, now = self._old(step), self._new(step)
        place = list(self.new.inputs[name].reading.place)
        if self.at.middle is not None and "nothing" not in then.columns:
            topic, partition, offset = map(quoted, place)
            then = then.where(
                offset >= F.coalesce(at_place(self.at.start, topic, partition), F.lit(0))
            )
        if "nothing" in then.columns or "nothing" in now.columns:
            none = "nothing"
            return (
                then if none not in then.columns else then.limit(0),
                now if none not in now.columns else now.limit(0),
            )
        return then.join(now, place, "left_anti"), now.join(then, place, "left_anti")

    def _unexplained(
        self,
        old: DataFrame,
        new: DataFrame,
        late: Sequence[tuple[DataFrame, DataFrame]],
        keys: Sequence[str],
        ignore: Sequence[str],
    ) -> Differences | None:
        """Return the differences of windows without a row that was late in one of the two."""
        by = self._window_keys()
        columns = next(iter(self.new.inputs.values())).reading.columns
        rows = [each for pair in late for each in pair if set(columns) <= set(each.columns)]
        if not by or not rows or self.new.transform is None:
            return None
        odd = reduce(DataFrame.unionByName, [each.select(*map(quoted, columns)) for each in rows])
        windows = self.new.transform(odd).select(*map(quoted, by)).distinct()
        left = [_without(each, windows, by) for each in (old, new)]
        return differences(*left, keys=keys, ignore=ignore)


def _without(rows: DataFrame, windows: DataFrame, by: Sequence[str]) -> DataFrame:
    """Leave out the rows of some windows; null is a value like any other."""
    own, other = rows.alias("own"), windows.alias("other")
    same = [quoted_in("own", name).eqNullSafe(quoted_in("other", name)) for name in by]
    return own.join(other, reduce(Column.__and__, same), "left_anti")
