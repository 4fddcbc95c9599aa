"""Command handling: `Decider` checks commands against the state and emits events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..columns import (
    as_schema,
    quote_name,
    quoted_column,
    require_instance,
    require_no_name_clash,
    require_storable_names,
)
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from .fold import (
    LOG_POSITION_COLUMNS,
    Fold,
    OnUnknown,
    Rules,
    is_unknown,
    require_expression_text,
)
from .fold_events import (
    EVENT_TYPE,
    FIRST_PARTITION,
    NEW_STATE,
    OFFSET,
    TIME,
    aggregate_by_key,
    raise_faults,
    to_state_rows,
    updated_columns,
)

OUTCOMES = "__tidegate_outcomes"
"""The array column with the outcome of each command of a key, in log order."""
_EMITTED_TYPES = "__tidegate_emitted_types"
_OUTCOME = "__tidegate_outcome"


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command type: the conditions that refuse it, and the event that it emits otherwise.

    Expressions are Spark SQL over `state.<column>` and `command.<column>`.

    Args:
        emits: the event type.
        values: the event columns, each with an expression; the other columns are null.
        refuse: conditions by reason, evaluated in order. The first condition that is true or null
            refuses the command with its reason.

    >>> withdraw = Command(
    ...     emits="withdrawn",
    ...     values={"amount": "command.amount"},
    ...     refuse={"the balance would be below zero": "state.balance < command.amount"},
    ... )
    >>> withdraw.emits
    'withdrawn'
    """

    plan_name: ClassVar[str] = "command"
    emits: str
    values: Mapping[str, str] = field(default_factory=dict)
    refuse: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Decider(Rules):
    """The command types of an event-sourced state, and the fold of the emitted events.

    The commands of a key are decided one by one in log order, also within a batch: each is checked
    against the state after the events of the previous commands. Of two commands that reserve the
    last seat, the first in the log is accepted. An accepted command emits one event at the log
    position of the command; a refused command does not change the state. The key is the
    consistency boundary (the account, the seat): a rule cannot span several keys.

    Order, keys in two partitions, unknown types and expressions are as for `Fold`.

    Args:
        fold: the fold of the events.
        events: the event columns, as DDL text or StructType. Key, type, time and log position are
            added under the names that the fold uses.
        handlers: the commands by type.
        type_column, on_unknown, time, log_position: of the commands, as for `Fold`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction, and when commands do not
            match.

    >>> balance = Fold(
    ...     key="account",
    ...     type_column="type",
    ...     initial={"balance": (0, "BIGINT")},
    ...     handlers={"withdrawn": {"balance": "state.balance - event.amount"}},
    ... )
    >>> withdraw = Command(
    ...     emits="withdrawn",
    ...     values={"amount": "command.amount"},
    ...     refuse={"insufficient funds": "state.balance < command.amount"},
    ... )
    >>> decider = Decider(fold=balance, events="amount BIGINT", handlers={"withdraw": withdraw})
    >>> decider.key
    ('account',)
    """

    plan_name: ClassVar[str] = "decider"
    row_alias: ClassVar[str] = "command"
    sink_name: ClassVar[str] = "CommandHandler"
    fold: Fold
    events: str | StructType
    handlers: Mapping[str, Command]
    type_column: str = "type"
    on_unknown: OnUnknown = "refuse"
    time: str = "event_time"
    log_position: Sequence[str] = LOG_POSITION_COLUMNS

    def __post_init__(self) -> None:
        require_instance(self.fold, "fold", Fold, "fold=Fold(...)")
        object.__setattr__(self, "events", as_schema(self.events, "events"))
        self._require_log_options()
        fold, names = self.fold, self.event_columns.names
        require_storable_names(names, "events")
        event_metadata = [*fold.key, fold.type_column, fold.time, *fold.log_position]
        require_no_name_clash([*event_metadata, "reason"], names, "events")
        require_no_name_clash(["state", "event", "command"], fold.key, "key")
        self._require_handlers(
            "commands by type", 'handlers={"withdraw": Command(emits="withdrawn")}'
        )
        for command_type, command in self.handlers.items():
            self._require_command(command_type, command)
        for label, text, _ in self.typed_expressions():
            require_expression_text(label, text)

    @property
    def event_columns(self) -> StructType:
        """The event columns without key, type, time and log position."""
        return self.events  # type: ignore[return-value]

    @property
    def key(self) -> Sequence[str]:  # type: ignore[override]
        """The key columns."""
        return tuple(self.fold.key)

    @property
    def state(self) -> StructType:  # type: ignore[override]
        """The schema of the state."""
        return self.fold.state

    def typed_expressions(self) -> list[tuple[str, str, DataType]]:
        """Return the name in errors, the text and the expected type of each expression."""
        expressions: list[tuple[str, str, DataType]] = []
        for type_name, command in self.handlers.items():
            for name, text in command.values.items():
                label = f"handlers[{type_name!r}].values[{name!r}]"
                expressions.append((label, text, self.event_columns[name].dataType))
            for reason, text in command.refuse.items():
                label = f"handlers[{type_name!r}].refuse[{reason!r}]"
                expressions.append((label, text, BooleanType()))
        return expressions

    def validate(self, rows: DataFrame) -> DataFrame:
        """Return the commands unchanged; raise if their columns do not match the expressions."""
        super().validate(rows)
        nulls = F.lit(None).cast(_event_struct(rows, self))
        self.fold.validate(rows.select(nulls.alias("event")).select("event.*"))
        return rows

    def unknown_commands(self, commands: DataFrame) -> DataFrame:
        """Return the commands that are not decided: no handler, or a null key or log position."""
        return self.validate(commands).where(is_unknown(self))

    def describe(self) -> str:
        """Return the parts that determine the state, as the JSON text stored with a state table."""
        parts = {
            **json.loads(self.fold.describe()),
            "commands": {name: vars(command) for name, command in self.handlers.items()},
            "unknown_commands": self.on_unknown,
            "events": self.event_columns.json(),
        }
        return json.dumps(parts, sort_keys=True)

    def _require_command(self, command_type: object, command: object) -> None:
        if not isinstance(command_type, str) or not isinstance(command, Command):
            raise ColumnTypeError(
                f"invalid handlers[{command_type!r}]: {command!r}",
                "a command type as text, and a Command",
            )
        if command.emits not in self.fold.handlers:
            raise ArgumentError(
                f"invalid handlers[{command_type!r}].emits: {command.emits!r}",
                f"an event type of the fold: {', '.join(self.fold.handlers)}",
            )
        unknown = [name for name in command.values if name not in self.event_columns.names]
        if unknown:
            raise ColumnError(
                f"invalid column in handlers[{command_type!r}].values: "
                f"{', '.join(map(repr, unknown))}",
                f"columns of the events: {', '.join(self.event_columns.names)}",
            )


def decide(commands: DataFrame, decider: Decider) -> DataFrame:
    """Evaluate the commands of a batch: return for each its event, or the reason of its refusal.

    Each key starts with the initial state of the fold. The outcomes equal those of the sink
    `tidegate.sinks.CommandHandler` for the same log.

    Args:
        commands: a batch with the columns that the decider names.
        decider: the command types, and the fold of their events.

    Returns:
        The key; the command's `type`, `event_time`, `topic`, `partition` and `offset`; `reason`,
        null for an accepted command; and `event`, a struct that is null for a refused command.

    Raises:
        ColumnError, ColumnTypeError, ArgumentError: at the call. The query fails for a key with
            commands in two partitions, and for an unknown command with on_unknown="refuse".

    >>> reserve = Decider(
    ...     fold=Fold(
    ...         key="page",
    ...         type_column="type",
    ...         initial={"holder": (None, "STRING")},
    ...         handlers={"reserved": {"holder": "event.holder"}},
    ...     ),
    ...     events="holder STRING",
    ...     handlers={
    ...         "reserve": Command(
    ...             emits="reserved",
    ...             values={"holder": "command.user"},
    ...             refuse={"taken": "state.holder IS NOT NULL"},
    ...         )
    ...     },
    ... )
    >>> commands = clicks.selectExpr(
    ...     "*", "'reserve' type", "'log' topic", "0 partition", "CAST(ms AS BIGINT) offset"
    ... )
    >>> outcomes = decide(commands.where("page = '/0'"), reserve)
    >>> [row.reason for row in outcomes.sort("offset").collect()]
    [None, 'taken', 'taken']
    """
    require_instance(decider, "decider", Decider)
    decider.require_batch(commands)
    return outcome_rows(raise_faults(decide_by_key(commands, decider)), decider)


def decide_by_key(
    commands: DataFrame, decider: Decider, stored_states: DataFrame | None = None
) -> DataFrame:
    """Return the state of each key after its commands, with PREVIOUS_OFFSET, OUTCOMES and FAULT."""
    fold = decider.fold
    emitted_types = [F.lit(command.emits) for command in decider.handlers.values()]
    rows = aggregate_by_key(
        commands,
        decider,
        fold,
        stored_states,
        merge=_decide_expression(commands, decider),
        results=(OUTCOMES, _outcome_struct(commands, decider)),
        inputs={_EMITTED_TYPES: F.array(*emitted_types)},
    )
    return to_state_rows(rows, fold, quoted_column(NEW_STATE)[OUTCOMES].alias(OUTCOMES))


def outcome_rows(rows: DataFrame, decider: Decider) -> DataFrame:
    """Return the outcomes as one row per command, with the columns of `decide`."""
    key = [quoted_column(name) for name in decider.key]
    outcome = quoted_column(_OUTCOME)
    command_types = F.array(*map(F.lit, decider.handlers))
    reasons = [
        F.array(*map(F.lit, command.refuse)).cast("array<string>")
        for command in decider.handlers.values()
    ]
    exploded = rows.select(*key, "topic", "partition", F.explode(OUTCOMES).alias(_OUTCOME))
    return exploded.select(
        *key,
        F.get(command_types, outcome["kind"]).alias("type"),
        outcome["time"].alias("event_time"),
        "topic",
        "partition",
        outcome["offset"].alias("offset"),
        F.get(F.get(F.array(*reasons), outcome["kind"]), outcome["reason"]).alias("reason"),
        outcome["event"].alias("event"),
    )


def _event_struct(commands: DataFrame, decider: Decider) -> StructType:
    fold = decider.fold
    position_types = (StringType(), IntegerType(), LongType())
    types: list[tuple[str, DataType]] = [
        *[(name, commands.schema[name].dataType) for name in decider.key],
        (fold.type_column, StringType()),
        *[(event_field.name, event_field.dataType) for event_field in decider.event_columns],
        (fold.time, TimestampType()),
        *zip(fold.log_position, position_types, strict=True),
    ]
    return StructType([StructField(name, data_type) for name, data_type in types])


def _outcome_struct(commands: DataFrame, decider: Decider) -> StructType:
    return (
        StructType()
        .add("offset", "long")
        .add("kind", "integer")
        .add("time", "timestamp")
        .add("reason", "integer")
        .add("event", _event_struct(commands, decider))
    )


def _decide_expression(commands: DataFrame, decider: Decider) -> str:
    """Return the merge function of `aggregate` as SQL text, with the caller's expressions."""
    branches = [f"WHEN command.{OFFSET} <= state.offset THEN state"]
    fields = _event_struct(commands, decider)
    ddl = ", ".join(f"{quote_name(each.name)}: {each.dataType.simpleString()}" for each in fields)
    null_event = f"CAST(NULL AS struct<{ddl}>)"
    for number, command in enumerate(decider.handlers.values()):
        is_type = f"command.{EVENT_TYPE} = {number}"
        for reason, condition in enumerate(command.refuse.values()):
            state_after = _state_after_refusal(decider, reason, null_event)
            is_refused = f"coalesce((\n{condition}\n), true)"
            branches.append(f"WHEN {is_type} AND {is_refused} THEN {state_after}")
        branches.append(f"WHEN {is_type} THEN {_state_after_event(decider, number)}")
    return f"(state, command) -> CASE {' '.join(branches)} ELSE state END"


def _state_after_refusal(decider: Decider, reason: int, null_event: str) -> str:
    """Return the SQL of the state after a refusal: unchanged, with one more outcome."""
    values = [f"state.{quote_name(name)} AS {quote_name(name)}" for name in decider.state.names]
    counters = ["state.events AS events", "state.latest AS latest"]
    return _with_outcome(values, counters, str(reason), null_event)


def _state_after_event(decider: Decider, command_number: int) -> str:
    """Return the SQL of the state after an event.

    `transform` over an array of one event binds the alias `event` for the fold's expressions.
    """
    fold = decider.fold
    command = list(decider.handlers.values())[command_number]
    topic, partition, offset = map(quote_name, fold.log_position)
    event_type = f"element_at({_EMITTED_TYPES}, {command_number + 1})"
    fields = [f"{quote_name(name)} AS {quote_name(name)}" for name in decider.key]
    fields.append(f"{event_type} AS {quote_name(fold.type_column)}")
    for column in decider.event_columns:
        text = command.values.get(column.name, "NULL")
        value = f"CAST((\n{text}\n) AS {column.dataType.simpleString()})"
        fields.append(f"{value} AS {quote_name(column.name)}")
    fields += [
        f"command.{TIME} AS {quote_name(fold.time)}",
        f"{FIRST_PARTITION}.topic AS {topic}",
        f"{FIRST_PARTITION}.partition AS {partition}",
        f"command.{OFFSET} AS {offset}",
    ]
    values = updated_columns(fold, fold.handlers[command.emits])
    counters = ["state.events + 1 AS events", f"greatest(state.latest, command.{TIME}) AS latest"]
    new_state = _with_outcome(values, counters, "CAST(NULL AS INT)", "event")
    return f"element_at(transform(array(struct({', '.join(fields)})), event -> {new_state}), 1)"


def _with_outcome(values: list[str], counters: list[str], reason: str, event: str) -> str:
    """Return the SQL of a state with one more outcome."""
    outcome = (
        f"struct(command.{OFFSET} AS offset, command.{EVENT_TYPE} AS kind, command.{TIME} AS time, "
        f"{reason} AS reason, {event} AS event)"
    )
    outcome_list = f"concat(state.{OUTCOMES}, array({outcome})) AS {OUTCOMES}"
    return f"struct({', '.join([*values, f'command.{OFFSET} AS offset', *counters, outcome_list])})"
