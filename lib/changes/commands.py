"""Commands: what is asked for, checked against the state before it becomes an event."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import get_args

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ..columns import names, require_free, require_storable, schema_of
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from . import _fold_checks as checks
from .fold import PLACE, Fold, Unknown

WORD = "command"


@dataclass(frozen=True, kw_only=True)
class Command:
    """When a type of command is refused, and which event it becomes otherwise.

    Expressions are Spark's SQL over `state.<column>` and `command.<column>`.

    Args:
        emits: the type of the event.
        values: the event's columns, each by an expression; those that are not named are null.
        refuse: conditions by their reasons, in the order in which they are asked. The first that
            holds refuses the command with its reason; so does one that is null, since it cannot be
            said that it does not hold.

    >>> withdraw = Command(
    ...     emits="withdrawn",
    ...     values={"amount": "command.amount"},
    ...     refuse={"the balance would be below zero": "state.balance < command.amount"},
    ... )
    >>> withdraw.emits
    'withdrawn'
    """

    emits: str
    values: Mapping[str, str] = field(default_factory=dict)
    refuse: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Commands:
    """Which commands there are, and the fold of the events that they become.

    The commands of a key are decided one by one in the order of the log, each against the state
    that the events of those before it have made, within one batch as well: of two that want the
    last seat the first in the log gets it. An accepted command becomes one event, at the command's
    place; a refused one leaves the state as it is, and is refused once. The key is the thing that
    must stay whole: the account, the seat. A rule over several keys cannot be said.

    Order, keys in two partitions, unknown types and what expressions may be are as for `Fold`.

    Args:
        fold: what the events make of the state.
        events: the columns of the events, as DDL text or StructType; key, type, time and place come
            with them, by the names that the fold has for them.
        on: the commands by their types.
        kind, unknown, time, place: of the commands, as for `Fold`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction, and at the call for commands
            that do not fit.
    """

    fold: Fold
    events: str | StructType
    on: Mapping[str, Command]
    kind: str = "type"
    unknown: Unknown = "refuse"
    time: str = "event_time"
    place: Sequence[str] = PLACE

    def __post_init__(self) -> None:
        if not isinstance(self.fold, Fold):
            raise ColumnTypeError(f"fold is {self.fold!r}.", "a Fold.")
        object.__setattr__(self, "events", schema_of(self.events, "events"))
        object.__setattr__(self, "place", tuple(names(self.place, "place")))
        if self.unknown not in get_args(Unknown) or len(self.place) != 3:
            raise ArgumentError(
                f"unknown is {self.unknown!r}, and place is {list(self.place)}.",
                "'refuse' or 'ignore'; the columns of topic, partition and offset.",
            )
        own = [*self.fold.key, self.fold.kind, self.fold.time, *self.fold.place]
        require_storable(self.event_columns.names, "events")
        require_free([*own, "reason"], self.event_columns.names, "events")
        require_free(["state", "event", WORD], self.fold.key, "key")
        if not isinstance(self.on, Mapping) or not self.on:
            raise ArgumentError(f"on is {self.on!r}.", "commands by their types.")
        for kind, command in self.on.items():
            self._require_command(kind, command)

    @property
    def event_columns(self) -> StructType:
        """The columns that events have beside key, type, time and place."""
        return self.events  # type: ignore[return-value]

    @property
    def key(self) -> Sequence[str]:
        """The columns of the key."""
        return tuple(self.fold.key)

    @property
    def word(self) -> str:
        """The name by which an expression refers to a row."""
        return WORD

    @property
    def texts(self) -> list[str]:
        """All expressions."""
        every = [each for one in self.on.values() for each in (one.values, one.refuse)]
        return [text for each in every for text in each.values()]

    @property
    def state(self) -> StructType:
        """The columns of the state, and their types."""
        return self.fold.state

    def checked(self, commands: DataFrame) -> DataFrame:
        """Return the commands as they are; refuse those that cannot be decided."""
        checks.require_commands(commands, self)
        return commands

    def set_aside(self, commands: DataFrame) -> DataFrame:
        """Return the commands that are not decided: of an unknown type, without key or place."""
        return self.checked(commands).where(checks.is_strange(self))

    def told(self) -> str:
        """Return what decides about the states, as text that a table of them bears by MARK."""
        on = {kind: asdict(command) for kind, command in self.on.items()}
        own = {
            "commands": on,
            "unknown_commands": self.unknown,
            "events": self.event_columns.json(),
        }
        return json.dumps({**json.loads(self.fold.told()), **own}, sort_keys=True)

    def _require_command(self, kind: object, command: object) -> None:
        if not isinstance(kind, str) or not isinstance(command, Command):
            raise ColumnTypeError(f"on[{kind!r}] is {command!r}.", "a type as text, and a Command.")
        if command.emits not in self.fold.on:
            raise ArgumentError(
                f"on[{kind!r}] emits {command.emits!r}.",
                f"types of events that the fold knows: {', '.join(self.fold.on)}.",
            )
        unknown = [name for name in command.values if name not in self.event_columns.names]
        if unknown:
            raise ColumnError(
                f"on[{kind!r}] gives {', '.join(unknown)}.",
                f"the columns of the events: {', '.join(self.event_columns.names)}.",
            )
        for what, texts in (("values", command.values), ("refuse", command.refuse)):
            for name, text in texts.items():
                checks.require_text(f"on[{kind!r}].{what}[{name!r}]", text)
