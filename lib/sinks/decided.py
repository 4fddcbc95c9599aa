"""Commands decided batch by batch: events, refusals, and the states that the events make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

from pyspark.sql import DataFrame

from ..changes import Commands
from ..changes.deciding import OUTCOMES, decided_by_key, outcomes
from ..changes.folding import FAULT, WAS
from ..columns import quoted
from ..commit import table
from ..commit.batch import Batch
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once, last_batch
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..errors import ArgumentError, ColumnTypeError
from ..frames import ROWS, sole
from ..jvm import release
from ._states import StateTable
from ._targets import require_target
from .append import Append, counts
from .folded import _nothing


@dataclass(frozen=True)
class Decided:
    """Decide a log of commands, each once: events, refusals, and the state of each key.

    The commands of a batch are decided in the order of the log, on from the states that the table
    has. A state bears the place of the last command, and a command at that offset or before it is
    decided already: neither the cut of batches nor what is read again changes a decision.

    Three tables are written, each exactly once for a batch, in this order: `events`, one row for
    each accepted command, with its place, so that `folded` makes of them the states that the
    target has; `refusals`, with the reason; the target, the states, as `Folded` has them.
    Readers see an event at most a batch before its state. A batch without an outcome of a kind
    writes nothing to that table.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
        ColumnError, TableError, ReplayMismatchError, ConflictError: for a batch, as `Folded`.
    """

    path: str
    _: KW_ONLY
    commands: Commands
    events: str
    refusals: str
    layout: Layout = ANY
    step: str = "state"

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout, self)
        require_target(self.events, self.step)
        require_target(self.refusals, self.step)
        if not isinstance(self.commands, Commands):
            raise ColumnTypeError(
                f"commands is {self.commands!r}, a {type(self.commands).__name__}.", "Commands."
            )
        places = {place.rstrip("/") for place in (self.path, self.events, self.refusals)}
        if len(places) < 3:
            raise ArgumentError(
                f"path, events and refusals are {self.path}, {self.events}, {self.refusals}.",
                "three different tables.",
            )

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables of events, of refusals and of states."""
        return [
            (self.events, f"{self.step}_events"),
            (self.refusals, f"{self.step}_refusals"),
            (self.path, self.step),
        ]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Decide the commands, or skip them when the table already has this batch."""
        commands = self.commands.checked(table.plain(sole(frames)))
        spark = commands.sparkSession
        states = StateTable(self.path, self.commands.key, self.commands.told(), self.layout)
        done = last_batch(spark, self.path, batch, self.step)
        if done is not None and done >= batch.number:
            # The table refuses a batch of this number that is another one, and skips this one.
            return commit_once(spark, self.path, batch, self.step, _nothing, counts(rows_out))
        shape = decided_by_key(commands, self.commands).drop(WAS, OUTCOMES, FAULT)
        rows = decided_by_key(commands, self.commands, states.stored(shape)).localCheckpoint()
        try:
            states.require_sound(rows)
            self._tell(outcomes(rows, self.commands), batch)

            def commit(options: CommitOptions) -> None:
                states.replace(rows.drop(OUTCOMES, FAULT), options)

            return commit_once(spark, self.path, batch, self.step, commit, counts(rows_out))
        finally:
            release(rows)

    def _tell(self, decided: DataFrame, batch: Batch) -> None:
        """Append the events and the refusals."""
        accepted = quoted("reason").isNull()
        (events, first), (refusals, second), _ = self.tables()
        for path, step, rows in (
            (events, first, decided.where(accepted).select("event.*")),
            (refusals, second, decided.where(~accepted).drop("event")),
        ):
            if not rows.isEmpty():
                Append(path, step=step).write({ROWS: rows}, batch)
