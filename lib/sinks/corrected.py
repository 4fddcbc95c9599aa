"""Windows that can still change: their current table, and a log of all their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from ..columns import escaped, quoted, quoted_in, require, require_free, require_storable, same_key
from ..commit import table
from ..commit.batch import Batch
from ..commit.guarded import guarded
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..errors import ArgumentError, ColumnTypeError
from ..eventtime.changing import changing, changing_number
from ..frames import sole
from ..jvm import delta_state
from ..windows import Windowed
from ..windows.merging import WINDOW
from ._ended import note_end
from ._targets import require_target
from ._window_changes import OWN, VERSION, WindowChanges, edges, instants, is_answered
from .append import counts

_STORED = "stored"
_CHANGED = "changed"


@dataclass(frozen=True)
class Corrected:
    """Merge each batch's windows into a table, exactly once, and log each answer that changes.

    The frame holds a window, the keys and one partial for each aggregate, as `windowed.partials()`
    makes them: of windows that have closed, of late rows, or of a batch's own rows. Two tables are
    written, the log first.

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
    times. A batch that meets none is appended, which costs less than a merge; where windows are no
    sessions, and none before has come late, without a look at the table.

    Args:
        path: the current table.
        windowed: the windows, which the job's transform makes; any but sliding ones.
        log: the log's table, or None.
        step: the name of the commits in the application id; the log's ends in "_log".
        layout, log_layout: how the two tables are laid out.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.
        TableError: for other columns than the tables have.
        ReplayMismatchError, ConflictError: for tables that are not this query's, or that have other
            writers.

    >>> from tidegate.aggregates import count
    >>> from tidegate.windows import Tumbling
    >>> views = Windowed(Tumbling("1 minute"), by="page", aggs={"views": count()})
    >>> Corrected("/data/views", windowed=views, log="/data/log").tables()
    [('/data/log', 'windows_log'), ('/data/views', 'windows')]
    """

    path: str
    _: KW_ONLY
    windowed: Windowed
    log: str | None
    step: str = "windows"
    layout: Layout = ANY
    log_layout: Layout = ANY

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout, self)
        require_target(self.path, self.step, self.log_layout)
        if not isinstance(self.windowed, Windowed):
            raise ColumnTypeError(
                f"windowed is {self.windowed!r}, a {type(self.windowed).__name__}.",
                "the windows that the job's transform makes.",
                'Windowed(Tumbling("1 minute"), by="page", aggs={...})',
            )
        if self.path == self.log:
            raise ArgumentError(f"path and log are both {self.path}.", "two different tables.")
        aggs = self.windowed.mergeable
        require_free([WINDOW, *self.windowed.by, *OWN], aggs)
        require_storable(self.windowed.by, "by")
        require_storable(aggs, "aggs")

    @property
    def log_step(self) -> str:
        """The name of the log's step in the application id."""
        return f"{self.step}_log"

    @property
    def keys(self) -> list[str]:
        """The columns that make a row of the current table one."""
        return [WINDOW, *self.windowed.by]

    def tables(self) -> list[tuple[str, str]]:
        """Return the log, where one is kept, and the current table."""
        log = [] if self.log is None else [(self.log, self.log_step)]
        return [*log, (self.path, self.step)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Merge the batch's windows, or skip them when the table already has this batch."""
        frame = table.plain(sole(frames))
        require(frame, [*self.keys, *self.windowed.aggs], "keys and aggs")
        spark = frame.sparkSession
        merging = self._window_changes(frame, batch)
        state = delta_state(spark, self.path)
        stored = merging.concerned(state, self.path)
        changes = merging.of(stored).persist()
        try:
            if self.log is not None:
                self._note(spark, self.log, changes, batch)

            def commit(options: CommitOptions) -> None:
                self._settle(spark, changes, options)

            outcome = commit_once(spark, self.path, batch, self.step, commit, counts(rows_out))
        finally:
            changes.unpersist()
        if stored is None and state.version >= 0:
            note_end(delta_state(spark, self.path), batch.watermark, after=state)
        return outcome

    def _window_changes(self, frame: DataFrame, batch: Batch) -> WindowChanges:
        if self.windowed.merging is None:
            raise ArgumentError(f"windowed is {self.windowed!r}.", "windows that can be merged.")
        return WindowChanges(self.windowed, self.windowed.merging, frame, batch)

    def _note(self, spark: SparkSession, path: str, changes: DataFrame, batch: Batch) -> None:
        """Append the answers that are final now, or were, to the log."""
        old = quoted("old")
        new = quoted("new")
        was = is_answered(old)
        now = is_answered(new)
        end = quoted(WINDOW)["end"]
        # A window that is withdrawn has no new version: its entry is the one after the last.
        version = F.coalesce(new[VERSION], old[VERSION] + F.lit(1))
        entries = changes.where(was | now).select(
            *map(quoted, self.keys),
            version.alias(VERSION),
            F.when(was, old[VERSION]).alias("supersedes"),
            F.when(was, self._answers(old)).alias("old"),
            F.when(now, self._answers(new)).alias("new"),
            *self._net(changes, F.when(was, old), F.when(now, new)),
            changing_number(batch.number, F.unix_micros(end)).alias("batch"),
            changing(batch.watermark, end).alias("watermark"),
        )

        def commit(options: CommitOptions) -> None:
            table.existing(entries, path, self.log_layout, evolve=False)
            table.append(entries, path, options, self.log_layout)

        commit_once(spark, path, batch, self.log_step, commit, {})

    def _answers(self, side: Column) -> Column:
        return F.struct(*[side[name].alias(name) for name in self.windowed.aggs])

    def _net(self, changes: DataFrame, old: Column, new: Column) -> list[Column]:
        """Return the struct of new less old, of the answers that are numbers, if there are any."""
        kinds = {field.name: field.dataType for field in changes.select("new.*").schema}
        zero = F.lit(0)
        net = [
            (F.coalesce(new[name], zero) - F.coalesce(old[name], zero)).alias(name)
            for name in self.windowed.aggs
            if isinstance(kinds[name], NumericType)
        ]
        return [F.struct(*net).alias("net")] if net else []

    def _settle(self, spark: SparkSession, changes: DataFrame, options: CommitOptions) -> None:
        """Bring the current table up to date in one commit."""
        rows = changes.select(*map(quoted, self.keys), "new.*")
        state = table.existing(rows, self.path, self.layout, evolve=False)
        # One pass, which also makes the changes that are kept.
        met = F.count(quoted("old")).alias("met")
        found = changes.agg(met, *edges("start", "start")).head()
        if state is None or found is None or not found["met"]:
            # Windows that meet none are new, and none is withdrawn.
            table.append(rows, self.path, options, self.layout)
        else:
            _, *starts = found
            self._merge(spark, changes, instants(starts), options)

    def _merge(
        self,
        spark: SparkSession,
        changes: DataFrame,
        starts: Sequence[Column],
        options: CommitOptions,
    ) -> None:
        source = changes.select(*map(quoted, self.keys), "old", "new")
        old = quoted_in(_CHANGED, "old")
        new = quoted_in(_CHANGED, "new")
        values: dict[str, str | Column] = {
            escaped(name): new[name] for name in (*self.windowed.aggs, *OWN)
        }
        unchanged = quoted_in(_STORED, VERSION).eqNullSafe(old[VERSION])
        checked = guarded(new[VERSION], unchanged, "bigint")
        keys: dict[str, str | Column] = {
            escaped(name): quoted_in(_CHANGED, name) for name in self.keys
        }
        # By their range Delta skips most files.
        near = quoted_in(_STORED, WINDOW)["start"].between(*starts)
        same = same_key(self.keys, _STORED, _CHANGED) & near
        merge = (
            DeltaTable.forPath(spark, self.path)
            .alias(_STORED)
            .merge(source.alias(_CHANGED), same)
            .whenMatchedDelete(new.isNull())
            .whenMatchedUpdate(set={**values, escaped(VERSION): checked})
            .whenNotMatchedInsert(new.isNotNull(), values={**values, **keys})
        )
        options.merge(spark, self.path, merge)
