"""What a job asks of a transform: the rows, which rows are late, and when a result is there.

Windows, joins of two streams and deduplication are values that answer all of it. A function of
one's own becomes such a value as `Stateless` or `Stateful`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

from pyspark.sql import Column, DataFrame

from .errors import ColumnTypeError


@runtime_checkable
class Transform(Protocol):
    """A transform of streams, or of batches, that says which rows it leaves out as late.

    It is called with one DataFrame for each input of the job, in their order.
    """

    def __call__(self, *frames: Any, **named: Any) -> DataFrame:
        """Return the rows that come out."""

    def late_at(self, time: Column) -> Column | None:
        """Return the instant from which a row is late, and is left out.

        The row is late once the watermark has reached that instant. None says that no row is ever
        late, since the transform keeps no state.
        """

    @property
    def reach(self) -> timedelta | None:
        """How far before a result a row can be that matters to it; None where unknown."""

    @property
    def result_time(self) -> Column | None:
        """The event time of a result row, which is final once all rows up to it have been read.

        None where it is unknown.
        """


@dataclass(frozen=True)
class Stateless:
    """A function that keeps no state: each row is worked on by itself, and none is ever late.

    one_to_one: each row in gives exactly one row out; a job then checks the numbers batch by batch.

    >>> upper = lambda clicks: clicks.withColumn("page", F.upper("page"))
    >>> shouted = Stateless(upper, one_to_one=True)
    >>> shouted(clicks).count(), shouted.late_at(F.col("event_time"))
    (9, None)
    """

    function: Callable[..., DataFrame]
    one_to_one: bool = False

    def __post_init__(self) -> None:
        _require_function(self.function, "function")

    def __call__(self, *frames: DataFrame) -> DataFrame:
        """Return the function's rows."""
        return self.function(*frames)

    def late_at(self, time: Column) -> Column | None:
        """Return None: no row is ever late."""
        return None

    @property
    def reach(self) -> timedelta | None:
        """No row matters to a result later than itself."""
        return timedelta(0)

    @property
    def result_time(self) -> Column | None:
        """Unknown: the function may drop the event time."""
        return None


@dataclass(frozen=True)
class Stateful:
    """A function that keeps state, with what it leaves out as late said beside it.

    late: from a row's event time, the instant from which the row is late. What Spark's operators
    drop and this does not call late stops the job, before the batch is written.

    >>> hourly = Stateful(
    ...     lambda clicks: clicks.groupBy(F.window("event_time", "1 hour")).count(),
    ...     late=lambda time: F.window(time, "1 hour")["end"],
    ... )
    >>> hourly(clicks).count()
    1
    """

    function: Callable[..., DataFrame]
    late: Callable[[Column], Column]
    reach: timedelta | None = None
    result_time: Column | None = None

    def __post_init__(self) -> None:
        _require_function(self.function, "function")
        _require_function(self.late, "late")

    def __call__(self, *frames: DataFrame) -> DataFrame:
        """Return the function's rows."""
        return self.function(*frames)

    def late_at(self, time: Column) -> Column | None:
        """Return the instant from which a row is late."""
        return self.late(time)


def _require_function(given: object, what: str) -> None:
    if not callable(given):
        raise ColumnTypeError(f"{what} is {given!r}.", "a function.")
