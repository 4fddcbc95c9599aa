"""The fold of a batch of events: key by key, in the JVM, by Spark's `aggregate` of an array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, StructType, TimestampType

from ..columns import escaped, quoted
from ._fold_checks import Rules, is_strange, needed
from .fold import Fold

WAS = "__tidegate_was"
"""The offset that the given state of a key had; null where it had none."""
SNAPSHOTS = "__tidegate_snapshots"
"""The states after every so many events, without the key."""
FAULT = "__tidegate_fault"
"""Why a key cannot be folded; null where it can."""
EVENTS = "__tidegate_events"
FIRST = "__tidegate_first"
_FOLDED = "__tidegate_folded"
_HOME = "__tidegate_home"
KIND = "__tidegate_kind"
_LAST = "__tidegate_last"
OFFSET = "__tidegate_offset"
_SEEN = "__tidegate_seen"
STORED = "__tidegate_stored"
_STRANGE = "__tidegate_strange"
TIME = "__tidegate_time"


def advanced(
    events: DataFrame,
    fold: Fold,
    states: DataFrame | None = None,
    *,
    every: int | None = None,
    whole: bool = False,
) -> DataFrame:
    """Return the state of each key that has events, from its given state on.

    states: as a table of states has them, a row a key; None where there are none yet.
    every: after how many events of a key a snapshot is taken; None takes none.
    whole: whether keys without events come out as well, with the state that they had.

    Returns the columns of the table, WAS, SNAPSHOTS and FAULT.
    """
    joined = with_states(by_key(events, fold), fold, states, events, whole=whole)
    stored = quoted(STORED)
    seen = F.coalesce(stored["events"], F.lit(0).cast("bigint"))
    started = joined.withColumns({STORED: F.coalesce(stored, start(fold)), _SEEN: seen})
    fields = kept(fold).names
    no_snapshots = F.array().cast(ArrayType(kept(fold)))
    own = [stored[name].alias(name) for name in fields]
    zero = F.struct(*own, no_snapshots.alias(SNAPSHOTS))
    folding = F.expr(f"aggregate({EVENTS}, {_FOLDED}, {_step(fold, every)})")
    folded = started.withColumn(_FOLDED, zero).withColumn(_FOLDED, folding)
    state = quoted(_FOLDED)
    return as_stored(folded, state, fold, _snapshots(state, fields, every).alias(SNAPSHOTS))


def as_stored(rows: DataFrame, state: Column, fold: Fold, outcome: Column) -> DataFrame:
    """Return the columns of a table of states, WAS, what else became of a key's rows, and FAULT."""
    return rows.select(
        *map(quoted, fold.key),
        *[state[name].alias(name) for name in fold.initial],
        _home()["topic"].alias("topic"),
        _home()["partition"].alias("partition"),
        *[state[name].alias(name) for name in ("offset", "events", "latest")],
        quoted(WAS),
        outcome,
        _fault(fold).alias(FAULT),
    )


def sound(rows: DataFrame) -> DataFrame:
    """Return rows that raise an error, when they are computed, for a key that cannot be folded."""
    refuse = F.raise_error(quoted(FAULT)).cast("boolean")
    return rows.where(F.when(quoted(FAULT).isNull(), F.lit(True)).otherwise(refuse))


def _home() -> Column:
    """Return where the rows of a key are: as its state tells, or its first row."""
    return F.coalesce(quoted(_HOME), quoted(FIRST))


def by_key(events: DataFrame, fold: Rules) -> DataFrame:
    """Return the rows of each key in the order of their offsets, and where they are."""
    rows = events if fold.unknown == "refuse" else events.where(~is_strange(fold))
    topic, partition, offset = map(quoted, fold.place)
    # Sorted as structs, events are in the order of their offsets.
    event = F.struct(
        offset.alias(OFFSET),
        _number_of_kind(fold).alias(KIND),
        quoted(fold.time).alias(TIME),
        *map(quoted, needed(events, fold)),
    )
    place = F.struct(topic.alias("topic"), partition.alias("partition"))
    told = "an event at %s/%s %s is of the type %s, or has no key"
    strange = F.format_string(told, topic, partition, offset, quoted(fold.kind))
    return rows.groupBy(*map(quoted, fold.key)).agg(
        F.sort_array(F.collect_list(event)).alias(EVENTS),
        F.min(place).alias(FIRST),
        F.max(place).alias(_LAST),
        F.min(F.when(is_strange(fold), strange)).alias(_STRANGE),
    )


def _number_of_kind(fold: Rules) -> Column:
    """Return the number that an event's type has among those of the fold; null for others."""
    number = F.lit(None).cast("int")
    for at, name in enumerate(fold.on):
        number = F.when(quoted(fold.kind) == F.lit(name), F.lit(at)).otherwise(number)
    return number


def with_states(
    grouped: DataFrame, fold: Fold, states: DataFrame | None, events: DataFrame, *, whole: bool
) -> DataFrame:
    """Add the state that each key has, where it has one."""
    if states is None:
        return _stateless(grouped, fold)
    stored = states.select(
        *map(quoted, fold.key),
        F.struct(*[quoted(name) for name in kept(fold).names]).alias(STORED),
        F.struct("topic", "partition").alias(_HOME),
        F.col("offset").alias(WAS),
    )
    keys = list(fold.key)
    if whole:
        both = stored.join(grouped, keys, "full")
        nothing = F.array().cast(grouped.schema[EVENTS].dataType)
        return both.withColumn(EVENTS, F.coalesce(quoted(EVENTS), nothing))
    # The keys of the batch are few beside the table, which is read and not sorted.
    touched = stored.join(events.select(*map(quoted, keys)).distinct(), keys, "left_semi")
    return grouped.join(touched, keys, "left")


def _stateless(grouped: DataFrame, fold: Fold) -> DataFrame:
    """Add what `with_states` adds, where no key has a state."""
    nothing = F.lit(None)
    return grouped.withColumns(
        {
            STORED: nothing.cast(kept(fold)),
            _HOME: nothing.cast(grouped.schema[FIRST].dataType),
            WAS: nothing.cast("bigint"),
        }
    )


def kept(fold: Fold) -> StructType:
    """Return what the fold carries from event to event: the state, and how far it has come."""
    own = [
        StructField("offset", LongType()),
        StructField("events", LongType()),
        StructField("latest", TimestampType()),
    ]
    return StructType([*fold.state, *own])


def start(fold: Fold) -> Column:
    """Return what the fold begins with."""
    first = [_literal(value).cast(kind).alias(name) for name, (value, kind) in fold.initial.items()]
    return F.struct(
        *first,
        F.lit(-1).cast("bigint").alias("offset"),
        F.lit(0).cast("bigint").alias("events"),
        F.lit(None).cast("timestamp").alias("latest"),
    )


def _literal(value: object) -> Column:
    if isinstance(value, list | tuple):
        return F.array(*map(_literal, value))
    return F.lit(value)


def _step(fold: Fold, every: int | None) -> str:
    """Return the function of `aggregate`, as SQL, since the caller's expressions stand in it.

    Each of them was parsed by itself, so that none ends its brackets; a comment ends with its line.
    """
    branches = [
        f"WHEN event.{KIND} = {number} THEN {_after(fold, sets, every)}"
        for number, sets in enumerate(fold.on.values())
    ]
    is_seen = f"event.{OFFSET} <= state.offset"
    return f"(state, event) -> CASE WHEN {is_seen} THEN state {' '.join(branches)} ELSE state END"


def _after(fold: Fold, sets: Mapping[str, str], every: int | None) -> str:
    """Return the state after an event of one type, as SQL."""
    values = [
        *set_by(fold, sets),
        f"event.{OFFSET} AS offset",
        "state.events + 1 AS events",
        f"greatest(state.latest, event.{TIME}) AS latest",
        f"{_taken(fold, every)} AS {SNAPSHOTS}",
    ]
    return f"struct({', '.join(values)})"


def set_by(fold: Fold, sets: Mapping[str, str]) -> list[str]:
    """Return the columns of the state after an event of one type, as SQL."""
    values = []
    for field in fold.state:
        name = escaped(field.name)
        value = f"state.{name}"
        if field.name in sets:
            value = f"CAST((\n{sets[field.name]}\n) AS {field.dataType.simpleString()})"
        values.append(f"{value} AS {name}")
    return values


def _taken(fold: Fold, every: int | None) -> str:
    """Return the snapshots before an event, as SQL, with that of the state which it meets.

    That the state after an event is one, the next event says: it has no name within its own.
    """
    so_far = f"state.{SNAPSHOTS}"
    if every is None:
        return so_far
    fields = ", ".join(f"state.{escaped(name)} AS {escaped(name)}" for name in kept(fold).names)
    due = f"state.events % {every} = 0 AND state.events > {_SEEN}"
    return f"CASE WHEN {due} THEN concat({so_far}, array(struct({fields}))) ELSE {so_far} END"


def _snapshots(state: Column, fields: Sequence[str], every: int | None) -> Column:
    """Return all snapshots of a key, with that of its last state if it is one."""
    if every is None:
        return state[SNAPSHOTS]
    last = F.array(F.struct(*[state[name].alias(name) for name in fields]))
    due = (state["events"] % every == 0) & (state["events"] > quoted(_SEEN))
    return F.when(due, F.concat(state[SNAPSHOTS], last)).otherwise(state[SNAPSHOTS])


def _fault(fold: Fold) -> Column:
    """Return why a key cannot be folded: a strange event, or events in two partitions."""
    first = _home()
    last = F.coalesce(quoted(_LAST), first)
    other = F.when(last != first, last).otherwise(quoted(FIRST))
    told = F.concat(
        F.lit("the key "), F.to_json(F.struct(*map(quoted, fold.key))), F.lit(" has events in "),
        first["topic"], F.lit("/"), first["partition"], F.lit(" and in "),
        other["topic"], F.lit("/"), other["partition"],
    )  # fmt: skip
    in_two = (other != first) & other.isNotNull()
    return F.coalesce(quoted(_STRANGE), F.when(in_two, told))
