"""Windows that can still change: their current table, and a log of all their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from ..aggregates import Aggregate, merges
from ..columns import escaped, quoted, quoted_in, require, require_free, same_key
from ..commit import table
from ..commit.batch import Batch
from ..commit.once import commit_once
from ..commit.options import CHANGED, CommitOptions
from ..commit.outcome import Outcome
from ..errors import ArgumentError
from ..frames import sole
from ..jvm import delta_state
from .append import counts

WINDOW = "window"
VERSION = "version"
FINAL = "final"
PARTIALS = "partials"
_JOINT = "__tidegate_joint"
_OLD = "__tidegate_old"
_ROW = "t"
_NEW_ROW = "n"
_OURS = (VERSION, FINAL, PARTIALS)


class Meeting(Protocol):
    """Which windows become one: `tidegate.windows.Same` or `tidegate.windows.Overlapping`."""

    @property
    def by(self) -> Sequence[str]:
        """The key columns beside the window."""

    def met(self, stored: DataFrame, arrived: DataFrame) -> DataFrame:
        """Return the stored windows that meet a window that arrived."""

    def joint(self, rows: DataFrame, into: str) -> DataFrame:
        """Add the window that each row's window becomes part of."""


@dataclass(frozen=True)
class Corrected:
    """Merge each batch's windows into a table, exactly once, and log each answer that changes.

    The frame holds a window, the keys and one partial for each aggregate
    (`tidegate.aggregates.partials`): of windows that have closed, of late rows, or of a batch's own
    rows. Two tables are written, the log first.

    The log at `log` is append-only. Its columns:

    | column | what it is |
    |---|---|
    | window, keys | what the answers are of |
    | version, supersedes | the number of the entry, and of the entry that it replaces |
    | old, new | structs of the answers; null where there is none |
    | net | struct of new less old, of the answers that are numbers |
    | batch, watermark | the batch that logged the entry, and its watermark |

    Only windows that the watermark has passed are logged. A session that grew, or was joined with
    another, is withdrawn, with new null, and the session that it became is issued. The sum of a
    count's net is the sum of the table. `log=None` keeps no log.

    The table at `path` holds what is current: window, keys, answers, version (of the last entry in
    the log, 0 before the first), final (whether the watermark has passed the window's end) and
    partials, from which the next correction is made. Readers who want final answers alone filter by
    `final`. `rebuilt` makes the table's final rows out of the log.

    Whatever the batches and their order, the answers are those of all rows that were merged, up to
    the error of a sketch. A window becomes final, and is logged, with the first batch whose
    watermark has passed its end, and stays final.

    State: the current table. A batch reads the windows that it meets, found by the range of its
    times. A batch that meets none is appended, which costs less than a merge.

    Raises:
        ArgumentError: at construction.
        TableError (other columns), ReplayMismatchError, ConflictError: for a batch.

    >>> from tidegate.aggregates import count
    >>> from tidegate.windows import Same
    >>> views = {"views": count()}
    >>> sink = Corrected("/data/views", log="/data/log", windows=Same(["page"]), aggs=views)
    >>> sink.step
    'windows'
    """

    path: str
    _: KW_ONLY
    log: str | None
    windows: Meeting
    aggs: Mapping[str, Aggregate]
    step: str = "windows"

    def __post_init__(self) -> None:
        if not self.aggs:
            raise ArgumentError("aggs is empty.", "the aggregates whose partials the frame holds.")
        if self.path == self.log:
            raise ArgumentError(f"path and log are both {self.path}.", "two different tables.")
        require_free([WINDOW, *self.windows.by, *_OURS], self.aggs)

    @property
    def log_step(self) -> str:
        """The name of the log's step in the application id."""
        return f"{self.step}_log"

    @property
    def keys(self) -> list[str]:
        """The columns that make a row of the current table one."""
        return [WINDOW, *self.windows.by]

    def tables(self) -> list[tuple[str, str]]:
        """Return the log, where one is kept, and the current table."""
        log = [] if self.log is None else [(self.log, self.log_step)]
        return [*log, (self.path, self.step)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Merge the batch's windows, or skip them when the table already has this batch."""
        frame = sole(frames)
        require(frame, [*self.keys, *self.aggs], "keys and aggs")
        spark = frame.sparkSession
        changes = self._changes(spark, table.plain(frame), batch).persist()
        try:
            if self.log is not None:
                self._note(spark, changes, batch)

            def write(options: CommitOptions) -> None:
                self._settle(spark, changes, options)

            return commit_once(spark, self.path, batch, self.step, write, counts(rows_out))
        finally:
            changes.unpersist()

    def _changes(self, spark: SparkSession, frame: DataFrame, batch: Batch) -> DataFrame:
        """Return the windows that change, with what they were (`old`) and are (`new`).

        Either may be null. Columns: window, keys, old and new: structs of answers, version, final
        and partials.
        """
        arrived = self._arrived(frame)
        stored = self._met(spark, arrived, batch)
        rows = arrived if stored is None else stored.unionByName(arrived)
        placed = self.windows.joint(rows, _JOINT)
        issued = self._issued(placed, batch)
        nothing = F.lit(None).cast(issued.schema["new"].dataType)
        gone = placed.where(quoted(_OLD).isNotNull() & (quoted(WINDOW) != quoted(_JOINT)))
        withdrawn = gone.select(
            *map(quoted, self.keys), quoted(_OLD).alias("old"), nothing.alias("new")
        )
        return issued.unionByName(withdrawn)

    def _issued(self, placed: DataFrame, batch: Batch) -> DataFrame:
        """Return the windows that rows have become, with all their partials merged."""
        is_itself = quoted(WINDOW) == quoted(_JOINT)
        merged = placed.groupBy(_JOINT, *map(quoted, self.windows.by)).agg(
            *[merge.alias(name) for name, merge in merges(placed, self.aggs).items()],
            F.any_value(F.when(is_itself, quoted(_OLD)), F.lit(True)).alias("old"),
        )
        was_final = F.coalesce(quoted("old")[FINAL], F.lit(False))
        final = (quoted(_JOINT)["end"] <= F.lit(batch.watermark)) | was_final
        last_version = F.coalesce(quoted("old")[VERSION], F.lit(0).cast("bigint"))
        version = last_version + final.cast("bigint")
        return merged.select(
            quoted(_JOINT).alias(WINDOW),
            *map(quoted, self.windows.by),
            "old",
            self._value(version, final).alias("new"),
        )

    def _value(self, version: Column, final: Column) -> Column:
        """Return what the current table holds of a window, from its partials."""
        partials = F.struct(*[quoted(name).alias(name) for name in self.aggs])
        answers = [agg.finish(quoted(name)).alias(name) for name, agg in self.aggs.items()]
        return F.struct(
            *answers, version.alias(VERSION), final.alias(FINAL), partials.alias(PARTIALS)
        )

    def _arrived(self, frame: DataFrame) -> DataFrame:
        rows = frame.select(*map(quoted, self.keys), *map(quoted, self.aggs))
        nothing = F.when(F.lit(False), self._value(F.lit(0).cast("bigint"), F.lit(False)))
        return rows.withColumn(_OLD, nothing)

    def _met(self, spark: SparkSession, arrived: DataFrame, batch: Batch) -> DataFrame | None:
        """Return the stored windows that the batch meets, and those that became final since."""
        if delta_state(spark, self.path).version < 0:
            return None
        stored = spark.read.format("delta").load(self.path)
        time = quoted(WINDOW)
        first, last = _bounds(arrived, "start", "end")
        # Windows that earlier batches left open end after their watermark; Delta skips the files
        # of windows that ended before it.
        was_open = time["end"] > F.lit(batch.late_watermark)
        has_ended = time["end"] <= F.lit(batch.watermark)
        due = stored.where(~quoted(FINAL) & was_open & has_ended)
        met = due
        if first is not None:
            near = stored.where((time["end"] >= first) & (time["start"] <= last))
            settled = near.where(quoted(FINAL) | (time["end"] > F.lit(batch.watermark)))
            met = self.windows.met(settled, arrived).unionByName(due)
        value = F.struct(*[quoted(name) for name in (*self.aggs, *_OURS)])
        kept = met.withColumn(_OLD, value)
        return kept.select(
            *map(quoted, self.keys),
            *[quoted(PARTIALS)[name].alias(name) for name in self.aggs],
            quoted(_OLD),
        )

    def _note(self, spark: SparkSession, changes: DataFrame, batch: Batch) -> None:
        """Append the answers that are final now, or were, to the log."""
        path = str(self.log)
        old = quoted("old")
        new = quoted("new")
        was = _is_logged(old)
        now = _is_logged(new)
        entries = changes.where(was | now).select(
            *map(quoted, self.keys),
            F.coalesce(new[VERSION], old[VERSION] + F.lit(1)).alias(VERSION),
            F.when(was, old[VERSION]).alias("supersedes"),
            F.when(was, self._answers(old)).alias("old"),
            F.when(now, self._answers(new)).alias("new"),
            *self._net(changes, F.when(was, old), F.when(now, new)),
            F.lit(batch.number).cast("bigint").alias("batch"),
            F.lit(batch.watermark).alias("watermark"),
        )

        def write(options: CommitOptions) -> None:
            table.existing(entries, path, (), evolve=False)
            table.append(entries, path, (), options)

        commit_once(spark, path, batch, self.log_step, write, {})

    def _answers(self, side: Column) -> Column:
        return F.struct(*[side[name].alias(name) for name in self.aggs])

    def _net(self, changes: DataFrame, old: Column, new: Column) -> list[Column]:
        fields = {field.name: field.dataType for field in changes.select("new.*").schema}
        numbers = [name for name in self.aggs if isinstance(fields[name], NumericType)]
        zero = F.lit(0)
        net = [
            (F.coalesce(new[name], zero) - F.coalesce(old[name], zero)).alias(name)
            for name in numbers
        ]
        return [F.struct(*net).alias("net")] if net else []

    def _settle(self, spark: SparkSession, changes: DataFrame, options: CommitOptions) -> None:
        """Bring the current table up to date in one commit."""
        kept = changes.select(*map(quoted, self.keys), "new.*")
        state = table.existing(kept, self.path, (), evolve=False)
        if state is None or changes.where(quoted("old").isNotNull()).isEmpty():
            table.append(kept, self.path, (), options)
            return
        source = changes.select(*map(quoted, self.keys), "old", "new").alias(_NEW_ROW)
        near = F.col(f"{_ROW}.window.start").between(*_bounds(changes, "start", "start"))
        target = DeltaTable.forPath(spark, self.path).alias(_ROW)
        merge = target.merge(source, near & same_key(self.keys, _ROW, _NEW_ROW))
        new = F.col(f"{_NEW_ROW}.new")
        old_version = F.col(f"{_NEW_ROW}.old.{VERSION}")
        values: dict[str, str | Column] = {
            escaped(name): new.getField(name) for name in (*self.aggs, *_OURS)
        }
        # The window that was read must still be the window that is replaced.
        refused = F.raise_error(F.lit(CHANGED)).cast("bigint")
        unchanged = F.col(f"{_ROW}.{VERSION}").eqNullSafe(old_version)
        version = F.when(unchanged, new.getField(VERSION)).otherwise(refused)
        keys = {escaped(key): quoted_in(_NEW_ROW, key) for key in self.keys}
        merge = (
            merge.whenMatchedDelete(new.isNull())
            .whenMatchedUpdate(set={**values, escaped(VERSION): version})
            .whenNotMatchedInsert(new.isNotNull(), values={**values, **keys})
        )
        options.merge(spark, self.path, merge)


def rebuilt(log: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """Return the answers that a log of corrections ends with: the final rows of the current table.

    Columns: window, keys, one column an answer, version.
    """
    require(log, [WINDOW, *by], "by")
    newest = Window.partitionBy(quoted(WINDOW), *map(quoted, by)).orderBy(F.desc(VERSION))
    last = log.withColumn(_JOINT, F.row_number().over(newest)).where(
        (quoted(_JOINT) == 1) & quoted("new").isNotNull()
    )
    return last.select(quoted(WINDOW), *map(quoted, by), "new.*", VERSION)


def _bounds(rows: DataFrame, first: str, last: str) -> tuple[Any, Any]:
    """Return the least `first` and the greatest `last` of the rows' windows; None without a row."""
    least = F.unix_micros(F.min(quoted(WINDOW)[first]))
    greatest = F.unix_micros(F.max(quoted(WINDOW)[last]))
    found = rows.agg(least, greatest).head()
    if found is None or found[0] is None:
        return None, None
    return F.timestamp_micros(F.lit(found[0])), F.timestamp_micros(F.lit(found[1]))


def _is_logged(side: Column) -> Column:
    """Return whether the log has an entry of the answers in this struct, or is to have one."""
    return F.coalesce(side[VERSION], F.lit(0).cast("bigint")) > 0
