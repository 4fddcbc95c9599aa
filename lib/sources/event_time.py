"""The event time of a record: where it is found, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Literal, TypeAlias, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StructType, TimestampType

from ..columns import column, quoted
from ..durations import microseconds
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from ..eventtime.guard import ahead_of, instant
from ..made_once import made_once

TimeUnit: TypeAlias = Literal["seconds", "milliseconds", "microseconds"]
EVENT_TIME = "event_time"
CLAMPED = "__tidegate_clamped"
"""Whether a row's event time was brought back from the future."""


@dataclass(frozen=True)
class EventTime:
    """What a `Reading` says of its rows' event time.

    fields: those of a record. received: the column of the record's own timestamp.
    """

    time: str | Column
    _: KW_ONLY
    unit: TimeUnit | None
    tolerance: str | timedelta | None
    future: Literal["reject", "clamp"]
    fields: StructType
    received: str

    @property
    def needs(self) -> Sequence[str]:
        """Kafka's columns that are read beside those that the expression names."""
        return () if self.tolerance is None else ("timestamp",)

    def require(self) -> None:
        """Refuse what is no event time of these fields.

        Raises ArgumentError, ColumnError and ColumnTypeError.
        """
        if self.tolerance is not None:
            microseconds(self.tolerance, "future_tolerance", least=0)
        if self.future not in ("reject", "clamp"):
            raise ArgumentError(f"future is {self.future!r}.", "'reject' or 'clamp'.")
        fields = self.fields.fieldNames()
        if isinstance(self.time, str) and self.time not in fields:
            raise ColumnError(f"time names {self.time!r}.", f"the fields are {', '.join(fields)}.")
        self._require_type()
        taken = [name for name in fields if name.lower() == EVENT_TIME and name != self.time]
        if taken:
            raise ColumnError(
                f"the record has a field {taken[0]!r} that is not its event time.",
                "time='event_time'.",
            )

    def added(self, rows: DataFrame) -> DataFrame:
        """Add each row's event time, which may have to be brought back from the future.

        Raises ColumnTypeError for an expression that gives no timestamp.
        """
        timed = self._added(rows)
        found = timed.schema[EVENT_TIME].dataType
        if not isinstance(found, TimestampType):
            _require_timestamp(found.simpleString(), "the expression")
        return timed

    def fault(self) -> Column:
        """Return what is wrong with a row's event time; null where nothing is."""
        return _fault(self.received, self.tolerance)

    def _added(self, rows: DataFrame) -> DataFrame:
        at = column(self.time)
        if self.unit is not None:
            at = instant(at, self.unit)
        if self.future == "reject" or self.tolerance is None:
            return rows.withColumn(EVENT_TIME, at)
        received = quoted(self.received)
        tolerance = microseconds(self.tolerance, "future_tolerance", least=0)
        ahead = ahead_of(at, received, self.tolerance)
        latest = F.try_add(received, F.lit(timedelta(microseconds=tolerance)))
        return rows.withColumns({EVENT_TIME: F.when(ahead, latest).otherwise(at), CLAMPED: ahead})

    def _require_type(self) -> None:
        """Refuse a field that is no timestamp, or with a unit one that is no whole number."""
        if self.unit is None:
            if isinstance(self.time, str):
                _require_timestamp(self.fields[self.time].dataType.simpleString(), self.time)
            return
        if self.unit not in get_args(TimeUnit):
            raise ArgumentError(
                f"time_unit is {self.unit!r}.", f"{', '.join(get_args(TimeUnit))}, or None."
            )
        if not isinstance(self.time, str):
            raise ArgumentError(
                f"time_unit is {self.unit!r}, and time is an expression.",
                "a unit of a field that time names.",
                "instant(...) of tidegate.eventtime in the expression, and no time_unit.",
            )
        kind = self.fields[self.time].dataType
        if not isinstance(kind, IntegralType):
            raise ColumnTypeError(
                f"time_unit is {self.unit!r}, and time={self.time!r} is of type "
                f"{kind.simpleString()}.",
                "a unit of a whole number, such as a bigint.",
                f"{self.time} BIGINT in the schema, or no time_unit.",
            )


@made_once
def _fault(received: str, tolerance: str | timedelta | None) -> Column:
    wrong = F.when(F.col(EVENT_TIME).isNull(), "no event time")
    if tolerance is None:
        return wrong
    return wrong.when(
        ahead_of(F.col(EVENT_TIME), quoted(received), tolerance),
        f"event time more than {tolerance} ahead of the record's timestamp",
    )


def _require_timestamp(found: str, what: str) -> None:
    if found != "timestamp":
        raise ColumnTypeError(
            f"time={what!r} is of type {found}.",
            "a timestamp (an instant).",
            "time_unit='milliseconds' for a field of epoch numbers.",
        )
