"""The commands of a batch decided: key by key, in the JVM, by Spark's `aggregate` of an array."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..columns import escaped, quoted
from ..errors import ArgumentError, ColumnTypeError
from .commands import Commands
from .folding import (
    EVENTS,
    FIRST,
    KIND,
    OFFSET,
    STORED,
    TIME,
    as_stored,
    by_key,
    kept,
    set_by,
    sound,
    start,
    with_states,
)

OUTCOMES = "__tidegate_outcomes"
"""What became of each command of a key, in their order."""
_DECIDED = "__tidegate_decided"
_EMITS = "__tidegate_emits"
_ONE = "__tidegate_one"


def decided(commands: DataFrame, rules: Commands) -> DataFrame:
    """Return what becomes of each command, from the first of its key on.

    The same answers as `tidegate.sinks.Decided` gives of the same log.

    Args:
        commands: a batch, with the columns that the rules name.
        rules: which commands there are, and the fold of their events.

    Returns:
        the key, the command's type, `event_time` and place as `topic`, `partition`, `offset`; the
        `reason` of a refusal; and `event`, a struct of the event where the command is accepted.

    Raises:
        ColumnError, ColumnTypeError, ArgumentError: at the call. A key with commands in two
            partitions, and an unknown command that is refused, are errors of the query.
    """
    if not isinstance(rules, Commands):
        raise ColumnTypeError(f"rules is {rules!r}, a {type(rules).__name__}.", "Commands.")
    rules.checked(commands)
    if commands.isStreaming:
        raise ArgumentError(
            "the commands are a stream.", "a batch.", "the sink Decided, for a stream's batches."
        )
    return outcomes(sound(decided_by_key(commands, rules)), rules)


def decided_by_key(
    commands: DataFrame, rules: Commands, states: DataFrame | None = None
) -> DataFrame:
    """Return the state of each key after its commands: a table's columns, WAS, OUTCOMES, FAULT."""
    fold = rules.fold
    joined = with_states(by_key(commands, rules), fold, states, commands, whole=False)
    stored = quoted(STORED)
    emits = F.array(*[F.lit(command.emits) for command in rules.on.values()])
    started = joined.withColumns({STORED: F.coalesce(stored, start(fold)), _EMITS: emits})
    no_outcomes = F.array().cast(ArrayType(_outcome(commands, rules)))
    fields = [stored[name].alias(name) for name in kept(fold).names]
    zero = F.struct(*fields, no_outcomes.alias(OUTCOMES))
    deciding = F.expr(f"aggregate({EVENTS}, {_DECIDED}, {_step(commands, rules)})")
    done = started.withColumn(_DECIDED, zero).withColumn(_DECIDED, deciding)
    state = quoted(_DECIDED)
    return as_stored(done, state, fold, state[OUTCOMES].alias(OUTCOMES))


def outcomes(rows: DataFrame, rules: Commands) -> DataFrame:
    """Return a row for each command, as `decided` tells it."""
    one = quoted(_ONE)
    kinds = F.array(*map(F.lit, rules.on))
    reasons = F.lit(None).cast("string")
    for number, command in enumerate(rules.on.values()):
        if command.refuse:
            told = F.array(*map(F.lit, command.refuse))
            reasons = F.when(one["kind"] == number, F.get(told, one["reason"])).otherwise(reasons)
    return rows.select(
        *map(quoted, rules.key), "topic", "partition", F.explode(OUTCOMES).alias(_ONE)
    ).select(
        *map(quoted, rules.key),
        F.get(kinds, one["kind"]).alias("type"),
        one["time"].alias("event_time"),
        "topic",
        "partition",
        one["offset"].alias("offset"),
        reasons.alias("reason"),
        one["event"].alias("event"),
    )


def _event(commands: DataFrame, rules: Commands) -> StructType:
    """Return the columns of an event."""
    fold = rules.fold
    place = (StringType(), IntegerType(), LongType())
    return StructType(
        [
            *[StructField(name, commands.schema[name].dataType) for name in rules.key],
            StructField(fold.kind, StringType()),
            *[StructField(field.name, field.dataType) for field in rules.event_columns],
            StructField(fold.time, TimestampType()),
            *[StructField(name, kind) for name, kind in zip(fold.place, place, strict=True)],
        ]
    )


def _outcome(commands: DataFrame, rules: Commands) -> StructType:
    return StructType(
        [
            StructField("offset", LongType()),
            StructField("kind", IntegerType()),
            StructField("time", TimestampType()),
            StructField("reason", IntegerType()),
            StructField("event", _event(commands, rules)),
        ]
    )


def _step(commands: DataFrame, rules: Commands) -> str:
    """Return the function of `aggregate`, as SQL, since the caller's expressions stand in it."""
    branches = [f"WHEN command.{OFFSET} <= state.offset THEN state"]
    fields = _event(commands, rules)
    typed = ", ".join(f"{escaped(each.name)}: {each.dataType.simpleString()}" for each in fields)
    nothing = f"CAST(NULL AS struct<{typed}>)"
    for number, command in enumerate(rules.on.values()):
        is_kind = f"command.{KIND} = {number}"
        for reason, condition in enumerate(command.refuse.values()):
            refused = _refused(rules, reason, nothing)
            holds = f"coalesce((\n{condition}\n), true)"
            branches.append(f"WHEN {is_kind} AND {holds} THEN {refused}")
        branches.append(f"WHEN {is_kind} THEN {_accepted(rules, number, nothing)}")
    return f"(state, command) -> CASE {' '.join(branches)} ELSE state END"


def _refused(rules: Commands, reason: int, nothing: str) -> str:
    """Return the state after a refusal, as SQL: as it was, with one more outcome."""
    values = [f"state.{escaped(name)} AS {escaped(name)}" for name in rules.state.names]
    own = ["state.events AS events", "state.latest AS latest"]
    return _with_outcome(values, own, str(reason), nothing)


def _accepted(rules: Commands, number: int, nothing: str) -> str:
    """Return the state after an event, as SQL.

    A function over one element gives the event its name, for the fold's expressions.
    """
    fold = rules.fold
    command = list(rules.on.values())[number]
    topic, partition, offset = map(escaped, fold.place)
    fields = [f"{escaped(name)} AS {escaped(name)}" for name in rules.key]
    fields.append(f"element_at({_EMITS}, {number + 1}) AS {escaped(fold.kind)}")
    for field in rules.event_columns:
        text = command.values.get(field.name, "NULL")
        fields.append(
            f"CAST((\n{text}\n) AS {field.dataType.simpleString()}) AS {escaped(field.name)}"
        )
    fields += [
        f"command.{TIME} AS {escaped(fold.time)}",
        f"{FIRST}.topic AS {topic}",
        f"{FIRST}.partition AS {partition}",
        f"command.{OFFSET} AS {offset}",
    ]
    own = [
        "state.events + 1 AS events",
        f"greatest(state.latest, command.{TIME}) AS latest",
    ]
    after = _with_outcome(set_by(fold, fold.on[command.emits]), own, "CAST(NULL AS INT)", "event")
    return f"element_at(transform(array(struct({', '.join(fields)})), event -> {after}), 1)"


def _with_outcome(values: list[str], own: list[str], reason: str, event: str) -> str:
    """Return a state with one more outcome, as SQL."""
    one = (
        f"struct(command.{OFFSET} AS offset, command.{KIND} AS kind, command.{TIME} AS time, "
        f"{reason} AS reason, {event} AS event)"
    )
    listed = f"concat(state.{OUTCOMES}, array({one})) AS {OUTCOMES}"
    return f"struct({', '.join([*values, f'command.{OFFSET} AS offset', *own, listed])})"
