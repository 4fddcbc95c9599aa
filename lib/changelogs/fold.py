"""`Fold`: the declaration of event-sourced state, and the validation of its expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, ClassVar, Literal, TypeAlias

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from ..arrow_kernels import arrow_type
from ..columns import (
    as_schema,
    column_type,
    first_line,
    nondeterministic_error,
    quote_name,
    quoted_column,
    require_choice,
    require_column_names,
    require_columns,
    require_no_name_clash,
    require_no_special_date,
    require_storable_names,
)
from ..errors import ArgumentError, ColumnError, ColumnTypeError

OnUnknown: TypeAlias = Literal["refuse", "ignore"]
LOG_POSITION_COLUMNS = ("topic", "partition", "offset")
STATE_METADATA_COLUMNS = (*LOG_POSITION_COLUMNS, "events", "latest")
"""Columns that a state table adds to the key and the state."""

FOLD_METADATA_COLUMN = "events"
FOLD_METADATA_KEY = "tidegate.fold"
"""The column of a state table and the key in its metadata that store the fold's description."""

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"")
_NONDETERMINISTIC_FUNCTIONS = re.compile(
    r"(?<![.\w`])(current_(?:date|time|timestamp|timezone|user|catalog|database|schema)|now|curdate"
    r"|localtimestamp|localtime|session_user|user)\b(?!\s*\.)|\bunix_timestamp\s*\(\s*\)",
    re.IGNORECASE,
)
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_INITIAL_TYPES = (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampType,
)


class Rules:
    """Expressions by the type of a row, applied in log order: a `Fold` or a `Decider`."""

    row_alias: ClassVar[str]
    """The alias of a row in expressions."""

    sink_name: ClassVar[str]
    """The sink that applies the rules to a stream."""

    key: str | Sequence[str]
    type_column: str
    handlers: Mapping[str, Any]
    on_unknown: OnUnknown
    time: str
    log_position: Sequence[str]

    state: StructType
    """The schema of the state."""

    def typed_expressions(self) -> list[tuple[str, str, DataType]]:
        """Return the name in errors, the text and the expected type of each expression."""
        raise NotImplementedError

    def validate(self, rows: DataFrame) -> DataFrame:
        """Return the rows unchanged; raise if their columns do not match the expressions.

        As the transform of a job, `Stateless(fold.validate, one_to_one=True)` reports errors before
        the stream starts.

        Raises:
            ColumnError, ColumnTypeError, ArgumentError: with the name of the expression.
        """
        probe = expression_probe(rows, self)
        for label, text, data_type in self.typed_expressions():
            require_expression(probe, label, text, data_type)
        return rows

    def require_batch(self, rows: DataFrame) -> DataFrame:
        """Return the rows unchanged; raise as `validate`, and for a stream."""
        self.validate(rows)
        if rows.isStreaming:
            remedy = f"the sink tidegate.sinks.{self.sink_name} for a stream"
            raise ArgumentError(f"invalid {self.row_alias}s: a stream", "a batch", remedy)
        return rows

    def _require_handlers(self, expected: str, hint: str) -> None:
        if not isinstance(self.handlers, Mapping) or not self.handlers:
            raise ArgumentError(f"invalid handlers: {self.handlers!r}", expected, hint)

    def _require_log_options(self) -> None:
        names = tuple(require_column_names(self.log_position, "log_position"))
        if len(names) != 3:
            raise ArgumentError(
                f"invalid log_position: {list(names)}",
                "the columns of topic, partition and offset",
                f"log_position={LOG_POSITION_COLUMNS!r}",
            )
        object.__setattr__(self, "log_position", names)
        require_choice(self.on_unknown, "on_unknown", OnUnknown)


@dataclass(frozen=True, kw_only=True)
class Fold(Rules):
    """An event-sourced state: how each event of a key updates the state of the key, in log order.

    Handlers are Spark SQL expressions over `state.<column>` and `event.<column>`. All expressions
    of a handler read the state before the event; a column without an expression is unchanged.
    Expressions must be deterministic: random numbers, clocks, aggregates and window functions
    raise an error. An expression that fails stops the batch; use `try_add` or CASE for values that
    may overflow.

    Order: events of a key are applied in offset order. All events of a key must be in one
    partition of one topic, as Kafka's default partitioner guarantees; a key in two partitions
    raises an error. An event at or before the stored offset of its key changes nothing. Records
    that a producer sent twice are two events: `deduplicate` them by id first.

    Args:
        key: the columns that identify the entity, such as the account.
        type_column: the text column with the event type.
        initial: for each state column, its initial value and its type (DDL text or DataType).
        handlers: for each event type, the state columns that it sets, each with an expression.
        on_unknown: how events without a handler or with a null key are handled. "refuse" raises an
            error before anything is written; "ignore" drops them, and `unknown_events` returns
            them for a table of their own.
        time: the event-time column.
        log_position: the columns of topic, partition and offset.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction, and when events do not match.
            DDL text requires a running Spark session.

    >>> balance = Fold(
    ...     key="account",
    ...     type_column="type",
    ...     initial={"balance": (0, "DECIMAL(12, 2)"), "open": (True, "BOOLEAN")},
    ...     handlers={
    ...         "deposited": {"balance": "state.balance + event.amount"},
    ...         "closed": {"open": "false"},
    ...     },
    ... )
    >>> balance.state.simpleString()
    'struct<balance:decimal(12,2),open:boolean>'
    """

    plan_name: ClassVar[str] = "fold"
    row_alias: ClassVar[str] = "event"
    sink_name: ClassVar[str] = "Projection"
    key: str | Sequence[str]
    type_column: str
    initial: Mapping[str, tuple[Any, str | DataType]]
    handlers: Mapping[str, Mapping[str, str]]
    on_unknown: OnUnknown = "refuse"
    time: str = "event_time"
    log_position: Sequence[str] = LOG_POSITION_COLUMNS

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", tuple(require_column_names(self.key, "key")))
        if not self.key:
            raise ArgumentError("invalid key: []", "at least one column", 'key="account"')
        require_column_names([self.type_column], "type_column")
        require_column_names([self.time], "time")
        self._require_log_options()
        self._require_initial()
        self._require_assignments()

    @property
    def state(self) -> StructType:  # type: ignore[override]
        """The schema of the state."""
        types = {name: data_type for name, (_, data_type) in self.initial.items()}
        return StructType([StructField(*each) for each in types.items()])  # type: ignore[arg-type]

    def typed_expressions(self) -> list[tuple[str, str, DataType]]:
        """Return the name in errors, the text and the expected type of each expression."""
        return [
            (f"handlers[{event_type!r}][{name!r}]", text, self.state[name].dataType)
            for event_type, assignments in self.handlers.items()
            for name, text in assignments.items()
        ]

    def unknown_events(self, events: DataFrame) -> DataFrame:
        """Return the events that are not folded: without a handler, or with a null key."""
        return self.validate(events).where(is_unknown(self))

    def describe(self) -> str:
        """Return the parts that determine the state, as the JSON text stored with a state table."""
        parts = {
            "key": self.key,
            "initial": {
                field.name: [str(self.initial[field.name][0]), field.dataType.json()]
                for field in self.state
            },
            "on": self.handlers,
            "unknown": self.on_unknown,
        }
        return json.dumps(parts, sort_keys=True)

    def _require_initial(self) -> None:
        if not isinstance(self.initial, Mapping) or not self.initial:
            raise ArgumentError(
                f"invalid initial: {self.initial!r}",
                "for each state column, its initial value and its type",
                'initial={"balance": (0, "DECIMAL(12, 2)")}',
            )
        typed = {}
        for name, value_and_type in self.initial.items():
            if not isinstance(value_and_type, tuple | list) or len(value_and_type) != 2:
                raise ArgumentError(
                    f"invalid initial[{name!r}]: {value_and_type!r}",
                    "a value and a type",
                    f'initial={{{name!r}: (0, "BIGINT")}}',
                )
            value = value_and_type[0]
            data_type = _parse_type(name, value_and_type[1])
            if value is not None and not _is_exact(value, data_type):
                raise ArgumentError(
                    f"invalid initial[{name!r}]: {value!r}",
                    f"a value that {data_type.simpleString()} represents exactly "
                    "(a timestamp with a time zone), or None",
                )
            typed[name] = (value, data_type)
        require_storable_names(typed, "initial")
        require_no_name_clash(STATE_METADATA_COLUMNS, self.key, "key")
        require_no_name_clash([*self.key, *STATE_METADATA_COLUMNS], typed, "initial")
        object.__setattr__(self, "initial", typed)

    def _require_assignments(self) -> None:
        self._require_handlers(
            "for each event type, the state columns that it sets, with expressions",
            'handlers={"deposited": {"balance": "state.balance + event.amount"}}',
        )
        for event_type, assignments in self.handlers.items():
            if not isinstance(event_type, str) or not isinstance(assignments, Mapping):
                raise ColumnTypeError(
                    f"invalid handlers[{event_type!r}]: {assignments!r}",
                    "an event type as text, and expressions by state column",
                )
            unknown = [name for name in assignments if name not in self.initial]
            if unknown:
                raise ColumnError(
                    f"invalid column in handlers[{event_type!r}]: {', '.join(map(repr, unknown))}",
                    f"columns of the state: {', '.join(self.initial)}",
                )
        for label, text, _ in self.typed_expressions():
            require_expression_text(label, text)
        handlers = {event_type: dict(texts) for event_type, texts in self.handlers.items()}
        object.__setattr__(self, "handlers", handlers)


def changed_parts(stored: str, current: str) -> list[str]:
    """Return the parts in which two descriptions of a fold differ."""
    stored_parts = json.loads(stored or "{}")
    return [part for part, value in json.loads(current).items() if stored_parts.get(part) != value]


def _parse_type(name: str, data_type: object) -> DataType:
    if isinstance(data_type, DataType):
        return data_type
    if not isinstance(data_type, str):
        raise ColumnTypeError(
            f"invalid type in initial[{name!r}]: {data_type!r}",
            "DDL text or a DataType",
            '"BIGINT"',
        )
    schema = as_schema(f"value {data_type}", f"initial[{name!r}]")
    if len(schema) != 1:
        raise ArgumentError(
            f"invalid type in initial[{name!r}]: {data_type!r}", "one type", '"BIGINT"'
        )
    return schema[0].dataType


def require_expression_text(label: str, text: object) -> None:
    """Raise unless `text` is an SQL expression that does not read a clock or the current user."""
    if not isinstance(text, str) or not text.strip():
        raise ColumnTypeError(
            f"invalid {label}: {text!r}", "a Spark SQL expression as text", '"state.n + 1"'
        )
    require_no_special_date(text, label)
    nondeterministic = _NONDETERMINISTIC_FUNCTIONS.search(_QUOTED.sub("''", text))
    if nondeterministic is not None:
        raise nondeterministic_error(text, nondeterministic[0], label)


def _is_exact(value: object, data_type: DataType) -> bool:
    if isinstance(data_type, ArrayType):
        return isinstance(value, list | tuple) and all(
            element is None or _is_exact(element, data_type.elementType) for element in value
        )
    if not isinstance(data_type, _INITIAL_TYPES):
        return False
    try:
        stored = pa.scalar(value, arrow_type(data_type)).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    # In Python, True equals 1.
    is_same_kind = isinstance(stored, bool) == isinstance(value, bool)
    return is_same_kind and (stored == value or isinstance(data_type, DoubleType | FloatType))


def expression_probe(rows: DataFrame, rules: Rules) -> DataFrame:
    """Return a frame with the aliases that expressions use, to resolve their types.

    Raises for missing columns, wrong column types, and a session without ANSI mode.
    """
    names = [*rules.key, rules.type_column, rules.time, *rules.log_position]
    require_columns(rows, names, f"{rules.row_alias}s")
    ansi = rows.sparkSession.conf.get("spark.sql.ansi.enabled")
    if ansi != "true":
        raise ArgumentError(
            f"invalid spark.sql.ansi.enabled: {ansi!r}",
            "'true'; without ANSI mode, an overflow becomes null instead of an error",
            'spark.conf.set("spark.sql.ansi.enabled", "true")',
        )
    topic, partition, offset = rules.log_position
    expected = {
        rules.type_column: "string",
        rules.time: "timestamp",
        topic: "string",
        partition: "int",
        offset: "bigint",
    }
    for name, type_name in expected.items():
        actual = rows.schema[name].dataType.simpleString()
        if actual != type_name:
            raise ColumnTypeError(
                f"invalid type of column {name!r}: {actual}",
                type_name,
                f'withColumn({name!r}, F.col({name!r}).cast("{type_name}"))',
            )
    for name in [*rules.key, *referenced_columns(rows, rules)]:
        data_type = rows.schema[name].dataType
        if isinstance(data_type, MapType | VariantType):
            raise ColumnTypeError(
                f"invalid type of column {name!r}: {data_type.simpleString()}",
                "an orderable type: any type except map and variant",
                f"withColumn({name!r}, F.to_json({name!r}))",
            )
    return rows.select(
        F.lit(None).cast(rules.state).alias("state"),
        F.struct(*map(quoted_column, rows.columns)).alias(rules.row_alias),
    )


def require_expression(probe: DataFrame, label: str, text: str, expected: DataType) -> None:
    """Raise unless the expression resolves to one value per row, of an assignable type."""
    value = F.expr(f"(\n{text}\n)")
    try:
        # The expression must also parse without parentheses: "1) + (2" parses only inside them.
        column_type(probe, F.expr(text), label)
        actual = column_type(probe, value, label)
    except ColumnError as fault:
        allowed = "; ".join(
            f"{alias}.<name> of {', '.join(probe.select(f'{alias}.*').columns)}"
            for alias in probe.columns
        )
        raise ColumnError(fault.problem, allowed) from fault
    try:
        probe.agg(F.count(value))
    except AnalysisException as fault:
        raise ArgumentError(
            f"invalid {label}: {text!r} ({first_line(fault)})",
            "one value per state and event: "
            "no random numbers, aggregates, window functions or subqueries",
        ) from fault
    if not _is_assignable(actual, expected):
        raise ColumnTypeError(
            f"invalid type of {label}: {actual.simpleString()}",
            f"{expected.simpleString()}, or a type that widens to it without loss",
            f"CAST({text} AS {expected.simpleString()})",
        )


def _is_assignable(actual: DataType, expected: DataType) -> bool:
    """Return whether the expected type represents all values, or the cast raises for the others.

    A sum of decimals has one more digit than its operands; the cast raises on overflow.
    """
    if isinstance(actual, NullType) or actual.simpleString() == expected.simpleString():
        return True
    if isinstance(actual, IntegralType):
        digits = _DIGITS[actual.simpleString()]
        if isinstance(expected, DecimalType):
            return expected.precision - expected.scale >= digits
        return isinstance(expected, IntegralType) and _DIGITS[expected.simpleString()] >= digits
    if isinstance(actual, DecimalType) and isinstance(expected, DecimalType):
        return actual.scale <= expected.scale
    return isinstance(actual, FloatType) and isinstance(expected, DoubleType)


def referenced_columns(rows: DataFrame, rules: Rules) -> list[str]:
    """Return the columns that the expressions may read: a superset, found by name."""
    texts = " ".join(text for _, text, _ in rules.typed_expressions())
    alias = rf"(?<![.\w]){rules.row_alias}\b"
    all_columns = rf"{alias}(?!\s*\.)|{alias}\s*\.\s*\*|`{rules.row_alias}`"
    if re.search(all_columns, texts, re.IGNORECASE):
        return list(rows.columns)
    return [name for name in rows.columns if quote_name(name)[1:-1].lower() in texts.lower()]


def is_unknown(rules: Rules) -> Column:
    """Return whether a row has no handler, or a null key or log position."""
    is_handled = F.coalesce(quoted_column(rules.type_column).isin(*rules.handlers), F.lit(False))
    nulls = [quoted_column(name).isNull() for name in (*rules.key, *rules.log_position)]
    return reduce(or_, nulls, ~is_handled)
