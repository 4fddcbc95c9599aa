"""The pattern language: steps, negations and measures, and the functions that build them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, Literal

from pyspark.sql import Column

from ..columns import require_choice, require_flag, require_instance
from ..durations import microseconds
from ..errors import ArgumentError, ColumnTypeError

MeasureFunction = Literal["first", "last", "count", "sum", "avg", "min", "max", "values"]
Comparator = Literal["<", "<=", "=", "!=", ">=", ">"]


@dataclass(frozen=True)
class Measure:
    """An aggregate over the events of a step, or over all events of a match; see `events_of`.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
    """

    plan_name: ClassVar[str] = "measure"
    step: str | None
    function: MeasureFunction
    value: str | Column | None = None

    def __post_init__(self) -> None:
        if self.step is not None:
            require_instance(self.step, "step", str, "events_of('paid')")
        require_choice(self.function, "function", MeasureFunction)
        if self.function != "count":
            _require_value(self.value, f"value of {self.function}")


@dataclass(frozen=True)
class StepEvents:
    """The events of a step, or all events of a match; see `events_of`."""

    step: str | None

    def __post_init__(self) -> None:
        if self.step is not None:
            require_instance(self.step, "step", str, 'events_of("paid")')

    def first(self, value: str | Column) -> Measure:
        """Return the value of the first event."""
        return Measure(self.step, "first", value)

    def last(self, value: str | Column) -> Measure:
        """Return the value of the last event."""
        return Measure(self.step, "last", value)

    def count(self) -> Measure:
        """Return the number of events, a bigint."""
        return Measure(self.step, "count")

    def sum(self, value: str | Column) -> Measure:
        """Return the sum of the values, with the type of Spark's `sum`; null without values."""
        return Measure(self.step, "sum", value)

    def avg(self, value: str | Column) -> Measure:
        """Return the average of the values, a double; null without values."""
        return Measure(self.step, "avg", value)

    def min(self, value: str | Column) -> Measure:
        """Return the minimum of the non-null values."""
        return Measure(self.step, "min", value)

    def max(self, value: str | Column) -> Measure:
        """Return the maximum of the non-null values."""
        return Measure(self.step, "max", value)

    def values(self, value: str | Column) -> Measure:
        """Return all values as an array in event order, including nulls."""
        return Measure(self.step, "values", value)


def events_of(step: str | None = None) -> StepEvents:
    """Select the events of a step, or all events of the match, for a measure or a comparison.

    A value is a column name, or a Spark SQL expression or Column over one event.

    >>> events_of("paid").sum("amount")
    Measure(step='paid', function='sum', value='amount')
    """
    return StepEvents(step)


@dataclass(frozen=True)
class Comparison:
    """A condition that compares an event with an earlier event of the same match; see `compare`."""

    plan_name: ClassVar[str] = "comparison"
    value: str | Column
    comparator: Comparator
    earlier_value: Measure

    def __post_init__(self) -> None:
        _require_value(self.value, "value")
        require_choice(self.comparator, "comparator", Comparator)
        earlier = self.earlier_value
        if not isinstance(earlier, Measure) or earlier.function not in ("first", "last"):
            raise ArgumentError(
                f"invalid earlier_value: {earlier!r}",
                "a value of the first or last event of a step",
                "compare('price', '>', events_of('start').first('price'))",
            )


def compare(value: str | Column, comparator: Comparator, earlier_value: Measure) -> Comparison:
    """Return a condition that compares an event with an earlier event of the same match.

    The condition is false if either value is null, and if the step has no event yet. Values compare
    as in Spark. Each side may be an expression over the columns of its event:
    `compare("price", ">", events_of("start").first("price * 1.1"))`.

    Args:
        value: a column name, SQL expression or Column of the event.
        comparator: "<", "<=", "=", "!=", ">=" or ">".
        earlier_value: `events_of(step).first(value)` or `events_of(step).last(value)`;
            `events_of().last(value)` is the previous event of the match.

    Raises:
        ArgumentError, ColumnTypeError: at the call.

    >>> compare("price", ">", events_of("start").first("price")).comparator
    '>'
    """
    return Comparison(value, comparator, earlier_value)


Condition = str | Column | Comparison
Times = int | tuple[int, int | None]


@dataclass(frozen=True)
class Step:
    """A step of a pattern; see `step`.

    Args:
        name: the name of the step.
        conditions: conditions that all must be true; empty matches any event.
        min_count, max_count: the number of events; None means no maximum.
        greedy: match as many events as possible, or as few.
        consecutive: no other event of the key may be between the events of the step.
        contiguous: no other event of the key may be before the first event of the step.
    """

    plan_name: ClassVar[str] = "step"
    name: str
    conditions: tuple[Condition, ...]
    min_count: int = 1
    max_count: int | None = 1
    greedy: bool = True
    consecutive: bool = False
    contiguous: bool = False


@dataclass(frozen=True)
class Negation:
    """Events that must not occur before the next step; see `not_followed_by`."""

    plan_name: ClassVar[str] = "negation"
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Pattern:
    """A sequence of steps with a maximum duration; see `sequence`.

    Args:
        steps: the steps in order.
        negations: the negations before each step, and last those after the last step.
        within: the maximum time from the first to the last event of a match.
    """

    plan_name: ClassVar[str] = "pattern"
    steps: tuple[Step, ...]
    negations: tuple[tuple[Negation, ...], ...]
    within: str | timedelta

    def step_index(self, name: str | None) -> int:
        """Return the index of a step; -1 for None, which means all steps."""
        return -1 if name is None else [step.name for step in self.steps].index(name)


def step(
    name: str,
    *conditions: Condition,
    times: Times = 1,
    greedy: bool = True,
    consecutive: bool = False,
) -> Step:
    """Return a step of a pattern: the events that satisfy all of its conditions.

    Args:
        name: the name that measures and comparisons use for the events of the step.
        conditions: conditions that all must be true: Spark SQL, a Column, or `compare` with an
            earlier event. Without conditions the step matches any event.
        times: the number of events, or (minimum, maximum) with None for no maximum. (0, 1) is an
            optional step, (1, None) a repeated one.
        greedy: match as many events as possible; False matches as few as possible (reluctant).
        consecutive: allow no other event of the key between the events of the step (strict
            contiguity).

    Raises:
        ArgumentError, ColumnTypeError: at the call.

    >>> step("add", "event = 'add'", times=(1, None)).max_count is None
    True
    """
    if not isinstance(name, str) or not name.strip():
        raise ArgumentError(f"invalid name: {name!r}", "text", "step('paid', \"event = 'paid'\")")
    _require_conditions(conditions, f"step {name!r}")
    min_count, max_count = _parse_times(times, name)
    require_flag(greedy, "greedy")
    require_flag(consecutive, "consecutive")
    return Step(name, conditions, min_count, max_count, greedy, consecutive)


def followed_by(next_step: Step) -> Step:
    """Return a step that follows the previous one with any events in between (relaxed contiguity).

    The step matches the first event that satisfies its conditions.

    >>> followed_by(step("paid", "event = 'paid'")).contiguous
    False
    """
    require_instance(next_step, "argument of followed_by", Step, "followed_by(step('paid', ...))")
    return replace(next_step, contiguous=False)


def next_(next_step: Step) -> Step:
    """Return a step that directly follows the previous one (strict contiguity).

    No other event of the key may be in between.

    >>> next_(step("paid", "event = 'paid'")).contiguous
    True
    """
    require_instance(next_step, "argument of next_", Step, "next_(step('paid', ...))")
    return replace(next_step, contiguous=True)


def not_followed_by(*conditions: Condition) -> Negation:
    """Return a negation: no event may satisfy all conditions before the next step.

    Between two steps, such an event ends the match if it is after the previous step and not after
    the event that the next step would match, including that event. At the end of a pattern, such an
    event ends the match until `within` after the first event (inclusive); the match is emitted
    after that time.

    Raises:
        ArgumentError, ColumnTypeError: at the call.

    >>> not_followed_by("event = 'paid'").conditions
    ("event = 'paid'",)
    """
    if not conditions:
        raise ArgumentError(
            "invalid conditions of not_followed_by: ()",
            "at least one condition",
            "not_followed_by(\"event = 'paid'\")",
        )
    _require_conditions(conditions, "not_followed_by")
    return Negation(conditions)


def sequence(*parts: Step | Negation, within: str | timedelta) -> Pattern:
    """Return a pattern: steps that events of one key match in order, in at most `within`.

    Each event that the first step matches begins at most one match, the preferred one. A step
    matches the first later event that satisfies its conditions. A repeated step matches further
    events until it reaches its maximum, or until the next step matches an earlier event. An event
    that both could match goes to the repeated step if that is greedy, and to the next step if it is
    reluctant. If a choice leads to no match, the alternative is tried.

    Args:
        parts: the results of `step`, `followed_by`, `next_` and `not_followed_by`. A plain step
            follows with relaxed contiguity, as with `followed_by`.
        within: the maximum time from the first to the last event of a match, inclusive. It bounds
            the state of a stream.

    Raises:
        ArgumentError, ColumnTypeError: at the call, also for a pattern that cannot match.

    >>> checkout, paid = step("checkout", "event = 'checkout'"), "event = 'paid'"
    >>> unpaid = sequence(checkout, not_followed_by(paid), within="10 minutes")
    >>> [step.name for step in unpaid.steps]
    ['checkout']
    """
    microseconds(within, "within")
    steps: list[Step] = []
    negations: list[list[Negation]] = [[]]
    for part in parts:
        if isinstance(part, Step):
            steps.append(part)
            negations.append([])
        elif isinstance(part, Negation):
            negations[-1].append(part)
        else:
            raise ColumnTypeError(
                f"invalid part of a sequence: {part!r}",
                "results of step, followed_by, next_ and not_followed_by",
                "sequence(step('a', ...), followed_by(step('b', ...)), within='10 minutes')",
            )
    _require_matchable(steps, negations)
    return Pattern(tuple(steps), tuple(map(tuple, negations)), within)


def _require_matchable(steps: list[Step], negations: list[list[Negation]]) -> None:
    """Raise for a pattern that cannot match any events."""
    if not steps:
        raise ArgumentError("invalid sequence: no steps", "at least one step")
    if negations[0]:
        raise ArgumentError(
            "invalid sequence: not_followed_by is its first part",
            "a step as the first part, with which a match begins",
        )
    step_names = [step.name for step in steps]
    duplicates = sorted({name for name in step_names if step_names.count(name) > 1})
    if duplicates:
        names = ", ".join(duplicates)
        raise ArgumentError(f"invalid sequence: repeated step names {names}", "unique step names")
    if steps[0].min_count == 0 or steps[0].contiguous:
        raise ArgumentError(
            f"invalid first step {step_names[0]!r}: optional, or wrapped in next_",
            "a first step that matches at least one event",
        )
    if not steps[-1].greedy and steps[-1].min_count != steps[-1].max_count:
        raise ArgumentError(
            f"invalid last step {step_names[-1]!r}: reluctant with a variable number of events",
            "greedy=True, or a fixed number of events; "
            "a reluctant last step never matches more than its minimum",
        )
    for number, step in enumerate(steps):
        _require_possible(step, negations[number], step_names[:number])
    for negation in negations[-1]:
        _require_earlier_step(negation.conditions, step_names, "not_followed_by at the end")


def _require_possible(step: Step, negations: Sequence[Negation], earlier_steps: list[str]) -> None:
    label = f"step {step.name!r}"
    _require_earlier_step(step.conditions, earlier_steps, label)
    step_conditions = {condition for condition in step.conditions if isinstance(condition, str)}
    for negation in negations:
        _require_earlier_step(negation.conditions, earlier_steps, f"not_followed_by before {label}")
        if all(isinstance(each, str) and each in step_conditions for each in negation.conditions):
            raise ArgumentError(
                f"invalid {label}: its conditions include those of the not_followed_by before it",
                "conditions that some event can satisfy",
            )


def _require_earlier_step(
    conditions: Sequence[Condition], earlier_steps: list[str], label: str
) -> None:
    for condition in conditions:
        if not isinstance(condition, Comparison):
            continue
        name = condition.earlier_value.step
        if not earlier_steps or (name is not None and name not in earlier_steps):
            raise ArgumentError(
                f"invalid comparison in {label}: step {name!r} is not an earlier step",
                f"an earlier step ({', '.join(earlier_steps) or 'none exists'}), "
                "or events_of() for any earlier event",
                "compare('price', '>', events_of().last('price'))",
            )


def _parse_times(times: Any, name: str) -> tuple[int, int | None]:
    """Return the minimum and the maximum number of events of a step."""
    minimum, maximum = times if isinstance(times, tuple) and len(times) == 2 else (times, times)
    counts = [minimum] if maximum is None else [minimum, maximum]
    are_integers = all(isinstance(each, int) and not isinstance(each, bool) for each in counts)
    if not are_integers or minimum < 0 or (maximum is not None and maximum < max(1, minimum)):
        raise ArgumentError(
            f"invalid times of step {name!r}: {times!r}",
            "a maximum of 1 or more, or (minimum, maximum) with a minimum of 0 or more and None "
            "for no maximum",
            "times=(1, None)",
        )
    return minimum, maximum


def _require_conditions(conditions: Sequence[Condition], label: str) -> None:
    for condition in conditions:
        is_blank = isinstance(condition, str) and not condition.strip()
        if not isinstance(condition, str | Column | Comparison) or is_blank:
            raise ColumnTypeError(
                f"invalid condition of {label}: {condition!r}",
                "a condition as text, a Column, or compare(...)",
                "step('paid', \"event = 'paid'\")",
            )


def _require_value(value: object, label: str) -> None:
    if not isinstance(value, str | Column):
        hint = "events_of().sum('amount')"
        raise ColumnTypeError(f"invalid {label}: {value!r}", "a column name or a Column", hint)
