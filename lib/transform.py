"""The protocol of transforms: the result rows, which rows are late, and when a result is final.

Windows, stream-stream joins and deduplication implement it. `Stateless` and `Stateful` turn a
function into a transform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from pyspark.sql import Column, DataFrame

from .errors import ColumnTypeError

_Function = TypeVar("_Function", bound=Callable[..., Any])


def plan_name(
    name: str, *, keys: Mapping[str, str] | None = None
) -> Callable[[_Function], _Function]:
    """Give a function a stable name, by which checkpoints recognize it after it was renamed.

    With a plan name, a function can be renamed and moved, and its checkpoints continue.

    keys: for renamed parameters, the names that checkpoints have.

    >>> @plan_name("upper_case")
    ... def uppercase(rows):
    ...     return rows.withColumn("page", F.upper("page"))
    >>> uppercase.plan_name
    'upper_case'
    """

    def set_name(function: _Function) -> _Function:
        vars(function).update(plan_name=name, plan_keys=keys or {})
        return function

    return set_name


@runtime_checkable
class Transform(Protocol):
    """A transform of streams or batches that defines which rows are late.

    A job calls it with one DataFrame for each input, in the order of the inputs.

    >>> isinstance(Stateless(lambda rows: rows), Transform)
    True
    """

    def __call__(self, *frames: Any, **options: Any) -> DataFrame:
        """Return the result rows."""

    def late_at(self, time: Column) -> Column | None:
        """Return the watermark at which a row with this event time becomes late and is dropped.

        None if the transform has no state and no row is ever late.
        """

    @property
    def lookback(self) -> timedelta | None:
        """How far before the time of a result its input rows can be; None if unknown."""

    @property
    def result_time(self) -> Column | None:
        """The event time of a result row; the row is final once all earlier input is read.

        None if unknown.
        """


@runtime_checkable
class EvaluatesRows(Protocol):
    """A transform of one input that evaluates expressions row by row.

    A job writes a row for which an expression raises an error to the dead letters.
    """

    @property
    def row_expressions(self) -> Sequence[str | Column]:
        """The expressions over the columns of a row, as Spark SQL or as columns."""


@runtime_checkable
class OmitsIncompleteResults(Protocol):
    """A transform that declares whether it omits results that lack earlier rows."""

    @property
    def omits_incomplete_results(self) -> bool:
        """Whether a result that lacks earlier rows is never emitted, so that all others are right.

        Otherwise such a result is emitted with a wrong value, such as the count of a window.
        """


@dataclass(frozen=True)
class Stateless:
    """A stateless function of DataFrames as a transform: no row is ever late.

    one_to_one: whether each input row produces exactly one result row; a job then verifies the row
        counts of each batch.

    >>> upper = lambda clicks: clicks.withColumn("page", F.upper("page"))
    >>> uppercase = Stateless(upper, one_to_one=True)
    >>> uppercase(clicks).count(), uppercase.late_at(F.col("event_time"))
    (9, None)
    """

    plan_name: ClassVar[str] = "stateless"
    function: Callable[..., DataFrame]
    one_to_one: bool = False

    def __post_init__(self) -> None:
        _require_function(self.function, "function")

    def __call__(self, *frames: DataFrame) -> DataFrame:
        """Return the rows of the function."""
        return self.function(*frames)

    def late_at(self, time: Column) -> Column | None:
        """Return None: no row is ever late."""
        return None

    @property
    def lookback(self) -> timedelta | None:
        """Zero: a result depends on one row."""
        return timedelta(0)

    @property
    def result_time(self) -> Column | None:
        """None: the function may drop the event time."""
        return None


@dataclass(frozen=True)
class Stateful:
    """A stateful function of DataFrames as a transform, with its definition of late rows.

    late_from: from the event-time column, the watermark at which a row becomes late. If Spark's
        operators drop a row that is not late by this definition, the job fails before it writes the
        batch.

    >>> hourly = Stateful(
    ...     lambda clicks: clicks.groupBy(F.window("event_time", "1 hour")).count(),
    ...     late_from=lambda time: F.window(time, "1 hour")["end"],
    ... )
    >>> hourly(clicks).count()
    1
    """

    plan_name: ClassVar[str] = "stateful"
    function: Callable[..., DataFrame]
    late_from: Callable[[Column], Column]
    lookback: timedelta | None = None
    result_time: Column | None = None

    def __post_init__(self) -> None:
        _require_function(self.function, "function")
        _require_function(self.late_from, "late_from")

    def __call__(self, *frames: DataFrame) -> DataFrame:
        """Return the rows of the function."""
        return self.function(*frames)

    def late_at(self, time: Column) -> Column | None:
        """Return the watermark at which a row becomes late."""
        return self.late_from(time)


def _require_function(value: object, label: str) -> None:
    if not callable(value):
        raise ColumnTypeError(f"invalid {label}: {value!r}", "a function")
