"""Pattern matching over the events of each key, on batches and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from itertools import chain, count
from operator import and_, or_
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    FractionalType,
    LongType,
    MapType,
    NumericType,
    StructField,
    StructType,
    VariantType,
)

from ..columns import (
    WATERMARK_KEY,
    column_type,
    is_byte_comparable,
    quoted_column,
    require_choice,
    require_column_names,
    require_columns,
    require_event_time,
    require_flag,
    require_instance,
    require_no_name_clash,
)
from ..durations import interval_text, microseconds
from ..errors import ArgumentError, ColumnTypeError
from ._search.nfa import Automaton, EventInputs, build_automaton
from ._search.sequence_matcher import (
    BUCKET,
    BUCKETS,
    MATCHES_SCHEMA,
    PACKED_SCHEMA,
    STATE_SCHEMA,
    MeasureInput,
    PartialMatches,
    SequenceMatcher,
    Skip,
    SortedEvents,
    pack_by_bucket,
    unpack_rows,
)
from .language import Comparison, Measure, Pattern

MATCH_COLUMNS = ("started", "ended", "decided", "outcome")
MAX_FLAGS = 62
LATEST = "latest"
LATEST_SECONDS = 9_214_646_400
"""In the year 2262, the maximum of pandas timestamps."""
_LONG = LongType()
_LIST_FUNCTIONS = ("sum", "avg", "min", "max", "values")


@dataclass(frozen=True)
class MatchSequence:
    """Pattern matching as the transform of a job; see `match_sequence`.

    Arguments, results and errors are those of `match_sequence`. The arguments are validated at
    construction, and against the events at the call.
    """

    plan_name: ClassVar[str] = "match_sequence"
    pattern: Pattern
    by: str | Sequence[str] = ()
    measures: Mapping[str, Measure] = field(default_factory=dict)
    skip: Skip = "past_last"
    timeouts: bool = False
    time: str = "event_time"
    order: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        hint = "sequence(step('a', ...), followed_by(step('b', ...)), within='10 minutes')"
        require_instance(self.pattern, "pattern", Pattern, hint)
        require_choice(self.skip, "skip", Skip)
        require_flag(self.timeouts, "timeouts")
        hint = "measures={'items': events_of('add').count()}"
        require_instance(self.measures, "measures", Mapping, hint)
        object.__setattr__(self, "by", tuple(require_column_names(self.by)))
        object.__setattr__(self, "order", tuple(require_column_names(self.order, "order")))

    def __call__(self, events: DataFrame) -> DataFrame:
        """Return the matches."""
        automaton, event_inputs = build_automaton(self.pattern)
        self._require_columns(events, event_inputs)
        search_input = self._search_input(events, event_inputs, automaton)
        matcher = SequenceMatcher(
            automaton,
            within=microseconds(self.pattern.within),
            key_count=len(self.by),
            order_count=len(self.order),
            skip=self.skip,
            timeouts=self.timeouts,
            measure_inputs=self._measure_inputs,
        )
        schema = self._match_schema(search_input)
        if events.isStreaming:
            watermark_delay = events.schema[self.time].metadata[WATERMARK_KEY]
            packed = _match_stream(search_input, matcher, watermark_delay)
            matches = packed.mapInArrow(unpack_rows, schema)
        else:
            matches = _sort_batch(search_input, matcher).mapInArrow(SortedEvents(matcher), schema)
        return self._to_results(matches)

    def late_at(self, time: Column) -> Column:
        """Return the watermark at which a row is late: just after the time of the row.

        Matches that are decided before the watermark are emitted, and an event can decide a match
        at its own time.
        """
        return time + F.expr(f"INTERVAL {interval_text(1)}")

    @property
    def lookback(self) -> timedelta | None:
        """The maximum time from an event to the decision of a match that includes it.

        None with skip="past_last", since each match depends on where the previous one ended.
        """
        if self.skip == "past_last":
            return None
        return timedelta(microseconds=microseconds(self.pattern.within))

    @property
    def result_time(self) -> Column:
        """The time at which a match is decided."""
        return quoted_column("decided")

    @property
    def row_expressions(self) -> list[str | Column]:
        """The conditions and the values that the pattern and the measures evaluate per event."""
        conditions = [each for step in self.pattern.steps for each in step.conditions]
        for negation in chain.from_iterable(self.pattern.negations):
            conditions += negation.conditions
        comparisons = [each for each in conditions if isinstance(each, Comparison)]
        measures = [*self.measures.values(), *(each.earlier_value for each in comparisons)]
        values = [each.value for each in comparisons]
        values += [each.value for each in measures if each.value is not None]
        return [*[each for each in conditions if not isinstance(each, Comparison)], *values]

    def _require_columns(self, events: DataFrame, event_inputs: EventInputs) -> None:
        """Raise unless the events have the columns and types that the arguments use."""
        require_event_time(events, self.time)
        for label, column_names in (("by", self.by), ("order", self.order)):
            require_columns(events, column_names, label)
            for name in column_names:
                _require_plain(events.schema[name].dataType, f"column {name!r} in {label}")
        require_no_name_clash(MATCH_COLUMNS, self.by, "by")
        require_no_name_clash([*MATCH_COLUMNS, *self.by], self.measures, "measures")
        if len(event_inputs.flags) > MAX_FLAGS:
            raise ArgumentError(
                f"invalid pattern: {len(event_inputs.flags)} steps and negations",
                f"at most {MAX_FLAGS} steps and negations",
            )
        _require_conditions(events, self.pattern)
        for comparison in event_inputs.comparisons:
            _comparison_type(events, comparison)
        _require_measures(events, self.pattern, self.measures)

    def _search_input(
        self, events: DataFrame, event_inputs: EventInputs, automaton: Automaton
    ) -> DataFrame:
        """Return the input of the search: keys, time, order, tie, flags and values."""
        flags = [
            F.coalesce(reduce(and_, map(_condition_column, conditions), F.lit(True)), F.lit(False))
            for conditions in event_inputs.flags
        ]
        values = {}
        for index, comparison in enumerate(event_inputs.comparisons):
            sides = {"left": comparison.value, "right": comparison.earlier_value.value}
            type_of_both = _comparison_type(events, comparison)
            for side, value in sides.items():
                column = _value_column(events, value).cast(type_of_both)
                values[f"{side}:{index}"] = column
        value_measures = [each for each in self.measures.values() if each.function != "count"]
        for index, measure in enumerate(value_measures):
            values[f"value:{index}"] = _value_column(events, measure.value)
        input_columns = {f"key:{index}": quoted_column(name) for index, name in enumerate(self.by)}
        input_columns["time"] = F.unix_micros(quoted_column(self.time))
        for index, name in enumerate(self.order):
            input_columns[f"order:{index}"] = quoted_column(name)
        input_columns["flags"] = _as_bits(flags)
        # A deterministic order for events of one instant; equal events are interchangeable.
        input_columns["tie"] = F.xxhash64(input_columns["flags"], *values.values())
        input_columns |= values

        is_searched = quoted_column(self.time).isNotNull()
        if automaton.can_drop_unmatched:
            is_searched &= reduce(or_, flags)
        columns = [column.alias(name) for name, column in input_columns.items()]
        return events.where(is_searched).select(*columns)

    @property
    def _measure_inputs(self) -> tuple[MeasureInput, ...]:
        value_indexes = count()
        inputs = []
        for measure in self.measures.values():
            function = "list" if measure.function in _LIST_FUNCTIONS else measure.function
            value = None if measure.function == "count" else next(value_indexes)
            step = self.pattern.step_index(measure.step)
            inputs.append(MeasureInput(step, function, value))  # type: ignore[arg-type]
        return tuple(inputs)

    def _match_schema(self, input_rows: DataFrame) -> StructType:
        """Return the schema of the search output."""
        input_types = {field.name: field.dataType for field in input_rows.schema}
        types = {f"key:{index}": input_types[f"key:{index}"] for index in range(len(self.by))}
        types |= {"started": _LONG, "ended": _LONG, "decided": _LONG, "matched": BooleanType()}
        for index, measure_input in enumerate(self._measure_inputs):
            value_type = input_types.get(f"value:{measure_input.value}", _LONG)
            is_list = measure_input.function == "list"
            types[f"measure:{index}"] = ArrayType(value_type) if is_list else value_type
        return StructType([StructField(name, data_type) for name, data_type in types.items()])

    def _to_results(self, matches: DataFrame) -> DataFrame:
        columns = [quoted_column(f"key:{index}").alias(name) for index, name in enumerate(self.by)]
        columns += [F.timestamp_micros(name).alias(name) for name in MATCH_COLUMNS[:3]]
        if self.timeouts:
            outcome = F.when(quoted_column("matched"), F.lit("match")).otherwise(F.lit("timeout"))
            columns.append(outcome.alias("outcome"))
        for index, (name, measure) in enumerate(self.measures.items()):
            columns.append(_finish_measure(measure, matches, f"measure:{index}").alias(name))
        return matches.select(*columns)


def match_sequence(
    events: DataFrame,
    pattern: Pattern,
    *,
    by: str | Sequence[str] = (),
    measures: Mapping[str, Measure] | None = None,
    skip: Skip = "past_last",
    timeouts: bool = False,
    time: str = "event_time",
    order: str | Sequence[str] = (),
) -> DataFrame:
    """Return the matches of a pattern among the events of each key, by event time.

    `sequence` defines which events match. With `skip="past_last"` a match begins after the last
    event of the previous match; with "to_next" each event that the first step matches begins a
    match, also within other matches. With `timeouts`, partial matches that `within` ended are
    emitted as well, with the events of the attempt that got furthest. A partial match that an event
    ended (through `not_followed_by` or strict contiguity) is not a timeout.

    Events are ordered by time, then by `order`. Remaining ties are ordered by a hash of the values
    that the pattern reads, so that the result does not depend on arrival order. Events with a null
    time never match; a null key is a key.

    State on a stream: the events of undecided partial matches, at most those of `within` plus the
    watermark delay. Events that satisfy no condition are not stored unless a step uses `next_` or
    `consecutive`. State is in 64 buckets of keys, one state row each, which is rewritten when the
    bucket has new events and must stay below 2 GB. A match is emitted once, in append mode, when
    the watermark passes `decided`. A row is late if the watermark has passed its time. The result
    has no watermark. A change of any argument requires a new checkpoint.

    Cost: each event that the first step matches begins a partial match. A repeated first step over
    n events of one key within the time costs O(n * n) time and memory.

    Args:
        events: a batch, or a stream with a watermark on `time`.
        pattern: the result of `sequence`.
        by: key columns; without key columns all events have one key.
        measures: for each result column, a measure of the events of the match; see `events_of`.
        skip: where the next match may begin, "past_last" or "to_next".
        timeouts: also return partial matches that timed out.
        time: the event-time column, a timestamp.
        order: columns that order events of one instant, such as ("topic", "partition", "offset").

    Returns:
        The by columns; `started` and `ended`, the times of the first and the last event; `decided`,
        the time up to which events had to be read to decide the match: the time of the last event,
        or up to `within` after the first event; with `timeouts`, `outcome` ("match" or "timeout");
        and a column for each measure.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.

    Source: row pattern recognition of SQL:2016; contiguity and negation as in Agrawal et al.,
    Efficient Pattern Matching over Event Streams (2008).

    >>> from tidegate.patterns import events_of, followed_by, sequence, step
    >>> home, cart = step("home", "page = '/'"), step("cart", "page = '/cart'")
    >>> pattern = sequence(home, followed_by(cart), within="10 minutes")
    >>> measures = {"ms": events_of("cart").last("ms")}
    >>> match_sequence(clicks, pattern, by="user", measures=measures).columns
    ['user', 'started', 'ended', 'decided', 'ms']
    """
    transform = MatchSequence(pattern, by, measures or {}, skip, timeouts, time, order)
    return transform(events)


def _sort_batch(search_input: DataFrame, matcher: SequenceMatcher) -> DataFrame:
    keys = [quoted_column(f"key:{index}") for index in range(matcher.key_count)]
    order = ["time", *[f"order:{index}" for index in range(matcher.order_count)], "tie"]
    partitioned = search_input.repartition(*keys) if keys else search_input.repartition(1)
    return partitioned.sortWithinPartitions(*keys, *map(quoted_column, order))


def _match_stream(search_input: DataFrame, matcher: SequenceMatcher, watermark: int) -> DataFrame:
    keys = [quoted_column(f"key:{index}") for index in range(matcher.key_count)]
    bucket = F.pmod(F.xxhash64(*keys), F.lit(BUCKETS)) if keys else F.lit(0)
    with_bucket = search_input.select(bucket.cast("int").alias(BUCKET), "*")
    rows = with_bucket.mapInArrow(pack_by_bucket, PACKED_SCHEMA)
    # Spark requires a watermark column and drops rows by it; the maximum time is never late.
    watermark_metadata = {WATERMARK_KEY: watermark}
    with_time = rows.withColumn(LATEST, F.timestamp_seconds(F.lit(LATEST_SECONDS)))
    return (
        with_time.withMetadata(LATEST, watermark_metadata)
        .groupBy(BUCKET)
        .applyInPandasWithState(
            PartialMatches(matcher), MATCHES_SCHEMA, STATE_SCHEMA, "append", "EventTimeTimeout"
        )
    )


def _finish_measure(measure: Measure, matches: DataFrame, name: str) -> Column:
    values = quoted_column(name)
    if measure.function == "min":
        return F.array_min(values)
    if measure.function == "max":
        return F.array_max(values)
    if measure.function not in ("sum", "avg"):
        return values
    non_null = F.filter(values, lambda value: value.isNotNull())
    element = matches.schema[name].dataType.elementType  # type: ignore[attr-defined]
    sum_type = "double" if measure.function == "avg" else _sum_type(element)
    total = F.aggregate(
        non_null,
        F.lit(0).cast(sum_type),
        lambda so_far, value: (so_far + value.cast(sum_type)).cast(sum_type),
    )
    result = total / F.size(non_null) if measure.function == "avg" else total
    return F.when(F.size(non_null) > 0, result)


def _sum_type(value_type: DataType) -> str | DataType:
    if isinstance(value_type, DecimalType):
        return DecimalType(min(38, value_type.precision + 10), value_type.scale)
    return "double" if isinstance(value_type, FractionalType) else "bigint"


def _as_bits(flags: Sequence[Column]) -> Column:
    """Return flags as the bits of one integer, the first flag as the lowest bit."""
    bits = [F.when(flag, F.lit(1 << index)).otherwise(F.lit(0)) for index, flag in enumerate(flags)]
    return reduce(Column.bitwiseOR, bits).cast("bigint")


def _require_conditions(events: DataFrame, pattern: Pattern) -> None:
    steps = pattern.steps
    conditions = [(f"step {step.name!r}", each) for step in steps for each in step.conditions]
    # The negations before the first step are empty.
    for step, negations in zip(steps, pattern.negations[1:], strict=True):
        for number, negation in enumerate(negations, 1):
            label = f"negation {number} after step {step.name!r}"
            conditions += [(label, each) for each in negation.conditions]
    for label, condition in conditions:
        if isinstance(condition, Comparison):
            continue
        condition_label = f"condition {_format_expression(condition)} of {label}"
        condition_type = column_type(events, _condition_column(condition), condition_label)
        if not isinstance(condition_type, BooleanType):
            raise ColumnTypeError(
                f"invalid type of {condition_label}: {condition_type.simpleString()}",
                "boolean",
                "step('paid', \"event = 'paid'\")",
            )


def _require_measures(events: DataFrame, pattern: Pattern, measures: Mapping[str, Measure]) -> None:
    step_names = [step.name for step in pattern.steps]
    for name, measure in measures.items():
        hint = f"measures={{{name!r}: events_of({step_names[0]!r}).first('page')}}"
        require_instance(measure, f"measures[{name!r}]", Measure, hint)
        if measure.step is not None and measure.step not in step_names:
            raise ArgumentError(
                f"invalid step in measures[{name!r}]: {measure.step!r}",
                f"a step of the pattern: {', '.join(step_names)}",
            )
        if measure.value is None:
            continue
        value = _value_column(events, measure.value)
        value_type = column_type(events, value, f"measures[{name!r}]")
        if isinstance(value_type, MapType | VariantType):
            raise ColumnTypeError(
                f"invalid type of measures[{name!r}]: {value_type.simpleString()}",
                "any type except map and variant",
                "F.map_entries(...) or F.to_json(...) of the value",
            )
        if measure.function in ("sum", "avg") and not isinstance(value_type, NumericType):
            raise ColumnTypeError(
                f"invalid type of the {measure.function} in measures[{name!r}]: "
                f"{value_type.simpleString()}",
                "a numeric type",
            )


def _comparison_type(events: DataFrame, comparison: Comparison) -> DataType:
    """Return the common type in which two values are compared."""
    value, earlier_value = comparison.value, comparison.earlier_value.value
    texts = (_format_expression(each) for each in (value, earlier_value))
    label = f"compare({f', {comparison.comparator!r}, '.join(texts)})"
    both_values = F.array(_value_column(events, value), _value_column(events, earlier_value))
    element_type = column_type(events, both_values, label).elementType  # type: ignore[attr-defined]
    _require_plain(element_type, f"values of {label}", floats=True)
    return element_type  # type: ignore[no-any-return]


def _require_plain(data_type: DataType, label: str, *, floats: bool = False) -> None:
    """Raise for a type that Arrow orders differently from Spark."""
    if not is_byte_comparable(data_type) and not (floats and isinstance(data_type, FractionalType)):
        raise ColumnTypeError(
            f"invalid type of {label}: {data_type.simpleString()}",
            "integer, decimal, string, timestamp, date, boolean or binary"
            + (", float or double" if floats else ""),
            "cast the column with withColumn before the transform",
        )


def _condition_column(condition: str | Column) -> Column:
    return F.expr(condition) if isinstance(condition, str) else condition


def _value_column(events: DataFrame, expression: str | Column | None) -> Column:
    """Return a column by its full name, or else an expression."""
    if isinstance(expression, str):
        return quoted_column(expression) if expression in events.columns else F.expr(expression)
    return F.lit(None) if expression is None else expression


def _format_expression(expression: str | Column | None) -> str:
    return repr(expression) if isinstance(expression, str) else f"{expression}"
