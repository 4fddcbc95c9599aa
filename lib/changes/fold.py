"""A declared fold: what a key's state is at first, and what each type of event makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType

from ..columns import names, require_free, require_storable, schema_of
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from . import _fold_checks as checks

Unknown: TypeAlias = Literal["refuse", "ignore"]
PLACE = ("topic", "partition", "offset")
KEPT = (*PLACE, "events", "latest")
"""What a table of states has beside the key and the state."""

MARKED = "events"
MARK = "tidegate.fold"
"""The column of a table of states that tells in its metadata, by this key, which fold made it."""


@dataclass(frozen=True, kw_only=True)
class Fold:
    """How the events of a key become its state, one by one in the order of the log.

    Event sourcing keeps what happened, and makes of it what is. The fold says the second by values
    alone, so that any number of views can be made of one log, at any time, with the same answer.

    An expression is Spark's SQL over `state.<column>` and `event.<column>`; columns that a type of
    event does not name stay as they are. All expressions of an event see the state before it. What
    could give another value at another time or in another batch is refused: random numbers, clocks,
    aggregates, windows. An expression that raises an error stops the batch: where a value may not
    fit, say so, with `try_add` or CASE.

    Order: that of the offsets. A key's events are in one partition of one topic, as Kafka puts
    records with equal keys; a key in two is refused by its name. An event at an offset that the
    state has seen changes nothing. Two events that a producer sent twice are two events:
    `deduplicate` by their id first, or count them in the state.

    Args:
        key: the columns that name the entity, such as the account.
        kind: the text column that names the type of an event.
        initial: of each column of the state, its first value and its type, as DDL text or DataType.
        on: by the type of an event, the columns of the state that it sets, each by an expression.
        unknown: what becomes of an event of a type that `on` does not name, or without a key:
            "refuse" stops with an error before anything is written; "ignore" leaves the event out,
            and `set_aside` returns such events, for a table of their own.
        time: the event-time column.
        place: the columns that hold topic, partition and offset.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction, and at the call for events
            that do not fit. Types as text need a running session.

    >>> balance = Fold(
    ...     key="account",
    ...     kind="type",
    ...     initial={"balance": (0, "DECIMAL(12, 2)"), "open": (True, "BOOLEAN")},
    ...     on={
    ...         "deposited": {"balance": "state.balance + event.amount"},
    ...         "closed": {"open": "false"},
    ...     },
    ... )
    >>> balance.state.simpleString()
    'struct<balance:decimal(12,2),open:boolean>'
    """

    key: str | Sequence[str]
    kind: str
    initial: Mapping[str, tuple[Any, str | DataType]]
    on: Mapping[str, Mapping[str, str]]
    unknown: Unknown = "refuse"
    time: str = "event_time"
    place: Sequence[str] = PLACE

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", tuple(names(self.key, "key")))
        object.__setattr__(self, "place", tuple(names(self.place, "place")))
        if not self.key or len(self.place) != 3:
            raise ArgumentError(
                f"key is {list(self.key)}, and place is {list(self.place)}.",
                "at least one column; and those of topic, partition and offset.",
                'key="account"',
            )
        names([self.kind], "kind")
        names([self.time], "time")
        if self.unknown not in get_args(Unknown):
            raise ArgumentError(f"unknown is {self.unknown!r}.", "'refuse' or 'ignore'.")
        self._require_initial()
        self._require_on()

    @property
    def state(self) -> StructType:
        """The columns of the state, and their types."""
        return StructType([StructField(name, kind) for name, (_, kind) in self._typed.items()])

    @property
    def word(self) -> str:
        """The name by which an expression refers to a row."""
        return "event"

    @property
    def texts(self) -> list[str]:
        """All expressions."""
        return [text for sets in self.on.values() for text in sets.values()]

    @property
    def _typed(self) -> Mapping[str, tuple[Any, DataType]]:
        """What `initial` holds once it has been checked."""
        return self.initial  # type: ignore[return-value]

    def checked(self, events: DataFrame) -> DataFrame:
        """Return the events as they are; refuse those that the fold cannot take.

        As the transform of a job, `Stateless(fold.checked, one_to_one=True)`, it says what is wrong
        before the stream starts.

        Raises ColumnError, ColumnTypeError and ArgumentError, which name the expression.
        """
        checks.require_events(events, self)
        return events

    def set_aside(self, events: DataFrame) -> DataFrame:
        """Return the events that are not folded: of an unknown type, or without a whole key."""
        return self.checked(events).where(checks.is_strange(self))

    def told(self) -> str:
        """Return what decides about the states, as text that a table of them bears by MARK."""
        initial = {name: [str(value), kind.json()] for name, (value, kind) in self._typed.items()}
        parts = {"key": self.key, "initial": initial, "on": self.on, "unknown": self.unknown}
        return json.dumps(parts, sort_keys=True)

    def _require_initial(self) -> None:
        if not isinstance(self.initial, Mapping) or not self.initial:
            raise ArgumentError(
                f"initial is {self.initial!r}.",
                "of each column of the state, its first value and its type.",
                'initial={"balance": (0, "DECIMAL(12, 2)")}',
            )
        found = {}
        for name, given in self.initial.items():
            if not isinstance(given, tuple | list) or len(given) != 2:
                raise ArgumentError(
                    f"initial[{name!r}] is {given!r}.",
                    "a value and a type.",
                    f'initial={{{name!r}: (0, "BIGINT")}}',
                )
            value, kind = given
            found[name] = (value, _type_of(name, kind))
            checks.require_value(name, *found[name])
        require_storable(found, "initial")
        require_free(KEPT, self.key, "key")
        require_free([*self.key, *KEPT], found, "initial")
        object.__setattr__(self, "initial", found)

    def _require_on(self) -> None:
        if not isinstance(self.on, Mapping) or not self.on:
            raise ArgumentError(
                f"on is {self.on!r}.",
                "expressions by the type of an event.",
                'on={"deposited": {"balance": "state.balance + event.amount"}}',
            )
        for kind, sets in self.on.items():
            if not isinstance(kind, str) or not isinstance(sets, Mapping):
                raise ColumnTypeError(
                    f"on[{kind!r}] is {sets!r}.", "a type as text, and expressions by column."
                )
            unknown = [name for name in sets if name not in self.initial]
            if unknown:
                raise ColumnError(
                    f"on[{kind!r}] sets {', '.join(map(str, unknown))}.",
                    f"the columns of the state: {', '.join(self.initial)}.",
                )
            for name, text in sets.items():
                checks.require_text(f"on[{kind!r}][{name!r}]", text)
        object.__setattr__(self, "on", {kind: dict(sets) for kind, sets in self.on.items()})


def differing(old: str, new: str) -> list[str]:
    """List the parts in which what decides about two tables differs."""
    known = json.loads(old or "{}")
    return [part for part, value in json.loads(new).items() if known.get(part) != value]


def _type_of(name: str, kind: object) -> DataType:
    if isinstance(kind, DataType):
        return kind
    if not isinstance(kind, str):
        raise ColumnTypeError(
            f"initial[{name!r}] has the type {kind!r}.", "DDL text or a DataType.", '"BIGINT"'
        )
    found = schema_of(f"value {kind}", f"initial[{name!r}]")
    if len(found) != 1:
        raise ArgumentError(f"initial[{name!r}] has the type {kind!r}.", "one type.", '"BIGINT"')
    return found[0].dataType
