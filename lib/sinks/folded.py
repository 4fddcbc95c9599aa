"""The states that a log of events gives, kept in a table batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..changes import Fold
from ..changes.folding import FAULT, SNAPSHOTS, WAS, advanced
from ..columns import quoted, require_whole
from ..commit import table
from ..commit.batch import Batch
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once, last_batch
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..errors import ArgumentError, ColumnTypeError
from ..frames import sole
from ..jvm import release
from ._states import StateTable
from ._targets import require_target
from .append import counts


@dataclass(frozen=True)
class Folded:
    """Keep the state of each key that a fold makes of its events, exactly once for each batch.

    A batch's events are folded onto the states that the table has, in the order of the log. Each
    state bears the place of its last event, and an event at that offset or before it changes
    nothing: neither the cut of batches nor what is read again changes the answer, which is that of
    `tidegate.changes.folded` over the whole log.

    With `snapshots`, a path, the state of a key after every `every` events is appended to a second
    table, wherever batches are cut. `tidegate.changes.folded_as_of` begins with them. The second
    table is written first; both have the columns that `folded` returns.

    A table is bound to its fold: another is refused, since it would go on from states that it did
    not make. A changed fold, or one more view of the log, is a job of its own with new tables, and
    catches up with `Job.backlog`.

    The events of a key in one batch are in memory together. Each batch scans the table for its
    keys: partition or cluster it by what keys have in common. Nobody else may write rows to it.

    Events that the fold ignores are kept by a second sink: `FanOut(folded, also=[Mapped(rows=
    fold.set_aside, sink=Append("/data/unknown", step="unknown"))])`.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
        ColumnError (a key in two partitions, an unknown event that is refused), TableError (another
            fold, other columns), ReplayMismatchError, ConflictError: for a batch, before anything
            of it is written.

    >>> from tidegate.changes import Fold
    >>> seen = Fold(
    ...     key="user",
    ...     kind="page",
    ...     initial={"starts": (0, "BIGINT")},
    ...     on={"/": {"starts": "state.starts + 1"}},
    ... )
    >>> Folded("/data/users", fold=seen, snapshots="/data/user_snapshots").tables()
    [('/data/user_snapshots', 'state_snapshots'), ('/data/users', 'state')]
    """

    path: str
    _: KW_ONLY
    fold: Fold
    snapshots: str | None = None
    every: int = 100
    layout: Layout = ANY
    step: str = "state"

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout, self)
        if not isinstance(self.fold, Fold):
            raise ColumnTypeError(
                f"fold is {self.fold!r}, a {type(self.fold).__name__}.", "a Fold."
            )
        require_whole(self.every, "every", 1, 2**31 - 1)
        if self.snapshots is not None:
            require_target(self.snapshots, self.step)
            if self.snapshots.rstrip("/") == self.path.rstrip("/"):
                raise ArgumentError(
                    f"path and snapshots are both {self.path}.", "a table of its own for each."
                )

    def tables(self) -> list[tuple[str, str]]:
        """Return the table of snapshots, if there is one, and that of the states."""
        taken = [] if self.snapshots is None else [(self.snapshots, self._second)]
        return [*taken, (self.path, self.step)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Fold the events, or skip them when the table already has this batch."""
        events = self.fold.checked(table.plain(sole(frames)))
        spark = events.sparkSession
        done = last_batch(spark, self.path, batch, self.step)
        if done is not None and done >= batch.number:
            # The table refuses a batch of this number that is another one, and skips this one.
            return commit_once(spark, self.path, batch, self.step, _nothing, counts(rows_out))
        rows = self._advanced(events).localCheckpoint()
        try:
            self._states.require_sound(rows)
            self._keep_snapshots(rows, batch)

            def commit(options: CommitOptions) -> None:
                self._states.replace(rows.drop(SNAPSHOTS, FAULT), options)

            return commit_once(spark, self.path, batch, self.step, commit, counts(rows_out))
        finally:
            release(rows)

    @property
    def _second(self) -> str:
        return f"{self.step}_snapshots"

    @property
    def _states(self) -> StateTable:
        return StateTable(self.path, tuple(self.fold.key), self.fold.told(), self.layout)

    def _advanced(self, events: DataFrame) -> DataFrame:
        """Return the states after the batch, from those that the table has now."""
        every = None if self.snapshots is None else self.every
        shape = advanced(events, self.fold).drop(WAS, SNAPSHOTS, FAULT)
        return advanced(events, self.fold, self._states.stored(shape), every=every)

    def _keep_snapshots(self, rows: DataFrame, batch: Batch) -> None:
        """Append the snapshots that the batch gives, if there are any."""
        if self.snapshots is None:
            return
        name = "__tidegate_snapshot"
        one = rows.select(
            *map(quoted, self.fold.key), "topic", "partition", F.explode(SNAPSHOTS).alias(name)
        )
        if one.isEmpty():
            return
        columns = [
            quoted(each) if each in one.columns else quoted(name)[each].alias(each)
            for each in rows.drop(WAS, SNAPSHOTS, FAULT).columns
        ]
        taken = one.select(*columns)
        second = StateTable(self.snapshots, tuple(self.fold.key), self.fold.told())

        def commit(options: CommitOptions) -> None:
            second.stored(taken)
            second.append(taken, options)

        commit_once(rows.sparkSession, self.snapshots, batch, self._second, commit, {})


def _nothing(_: CommitOptions) -> None:
    """Write nothing: the table has the batch."""
