"""Windows that can still change: their current table, and a log of all their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame

from ..columns import escaped, quoted, quoted_in, require, require_free, require_storable, same_key
from ..commit import table
from ..commit.batch import Batch
from ..commit.guarded import guarded
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..commit.side_by_side import committed_before
from ..errors import ArgumentError, ColumnTypeError
from ..frames import sole
from ..jvm import delta_state
from ..windows import Windowed
from ..windows.merging import WINDOW
from ._answer_log import entries
from ._ended import note_end
from ._targets import require_target
from ._window_changes import OWN, VERSION, WindowChanges
from .append import counts

_STORED = "stored"
_CHANGED = "changed"


@dataclass(frozen=True)
class Corrected:
    """Merge each batch's windows into a table, exactly once, and log each answer that changes.

    The frame holds a window, the keys and one partial for each aggregate, as `windowed.partials()`
    makes them: of windows that have closed, of late rows, or of a batch's own rows. Two tables are
    written side by side, of which the log is committed first.

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
        changes, meets = merging.against(state, self.path)
        if self.log is not None or meets is None:
            # Otherwise they are read once; and of what it merges Delta keeps a copy of its own.
            changes.persist()

        def commit(options: CommitOptions) -> None:
            self._settle(merging, changes, options, meets=meets)

        try:
            with committed_before(batch, spark, self._log_writes(changes, batch)) as waiting:
                outcome = commit_once(
                    spark, self.path, waiting, self.step, commit, counts(rows_out)
                )
        finally:
            changes.unpersist()
        if meets is False and merging.have_ended:
            note_end(delta_state(spark, self.path), batch.watermark, after=state)
        return outcome

    def _window_changes(self, frame: DataFrame, batch: Batch) -> WindowChanges:
        if self.windowed.merging is None:
            raise ArgumentError(f"windowed is {self.windowed!r}.", "windows that can be merged.")
        return WindowChanges(self.windowed, self.windowed.merging, frame, batch)

    def _log_writes(self, changes: DataFrame, batch: Batch) -> list[Callable[[], object]]:
        """Return what is written to the log, where one is kept, beside the current table."""
        if self.log is None:
            return []
        path, layout = self.log, self.log_layout
        spark = changes.sparkSession

        def commit(options: CommitOptions) -> None:
            rows = entries(changes, self.keys, list(self.windowed.aggs), batch)
            table.existing(rows, path, layout, evolve=False)
            table.append(rows, path, options, layout)

        write = partial(commit_once, spark, path, batch, self.log_step, commit, {})
        if layout.is_made_apart(delta_state(spark, path)):
            # A merge into the current table would let the commit that makes the log bear its stamp.
            write()
            return []
        return [write]

    def _settle(
        self,
        merging: WindowChanges,
        changes: DataFrame,
        options: CommitOptions,
        *,
        meets: bool | None,
    ) -> None:
        """Bring the current table up to date in one commit.

        meets: whether windows of the table may be among those that the batch changes; None where
            these have to be asked.
        """
        rows = changes.select(*map(quoted, self.keys), "new.*")
        table.existing(rows, self.path, self.layout, evolve=False)
        if meets is None:
            meets = not changes.where(quoted("old").isNotNull()).isEmpty()
        if meets:
            self._merge(merging, changes, options)
        else:
            # Windows that meet none are new, and none is withdrawn.
            table.append(rows, self.path, options, self.layout)

    def _merge(self, merging: WindowChanges, changes: DataFrame, options: CommitOptions) -> None:
        spark = changes.sparkSession
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
        near = merging.near(quoted_in(_STORED, WINDOW))
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
