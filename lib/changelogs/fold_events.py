"""Folding a log of events to the state of each key: the latest, or as of a time or an offset.

The fold runs in the JVM, by Spark's `aggregate` over the sorted array of a key's events.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructType

from ..columns import (
    quote_name,
    quoted_column,
    require_columns,
    require_instance,
    require_zoned_time,
)
from ..errors import ArgumentError
from ..offsets import Offsets
from .change_schema import is_before
from .fold import (
    FOLD_METADATA_COLUMN,
    FOLD_METADATA_KEY,
    LOG_POSITION_COLUMNS,
    STATE_METADATA_COLUMNS,
    Fold,
    Rules,
    changed_parts,
    is_unknown,
    referenced_columns,
)

PREVIOUS_OFFSET = "__tidegate_previous_offset"
"""The offset of the stored state of a key; null without a stored state."""
SNAPSHOTS = "__tidegate_snapshots"
"""The array column of snapshots: the states after every `snapshot_every` events, without key."""
FAULT = "__tidegate_fault"
"""Why the events of a key cannot be folded; null if they can."""
_EVENTS = "__tidegate_events"
FIRST_PARTITION = "__tidegate_first_partition"
NEW_STATE = "__tidegate_new_state"
_STATE_PARTITION = "__tidegate_state_partition"
EVENT_TYPE = "__tidegate_event_type"
_LAST_PARTITION = "__tidegate_last_partition"
OFFSET = "__tidegate_offset"
_PREVIOUS_EVENT_COUNT = "__tidegate_previous_event_count"
_STORED_STATE = "__tidegate_stored_state"
_UNKNOWN_EVENT = "__tidegate_unknown_event"
TIME = "__tidegate_time"
_RANK = "__tidegate_rank"
_SNAPSHOT_OFFSET = "__tidegate_snapshot_offset"


def fold_events(events: DataFrame, fold: Fold) -> DataFrame:
    """Return the state of each key after all of its events.

    The rows equal those of the sink `tidegate.sinks.Projection` for the same log. All events of a
    key must fit in memory together.

    Args:
        events: a batch with the columns that the fold names.
        fold: the fold.

    Returns:
        The key, the state columns, `topic`, `partition` and `offset` of the last event, `events`
        (the number of events), and `latest` (the maximum event time).

    Raises:
        ColumnError, ColumnTypeError, ArgumentError: at the call. The query fails for a key with
            events in two partitions, and for an unknown event with on_unknown="refuse".

    >>> log = clicks.selectExpr("*", "'log' topic", "0 partition", "CAST(ms AS BIGINT) offset")
    >>> visits = Fold(
    ...     key="user",
    ...     type_column="page",
    ...     initial={"starts": (0, "BIGINT"), "last": (None, "INT")},
    ...     handlers={"/0": {"starts": "state.starts + 1"}, "/1": {"last": "event.ms"}},
    ...     on_unknown="ignore",
    ... )
    >>> states = fold_events(log, visits).select("user", "starts", "last", "offset", "events")
    >>> sorted(tuple(row) for row in states.collect())
    [('u0', 2, 4, 6, 3), ('u1', 1, 7, 7, 3)]
    """
    return _state_rows(fold_batch(_validated_batch(events, fold), fold))


def fold_events_as_of(
    events: DataFrame,
    fold: Fold,
    *,
    time: datetime | None = None,
    offsets: Offsets | None = None,
    snapshots: DataFrame | None = None,
) -> DataFrame:
    """Return the state of each key as of a time or of offsets.

    With `time`, the events at or before it are folded, in log order. With `offsets`, the events
    before them are folded; a partition without an offset has no events. Keys without such an event
    are not in the result.

    Args:
        events: the log as a batch, read from Kafka or from a table of all events.
        fold: the fold.
        time: a datetime with a time zone.
        offsets: for each topic and partition, the end offset (exclusive).
        snapshots: the snapshots that `tidegate.sinks.Projection` stores, its state table, or both.
            Each key starts from its newest snapshot within the bound, and only later events are
            folded. The result is the same; events before the snapshots are not needed.

    Returns:
        The columns of `fold_events`.

    Raises:
        ArgumentError: if not exactly one of time and offsets is set. Otherwise as `fold_events`.

    >>> log = clicks.selectExpr("*", "'log' topic", "0 partition", "CAST(ms AS BIGINT) offset")
    >>> visits = Fold(
    ...     key="user",
    ...     type_column="page",
    ...     initial={"starts": (0, "BIGINT")},
    ...     handlers={"/0": {"starts": "state.starts + 1"}},
    ...     on_unknown="ignore",
    ... )
    >>> before = fold_events_as_of(log, visits, offsets={"log": {0: 6}})
    >>> sorted(tuple(row) for row in before.select("user", "starts").collect())
    [('u0', 1), ('u1', 1)]
    """
    if (time is None) == (offsets is None):
        raise ArgumentError(
            f"invalid time and offsets: {time!r}, {offsets!r}",
            "exactly one of them",
            "time=datetime(2026, 3, 2, tzinfo=UTC)",
        )
    if offsets is None:
        require_zoned_time(time, "time")

    def is_in_bound(event_time: Column, *log_position: Column) -> Column:
        if offsets is None:
            return event_time <= F.lit(time)
        return is_before(offsets, *log_position)

    bound_columns = map(quoted_column, (fold.time, *fold.log_position))
    events_in_bound = _validated_batch(events, fold).where(is_in_bound(*bound_columns))
    if snapshots is None:
        return _state_rows(fold_batch(events_in_bound, fold))
    _require_snapshots(snapshots, fold)
    snapshot_columns = map(F.col, ("latest", *LOG_POSITION_COLUMNS))
    initial_states = _latest_snapshots(snapshots.where(is_in_bound(*snapshot_columns)), fold)
    new_events = _events_after_snapshots(events_in_bound, initial_states, fold)
    return _state_rows(fold_batch(new_events, fold, initial_states, include_unchanged=True))


def fold_batch(
    events: DataFrame,
    fold: Fold,
    stored_states: DataFrame | None = None,
    *,
    snapshot_every: int | None = None,
    include_unchanged: bool = False,
) -> DataFrame:
    """Return the state of each key that has events, starting from its stored state.

    stored_states: the rows of a state table, one per key; None starts from initial states.
    snapshot_every: take a snapshot after this number of events of a key; None takes none.
    include_unchanged: also return keys without events, with their stored state.

    Returns the columns of a state table, PREVIOUS_OFFSET, SNAPSHOTS and FAULT.
    """
    stored_event_count = quoted_column(_STORED_STATE)["events"]
    rows = aggregate_by_key(
        events,
        fold,
        fold,
        stored_states,
        merge=_fold_expression(fold, snapshot_every),
        results=(SNAPSHOTS, state_schema(fold)),
        inputs={_PREVIOUS_EVENT_COUNT: F.coalesce(stored_event_count, F.lit(0).cast("bigint"))},
        include_unchanged=include_unchanged,
    )
    return to_state_rows(rows, fold, _all_snapshots(fold, snapshot_every).alias(SNAPSHOTS))


def aggregate_by_key(
    log: DataFrame,
    rules: Rules,
    fold: Fold,
    stored_states: DataFrame | None,
    *,
    merge: str,
    results: tuple[str, StructType],
    inputs: Mapping[str, Column],
    include_unchanged: bool = False,
) -> DataFrame:
    """Return NEW_STATE of each key: `merge` applied to the stored state and each row of the log.

    merge: a merge function of `aggregate`, as SQL text.
    results: the name and the element type of an array that NEW_STATE has besides the state.
    inputs: further columns that `merge` reads.
    """
    grouped = _group_by_key(log, rules)
    with_stored = _with_stored_states(grouped, fold, stored_states, log, include_unchanged)
    stored = quoted_column(_STORED_STATE)
    stored_or_initial = F.coalesce(stored, _initial_state(fold))
    with_initial = with_stored.withColumns({_STORED_STATE: stored_or_initial, **inputs})
    name, element_type = results
    no_results = F.array().cast(ArrayType(element_type)).alias(name)
    initial = with_initial.withColumn(NEW_STATE, F.struct(f"{_STORED_STATE}.*", no_results))
    return initial.withColumn(NEW_STATE, F.expr(f"aggregate({_EVENTS}, {NEW_STATE}, {merge})"))


def to_state_rows(rows: DataFrame, fold: Fold, result_column: Column) -> DataFrame:
    """Return the columns of a state table, PREVIOUS_OFFSET, `result_column` and FAULT."""
    state = quoted_column(NEW_STATE)
    return rows.select(
        *map(quoted_column, fold.key),
        *[state[name].alias(name) for name in fold.initial],
        _key_partition()["topic"].alias("topic"),
        _key_partition()["partition"].alias("partition"),
        *[state[name].alias(name) for name in ("offset", "events", "latest")],
        quoted_column(PREVIOUS_OFFSET),
        result_column,
        _key_fault(fold).alias(FAULT),
    )


def raise_faults(rows: DataFrame) -> DataFrame:
    """Return the rows; the query fails if a key has a FAULT."""
    message = F.concat(F.lit("cannot process the log: "), quoted_column(FAULT))
    raise_fault = F.raise_error(message).cast("boolean")
    return rows.where(F.when(quoted_column(FAULT).isNull(), F.lit(True)).otherwise(raise_fault))


def _key_partition() -> Column:
    """Return the topic and partition of a key: those of its stored state, or of its first row."""
    return F.coalesce(quoted_column(_STATE_PARTITION), quoted_column(FIRST_PARTITION))


def _group_by_key(events: DataFrame, rules: Rules) -> DataFrame:
    """Return each key with the array of its rows in offset order, and their partitions."""
    rows = events if rules.on_unknown == "refuse" else events.where(~is_unknown(rules))
    topic, partition, offset = map(quoted_column, rules.log_position)
    # The offset is the first field, so that sort_array sorts by offset.
    event = F.struct(
        offset.alias(OFFSET),
        _event_type_number(rules).alias(EVENT_TYPE),
        quoted_column(rules.time).alias(TIME),
        *map(quoted_column, referenced_columns(events, rules)),
    )
    partition_struct = F.struct(topic.alias("topic"), partition.alias("partition"))
    message = "the record at %s/%s offset %s has the unknown type %s or a null key"
    event_type = quoted_column(rules.type_column)
    unknown_event = F.format_string(message, topic, partition, offset, event_type)
    return rows.groupBy(*map(quoted_column, rules.key)).agg(
        F.sort_array(F.collect_list(event)).alias(_EVENTS),
        F.min(partition_struct).alias(FIRST_PARTITION),
        F.max(partition_struct).alias(_LAST_PARTITION),
        F.min(F.when(is_unknown(rules), unknown_event)).alias(_UNKNOWN_EVENT),
    )


def _event_type_number(rules: Rules) -> Column:
    """Return the index of an event's handler; null without a handler."""
    number = F.lit(None).cast("int")
    for index, name in enumerate(rules.handlers):
        is_type = quoted_column(rules.type_column) == F.lit(name)
        number = F.when(is_type, F.lit(index)).otherwise(number)
    return number


def _with_stored_states(
    grouped: DataFrame,
    fold: Fold,
    stored_states: DataFrame | None,
    events: DataFrame,
    include_unchanged: bool,
) -> DataFrame:
    """Add the stored state of each key; null for a key without one."""
    schema = state_schema(fold)
    if stored_states is None:
        types = {
            _STORED_STATE: schema,
            _STATE_PARTITION: grouped.schema[FIRST_PARTITION].dataType,
            PREVIOUS_OFFSET: LongType(),
        }
        return grouped.withColumns({name: F.lit(None).cast(types[name]) for name in types})
    stored = stored_states.select(
        *map(quoted_column, fold.key),
        F.struct(*map(quoted_column, schema.names)).alias(_STORED_STATE),
        F.struct("topic", "partition").alias(_STATE_PARTITION),
        F.col("offset").alias(PREVIOUS_OFFSET),
    )
    keys = list(fold.key)
    if include_unchanged:
        all_keys = stored.join(grouped, keys, "full")
        no_events = F.array().cast(grouped.schema[_EVENTS].dataType)
        return all_keys.withColumn(_EVENTS, F.coalesce(quoted_column(_EVENTS), no_events))
    # A batch has few keys compared with the table: the semi-join avoids sorting the table.
    keys_of_batch = events.select(*map(quoted_column, keys)).distinct()
    return grouped.join(stored.join(keys_of_batch, keys, "left_semi"), keys, "left")


def state_schema(fold: Fold) -> StructType:
    """Return the schema of the accumulator: the state, the offset and counters."""
    state = StructType(list(fold.state))
    return state.add("offset", "long").add("events", "long").add("latest", "timestamp")


def _initial_state(fold: Fold) -> Column:
    initial_values = [
        _literal(value).cast(data_type).alias(name)
        for name, (value, data_type) in fold.initial.items()
    ]
    return F.struct(
        *initial_values,
        F.lit(-1).cast("bigint").alias("offset"),
        F.lit(0).cast("bigint").alias("events"),
        F.lit(None).cast("timestamp").alias("latest"),
    )


def _literal(value: object) -> Column:
    if isinstance(value, list | tuple):
        return F.array(*map(_literal, value))
    return F.lit(value)


def _fold_expression(fold: Fold, snapshot_every: int | None) -> str:
    """Return the merge function of `aggregate` as SQL text, with the caller's expressions.

    Validation parsed each expression on its own, so that none can close its parentheses. Line
    breaks around an expression end its comments.
    """
    branches = [
        f"WHEN event.{EVENT_TYPE} = {number} THEN {_state_after(fold, assignments, snapshot_every)}"
        for number, assignments in enumerate(fold.handlers.values())
    ]
    is_seen = f"event.{OFFSET} <= state.offset"
    return f"(state, event) -> CASE WHEN {is_seen} THEN state {' '.join(branches)} ELSE state END"


def _state_after(fold: Fold, assignments: Mapping[str, str], snapshot_every: int | None) -> str:
    values = [
        *updated_columns(fold, assignments),
        f"event.{OFFSET} AS offset",
        "state.events + 1 AS events",
        f"greatest(state.latest, event.{TIME}) AS latest",
        f"{_snapshots_so_far(fold, snapshot_every)} AS {SNAPSHOTS}",
    ]
    return f"struct({', '.join(values)})"


def updated_columns(fold: Fold, assignments: Mapping[str, str]) -> list[str]:
    """Return the SQL of each state column after an event of one type."""
    values = []
    for field in fold.state:
        name = quote_name(field.name)
        value = f"state.{name}"
        if field.name in assignments:
            value = f"CAST((\n{assignments[field.name]}\n) AS {field.dataType.simpleString()})"
        values.append(f"{value} AS {name}")
    return values


def _snapshots_so_far(fold: Fold, snapshot_every: int | None) -> str:
    """Return the SQL of the snapshots up to the state before an event.

    SQL cannot refer to the state that it is computing, so that the snapshot of the state after an
    event is added with the next event, and that of the last state in `_all_snapshots`.
    """
    so_far = f"state.{SNAPSHOTS}"
    if snapshot_every is None:
        return so_far
    names = map(quote_name, state_schema(fold).names)
    fields = ", ".join(f"state.{name} AS {name}" for name in names)
    due = f"state.events % {snapshot_every} = 0 AND state.events > {_PREVIOUS_EVENT_COUNT}"
    return f"CASE WHEN {due} THEN concat({so_far}, array(struct({fields}))) ELSE {so_far} END"


def _all_snapshots(fold: Fold, snapshot_every: int | None) -> Column:
    """Return all snapshots of a key, including its last state if a snapshot is due."""
    state = quoted_column(NEW_STATE)
    if snapshot_every is None:
        return state[SNAPSHOTS]
    last = F.array(F.struct(*[state[name].alias(name) for name in state_schema(fold).names]))
    is_new = state["events"] > quoted_column(_PREVIOUS_EVENT_COUNT)
    due = (state["events"] % snapshot_every == 0) & is_new
    return F.when(due, F.concat(state[SNAPSHOTS], last)).otherwise(state[SNAPSHOTS])


def _key_fault(fold: Fold) -> Column:
    """Return why a key cannot be folded: an unknown event, or events in two partitions."""
    first = _key_partition()
    last = F.coalesce(quoted_column(_LAST_PARTITION), first)
    other = F.when(last != first, last).otherwise(quoted_column(FIRST_PARTITION))
    message = F.concat(
        F.lit("the key "), F.to_json(F.struct(*map(quoted_column, fold.key))),
        F.lit(" has events in "), first["topic"], F.lit("/"), first["partition"], F.lit(" and in "),
        other["topic"], F.lit("/"), other["partition"],
    )  # fmt: skip
    is_in_two_partitions = (other != first) & other.isNotNull()
    return F.coalesce(quoted_column(_UNKNOWN_EVENT), F.when(is_in_two_partitions, message))


def _state_rows(rows: DataFrame) -> DataFrame:
    return raise_faults(rows).drop(PREVIOUS_OFFSET, SNAPSHOTS, FAULT)


def _validated_batch(events: DataFrame, fold: Fold) -> DataFrame:
    require_instance(fold, "fold", Fold)
    return fold.require_batch(events)


def _require_snapshots(snapshots: DataFrame, fold: Fold) -> None:
    require_columns(snapshots, [*fold.key, *fold.initial, *STATE_METADATA_COLUMNS], "snapshots")
    stored_fold = (snapshots.schema[FOLD_METADATA_COLUMN].metadata or {}).get(FOLD_METADATA_KEY)
    if stored_fold is not None and stored_fold != fold.describe():
        raise ArgumentError(
            "invalid snapshots: written by a different fold (different "
            f"{', '.join(changed_parts(stored_fold, fold.describe()))})",
            "snapshots of this fold",
            "snapshots=None, which folds all events",
        )


def _latest_snapshots(snapshots: DataFrame, fold: Fold) -> DataFrame:
    latest_first = Window.partitionBy(*map(quoted_column, fold.key)).orderBy(F.col("offset").desc())
    ranked = snapshots.withColumn(_RANK, F.row_number().over(latest_first))
    return ranked.where(F.col(_RANK) == F.lit(1)).drop(_RANK)


def _events_after_snapshots(events: DataFrame, snapshots: DataFrame, fold: Fold) -> DataFrame:
    snapshot_offset = F.col("offset").alias(_SNAPSHOT_OFFSET)
    snapshot_offsets = snapshots.select(*map(quoted_column, fold.key), snapshot_offset)
    joined = events.join(snapshot_offsets, list(fold.key), "left")
    is_covered = quoted_column(fold.log_position[2]) <= quoted_column(_SNAPSHOT_OFFSET)
    is_new = ~F.coalesce(is_covered, F.lit(False))
    return joined.where(is_new).select(*map(quoted_column, events.columns))
