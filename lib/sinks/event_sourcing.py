"""Sinks for event sourcing: the state of each key by a projection or a command handler."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..changelogs import Decider, Fold
from ..changelogs.decider import OUTCOMES, decide_by_key, outcome_rows
from ..changelogs.fold import FOLD_METADATA_COLUMN, FOLD_METADATA_KEY, changed_parts
from ..changelogs.fold_events import FAULT, PREVIOUS_OFFSET, SNAPSHOTS, fold_batch
from ..columns import (
    first_reason,
    quoted_column,
    quoted_column_in,
    require_instance,
    require_integer,
    same_key,
)
from ..commit.batch import CommitContext
from ..commit.delta_commit import commit_once
from ..commit.protocol import Outcome
from ..delta import delta_table as table
from ..delta.commit_options import CommitOptions
from ..delta.delta_table import SOURCE_ALIAS, TARGET_ALIAS, guarded_assignments
from ..delta.row_constraints import storage_faults
from ..delta.table_layout import ANY_LAYOUT, TableLayout
from ..errors import ArgumentError, ColumnError, TableError
from ..input_frames import ROWS, only_frame
from ..jvm import release_checkpointed_rows
from .append import Append
from .base import Sink, require_distinct_paths, require_target

_SNAPSHOT = "__tidegate_snapshot"


@dataclass(frozen=True)
class StateTable:
    """A table of states; `definition` describes the fold or decider that computes them."""

    path: str
    key: Sequence[str]
    definition: str
    layout: TableLayout = ANY_LAYOUT

    def read_states(self, rows: DataFrame) -> DataFrame | None:
        """Return the stored states, or None if the table does not exist.

        Raises TableError if columns or the definition differ.
        """
        state = table.require_matching_schema(rows, self.path, self.layout, evolve=False)
        if state is None:
            return None
        stored_definition = state.schema()[FOLD_METADATA_COLUMN].metadata.get(FOLD_METADATA_KEY, "")
        if stored_definition != self.definition:
            changes = changed_parts(stored_definition, self.definition)
            raise TableError(
                f"table {self.path} was computed by a different fold; nothing was written",
                f"the stored definition; changed: {', '.join(changes)}",
                "a new job with new tables and backfill_threshold=0",
            )
        return rows.sparkSession.read.format("delta").load(self.path)

    def raise_faults(self, rows: DataFrame) -> None:
        """Raise ColumnError if a row has a fault."""
        fault_row = rows.where(quoted_column(FAULT).isNotNull()).select(FAULT).head()
        if fault_row is not None:
            raise ColumnError(
                f"invalid event: {fault_row[0]}; nothing was written to {self.path}",
                "all events of a key in one partition, each of a type that the fold handles",
                "the key as the Kafka record key; or on_unknown='ignore' in the fold",
            )

    def append(self, rows: DataFrame, options: CommitOptions) -> None:
        """Append states; the first append stores the definition in the table."""
        marked = table.without_column_metadata(rows).withMetadata(
            FOLD_METADATA_COLUMN, {FOLD_METADATA_KEY: self.definition}
        )
        table.append(marked, self.path, options, self.layout, with_metadata=True)

    def replace(self, rows: DataFrame, options: CommitOptions) -> None:
        """Replace the states that these were computed from, by PREVIOUS_OFFSET."""
        # A key whose events were all applied before does not change.
        changed = rows.where(
            quoted_column(PREVIOUS_OFFSET).isNull()
            | (quoted_column("offset") > quoted_column(PREVIOUS_OFFSET))
        )
        states = changed.drop(PREVIOUS_OFFSET)
        if self.read_states(states) is None:
            self.append(states, options)
            return
        columns = states.columns
        previous_offset = quoted_column_in(SOURCE_ALIAS, PREVIOUS_OFFSET)
        unchanged = quoted_column_in(TARGET_ALIAS, "offset").eqNullSafe(previous_offset)
        updated = guarded_assignments(columns, "offset", unchanged, "bigint")
        inserted = guarded_assignments(columns, "offset", previous_offset.isNull(), "bigint")
        spark = rows.sparkSession
        merge = table.start_merge(spark, self.path, changed, same_key(self.key))
        merge = merge.whenMatchedUpdate(set=updated).whenNotMatchedInsert(values=inserted)
        options.merge(spark, self.path, merge)


class StateSink(Sink):
    """Base class of sinks that compute the state of each key from a log and its stored state."""

    results: ClassVar[str]
    """The array column of states with the results that go to other tables."""

    layout: TableLayout
    supports_backfill = True

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Compute the states, or skip the batch if the table already contains it."""
        definition = self._definition
        log = definition.validate(table.without_column_metadata(only_frame(frames)))
        spark = log.sparkSession
        if self._is_committed(spark, batch):
            # Skips the batch, or refuses a different batch with the same number.
            return self._commit_once(spark, batch, lambda _: None, rows_out)
        state_table = StateTable(self.path, definition.key, definition.describe(), self.layout)
        columns = self._compute_states(log, None).drop(PREVIOUS_OFFSET, self.results, FAULT)
        stored_states = state_table.read_states(columns)
        states = self._compute_states(log, stored_states).localCheckpoint()

        def commit(options: CommitOptions) -> None:
            state_table.replace(states.drop(self.results, FAULT), options)

        try:
            state_table.raise_faults(states)
            self._write_results(states, batch)
            return self._commit_once(spark, batch, commit, rows_out)
        finally:
            release_checkpointed_rows(states)

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why a table cannot store the state of a row's key."""
        layouts = [self.layout if path == self.path else ANY_LAYOUT for path, _ in self.tables()]
        faults = [
            fault
            for (path, _), layout in zip(self.tables(), layouts, strict=True)
            for fault in storage_faults(rows, path, layout, self._definition.key)
        ]
        return first_reason(faults)

    @property
    @abstractmethod
    def _definition(self) -> Fold | Decider: ...

    @abstractmethod
    def _compute_states(self, log: DataFrame, stored: DataFrame | None) -> DataFrame:
        """Return the states after a batch of the log, with PREVIOUS_OFFSET, results and FAULT."""

    @abstractmethod
    def _write_results(self, states: DataFrame, batch: CommitContext) -> None:
        """Write the results to their tables."""


@dataclass(frozen=True)
class Projection(StateSink):
    """Maintain the state of each key, which a fold computes from its events, exactly once.

    The events of a batch are folded onto the stored states in log order. A state contains the
    offset of its last event, and events at or before it are ignored. The result depends neither on
    batch boundaries nor on events that are read again; it equals `tidegate.changelogs.fold_events`
    over the complete log.

    With `snapshots`, the state after every `snapshot_every` events of a key is appended to a second
    table, independently of batch boundaries; `tidegate.changelogs.fold_events_as_of` starts from
    these snapshots. It is written first. Both tables have the columns of `fold_events`.

    A table is bound to its fold; a different fold is rejected. A changed fold, like a further view
    of the log, is a new job with new tables that catches up by a backfill.

    The events of a key in one batch must fit in memory. Each batch scans the table as that of
    `Upsert`. No other writer may change rows.

    A second sink stores events that the fold ignores:
    `FanOut(projection, other_sinks=[MapRows(rows=fold.unknown_events, sink=Append("/data/unknown",
    output="unknown"))])`.

    Args:
        path: path of the table of states.
        fold: computes the states.
        snapshots: path of the table of snapshots, or None.
        snapshot_every: number of events of a key between two snapshots.
        layout, output: as for `Append`.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
        ColumnError: for a key in two partitions, or an unknown event; nothing is written.
        TableError: for a table of a different fold or with different columns; nothing is written.
        TableMismatchError, ConflictError: for a batch, before anything is written.

    >>> from tidegate.changelogs import Fold
    >>> visits = Fold(
    ...     key="user",
    ...     type_column="page",
    ...     initial={"starts": (0, "BIGINT")},
    ...     handlers={"/": {"starts": "state.starts + 1"}},
    ... )
    >>> Projection("/data/users", fold=visits, snapshots="/data/user_snapshots").tables()
    [('/data/user_snapshots', 'state_snapshots'), ('/data/users', 'state')]
    """

    plan_name: ClassVar[str] = "projection"
    results: ClassVar[str] = SNAPSHOTS

    path: str
    _: KW_ONLY
    fold: Fold
    snapshots: str | None = None
    snapshot_every: int = 100
    layout: TableLayout = ANY_LAYOUT
    output: str = "state"

    def __post_init__(self) -> None:
        require_target(self.path, self.output, self.layout, self)
        require_instance(self.fold, "fold", Fold, "fold=Fold(key=..., handlers=...)")
        require_integer(self.snapshot_every, "snapshot_every", 1, 2**31 - 1)
        if self.snapshots is not None:
            require_target(self.snapshots, self.output)
            if self.snapshots.rstrip("/") == self.path.rstrip("/"):
                raise ArgumentError(
                    f"invalid snapshots: {self.snapshots!r} is also path", "a different table"
                )

    def tables(self) -> list[tuple[str, str]]:
        """Return the table of snapshots, if any, and the table of states."""
        target = (self.path, self.output)
        if self.snapshots is None:
            return [target]
        return [(self.snapshots, f"{self.output}_snapshots"), target]

    @property
    def _definition(self) -> Fold:
        return self.fold

    def _compute_states(self, log: DataFrame, stored: DataFrame | None) -> DataFrame:
        snapshot_every = None if self.snapshots is None else self.snapshot_every
        return fold_batch(log, self.fold, stored, snapshot_every=snapshot_every)

    def _write_results(self, states: DataFrame, batch: CommitContext) -> None:
        if self.snapshots is None:
            return
        (path, output), _ = self.tables()
        keys = map(quoted_column, self.fold.key)
        exploded = states.select(*keys, "topic", "partition", F.explode(SNAPSHOTS).alias(_SNAPSHOT))
        if exploded.isEmpty():
            return
        columns = [
            quoted_column(name)
            if name in exploded.columns
            else quoted_column(_SNAPSHOT)[name].alias(name)
            for name in states.drop(PREVIOUS_OFFSET, SNAPSHOTS, FAULT).columns
        ]
        snapshot_rows = exploded.select(*columns)
        snapshot_table = StateTable(path, self.fold.key, self.fold.describe())

        def commit(options: CommitOptions) -> None:
            snapshot_table.read_states(snapshot_rows)
            snapshot_table.append(snapshot_rows, options)

        commit_once(states.sparkSession, path, batch, output, commit, {})


@dataclass(frozen=True)
class CommandHandler(StateSink):
    """Evaluate each command of a log once; store its event or refusal, and the state of its key.

    The commands of a batch are decided in log order, starting from the stored states. A state
    contains the offset of the last command, and commands at or before it are skipped, so decisions
    depend neither on batch boundaries nor on commands that are read again.

    Three tables are written, each exactly once per batch, in this order: `events`, one row per
    accepted command with its offset, from which `fold_events` computes the states; `refusals` with
    the reason; the target with the states, as a `Projection` stores them. An event is visible at
    most one batch before its state. A batch without rows for `events` or `refusals` does not write
    that table.

    Args:
        path: path of the table of states.
        decider: decides commands and applies events.
        events: path of the table of events.
        refusals: path of the table of refusals.
        layout, output: as for `Append`.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
        ColumnError, TableError, TableMismatchError, ConflictError: for a batch, as `Projection`.

    >>> from tidegate.changelogs import Command, Fold
    >>> balance = Fold(
    ...     key="account",
    ...     type_column="type",
    ...     initial={"balance": (0, "BIGINT")},
    ...     handlers={"withdrawn": {"balance": "state.balance - event.amount"}},
    ... )
    >>> withdraw = Command(emits="withdrawn", values={"amount": "command.amount"})
    >>> decider = Decider(fold=balance, events="amount BIGINT", handlers={"withdraw": withdraw})
    >>> sink = CommandHandler("/data/states", decider=decider, events="/data/e", refusals="/data/r")
    >>> sink.tables()
    [('/data/e', 'state_events'), ('/data/r', 'state_refusals'), ('/data/states', 'state')]
    """

    plan_name: ClassVar[str] = "command_handler"
    results: ClassVar[str] = OUTCOMES

    path: str
    _: KW_ONLY
    decider: Decider
    events: str
    refusals: str
    layout: TableLayout = ANY_LAYOUT
    output: str = "state"

    def __post_init__(self) -> None:
        require_target(self.path, self.output, self.layout, self)
        require_target(self.events, self.output)
        require_target(self.refusals, self.output)
        require_instance(self.decider, "decider", Decider, "decider=Decider(...)")
        require_distinct_paths(self.path, self.events, self.refusals)

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables of events, of refusals and of states."""
        return [
            (self.events, f"{self.output}_events"),
            (self.refusals, f"{self.output}_refusals"),
            (self.path, self.output),
        ]

    @property
    def _definition(self) -> Decider:
        return self.decider

    def _compute_states(self, log: DataFrame, stored: DataFrame | None) -> DataFrame:
        return decide_by_key(log, self.decider, stored)

    def _write_results(self, states: DataFrame, batch: CommitContext) -> None:
        decisions = outcome_rows(states, self.decider)
        is_accepted = quoted_column("reason").isNull()
        (events, events_output), (refusals, refusals_output), _ = self.tables()
        for path, output, rows in (
            (events, events_output, decisions.where(is_accepted).select("event.*")),
            (refusals, refusals_output, decisions.where(~is_accepted).drop("event")),
        ):
            if not rows.isEmpty():
                Append(path, output=output).write({ROWS: rows}, batch)
