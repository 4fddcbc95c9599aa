"""What is read of the events that a sequence took: measures, and comparisons with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pyspark.sql import Column

from ..errors import ArgumentError, ColumnTypeError

Kind = Literal["first", "last", "count", "total", "mean", "smallest", "largest", "values"]
Comparator = Literal["<", "<=", "=", "!=", ">=", ">"]


@dataclass(frozen=True)
class Measure:
    """A value out of the events that a step of a sequence took; `of` makes them.

    Args:
        step: the step's name; None stands for all events of the match.
        kind: what is made of the values.
        value: a column's name, or an expression over one event's columns. "count" has none.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
    """

    step: str | None
    kind: Kind
    value: str | Column | None = None

    def __post_init__(self) -> None:
        if self.step is not None and not isinstance(self.step, str):
            raise ColumnTypeError(f"step is {self.step!r}.", "the name of a step, or None.")
        if self.kind not in get_args(Kind):
            raise ArgumentError(f"kind is {self.kind!r}.", f"{', '.join(get_args(Kind))}.")
        if self.kind != "count" and not isinstance(self.value, str | Column):
            raise ColumnTypeError(
                f"{self.kind} is of {self.value!r}, a {type(self.value).__name__}.",
                "a column's name, or a Column.",
                f"of('paid').{self.kind}('amount')",
            )


@dataclass(frozen=True)
class Taken:
    """The events that a step took, or all events of a match; `of` makes it."""

    step: str | None

    def first(self, value: str | Column) -> Measure:
        """Return the value of the first of these events."""
        return Measure(self.step, "first", value)

    def last(self, value: str | Column) -> Measure:
        """Return the value of the last of these events."""
        return Measure(self.step, "last", value)

    def count(self) -> Measure:
        """Return how many events these are, a bigint."""
        return Measure(self.step, "count")

    def total(self, value: str | Column) -> Measure:
        """Return the sum of the values, typed as Spark's `sum`; null where there is none."""
        return Measure(self.step, "total", value)

    def mean(self, value: str | Column) -> Measure:
        """Return the mean of the values, a double; null where there is none."""
        return Measure(self.step, "mean", value)

    def smallest(self, value: str | Column) -> Measure:
        """Return the smallest value, nulls left out."""
        return Measure(self.step, "smallest", value)

    def largest(self, value: str | Column) -> Measure:
        """Return the largest value, nulls left out."""
        return Measure(self.step, "largest", value)

    def values(self, value: str | Column) -> Measure:
        """Return all values as an array, in the events' order, nulls among them."""
        return Measure(self.step, "values", value)


def of(step: str | None = None) -> Taken:
    """Return the events that a step took, to read values of; without a step all of the match.

    >>> of("paid").total("amount")
    Measure(step='paid', kind='total', value='amount')
    """
    return Taken(step)


@dataclass(frozen=True)
class Comparison:
    """A condition that compares an event with an earlier one of the same match; `compare` makes it.

    Args:
        value: a column's name or an expression, of the event that is asked about.
        comparator: "<", "<=", "=", "!=", ">=" or ">".
        earlier: the first or last event of a step, and what of it is compared.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
    """

    value: str | Column
    comparator: Comparator
    earlier: Measure

    def __post_init__(self) -> None:
        if not isinstance(self.value, str | Column):
            raise ColumnTypeError(
                f"value is {self.value!r}, a {type(self.value).__name__}.",
                "a column's name, or a Column.",
            )
        if self.comparator not in get_args(Comparator):
            raise ArgumentError(
                f"comparator is {self.comparator!r}.", f"{', '.join(get_args(Comparator))}."
            )
        if not isinstance(self.earlier, Measure) or self.earlier.kind not in ("first", "last"):
            raise ArgumentError(
                f"earlier is {self.earlier!r}.",
                "the first or the last event of a step.",
                "compare('price', '>', of('begun').first('price'))",
            )


def compare(value: str | Column, comparator: Comparator, earlier: Measure) -> Comparison:
    """Return a condition: an event's value beside one of an event that the match took before.

    The condition is false where either value is null, and where the step has taken no event yet.
    Values are compared as Spark compares them. What is to be computed is computed of one event on
    each side: `compare("price", ">", of("begun").first("price * 1.1"))`.

    Args:
        value: a column's name or an SQL expression or Column, of the event that is asked about.
        comparator: "<", "<=", "=", "!=", ">=" or ">".
        earlier: `of(step).first(value)` or `of(step).last(value)`; `of().last(value)` is the event
            that the match took just before.

    Raises:
        ArgumentError, ColumnTypeError: at the call.

    >>> compare("price", ">", of("begun").first("price")).comparator
    '>'
    """
    return Comparison(value, comparator, earlier)
