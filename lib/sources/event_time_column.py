"""The columns of decoded rows: the event time with its faults, and flags until rows are split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Literal, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegralType, StructType, TimestampType

from ..columns import (
    as_column,
    cache_columns,
    closest_name,
    quoted_column,
    require_choice,
    require_column_or_name,
)
from ..durations import microseconds
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from ..event_time.timestamps import TimeUnit, epoch_to_timestamp, exceeds_future_tolerance
from ..jvm import try_expression

OnFuture: TypeAlias = Literal["reject", "clamp"]
EVENT_TIME = "event_time"
UNREADABLE = "__tidegate_unreadable"
"""Whether the format could not decode the record."""
SKIPPED = "__tidegate_skipped"
"""Whether the format skips the value, which is not a record."""
DEAD_LETTER = "__tidegate_dead_letter"
"""Whether the record is not a good row: it is unreadable, its event time has a fault, or it fails
a check. It is a dead letter unless it is DISCARDED."""
DISCARDED = "__tidegate_discarded"
"""Whether a row that is not good is only counted."""
STOPPING = "__tidegate_stopping"
"""Whether a row that is not good fails its batch."""
CLAMPED = "__tidegate_clamped"
"""Whether the event time was in the future and was clamped."""
FILTERED = "__tidegate_filtered"
"""Whether the `where` of the input drops a good row."""
LATE = "__tidegate_late"
"""Whether a row is late by deterministic lateness."""
REREAD = "__tidegate_reread"
"""Whether the stream reads a row again that the backfill has read."""
BACKFILLED = "__tidegate_backfilled"
"""Whether the backfill has written the results of the row's event time."""


@dataclass(frozen=True)
class EventTime:
    """How an `Input` computes the event time of its rows.

    fields: the fields of a record. timestamp_column: the column of the record's Kafka timestamp.
    """

    time: str | Column
    _: KW_ONLY
    unit: TimeUnit | None
    tolerance: str | timedelta | None
    on_future: OnFuture
    fields: StructType
    timestamp_column: str

    @property
    def required_columns(self) -> Sequence[str]:
        """The Kafka columns that are read besides those of the expression."""
        return () if self.tolerance is None else ("timestamp",)

    def require(self) -> None:
        """Validate the arguments.

        Raises ArgumentError, ColumnError and ColumnTypeError.
        """
        if self.tolerance is not None:
            microseconds(self.tolerance, "future_tolerance", min_value=0)
        require_choice(self.on_future, "on_future", OnFuture)
        require_column_or_name(self.time, "time")
        fields = self.fields.fieldNames()
        if isinstance(self.time, str) and self.time not in fields:
            raise ColumnError(
                f"invalid time: {self.time!r}",
                f"one of the fields {', '.join(fields)}, or an expression",
                closest_name(self.time, fields),
            )
        self._require_type()
        conflicting = [name for name in fields if is_event_time(name) and name != self.time]
        if conflicting:
            raise ColumnError(
                f"the field {conflicting[0]!r} conflicts with the column {EVENT_TIME!r}",
                f"a field {EVENT_TIME!r} only if it is the event time",
                f"time={conflicting[0]!r}, or another name of the field in the schema",
            )

    def with_event_time(self, rows: DataFrame) -> DataFrame:
        """Add the event time of each row; with on_future="clamp", clamp it and flag the row.

        The event time is null where an expression raises an error.

        Raises ColumnTypeError for an expression of another type than timestamp.
        """
        event_time = as_column(self.time)
        if isinstance(self.time, Column):
            attempt = try_expression(rows.sparkSession, self.time, guard=~quoted_column(UNREADABLE))
            event_time = attempt["value"]
        elif self.unit is not None:
            event_time = epoch_to_timestamp(event_time, self.unit)
        time_columns = {EVENT_TIME: event_time}
        if self.on_future == "clamp" and self.tolerance is not None:
            received = quoted_column(self.timestamp_column)
            tolerance = microseconds(self.tolerance, "future_tolerance", min_value=0)
            is_ahead = exceeds_future_tolerance(event_time, received, self.tolerance)
            latest = F.try_add(received, F.lit(timedelta(microseconds=tolerance)))
            clamped_time = F.when(is_ahead, latest).otherwise(event_time)
            time_columns = {EVENT_TIME: clamped_time, CLAMPED: is_ahead}
        timed = rows.withColumns(time_columns)
        _require_timestamp(timed.schema[EVENT_TIME].dataType, "the expression")
        return timed

    def fault(self) -> Column:
        """Return what is wrong with the event time of a row; null for a valid one."""
        return _fault(self.timestamp_column, self.tolerance)

    def _require_type(self) -> None:
        """Require a timestamp field; with a time unit, an integer field."""
        if self.unit is None:
            if isinstance(self.time, str):
                _require_timestamp(self.fields[self.time].dataType, self.time)
            return
        require_choice(self.unit, "time_unit", TimeUnit)
        if not isinstance(self.time, str):
            raise ArgumentError(
                f"invalid time_unit: {self.unit!r} with an expression as time",
                "a time unit only for the name of a field",
                "tidegate.event_time.epoch_to_timestamp(...) in the expression, without time_unit",
            )
        data_type = self.fields[self.time].dataType
        if not isinstance(data_type, IntegralType):
            raise ColumnTypeError(
                f"invalid time: {self.time!r} of type {data_type.simpleString()} with time_unit",
                "an integer field, such as a bigint",
                f"{self.time} BIGINT in the schema, or no time_unit",
            )


@cache_columns
def _fault(timestamp_column: str, tolerance: str | timedelta | None) -> Column:
    fault = F.when(F.col(EVENT_TIME).isNull(), "no event time")
    if tolerance is None:
        return fault
    return fault.when(
        exceeds_future_tolerance(F.col(EVENT_TIME), quoted_column(timestamp_column), tolerance),
        f"event time more than {tolerance} ahead of the record's timestamp",
    )


def is_event_time(name: str) -> bool:
    """Return whether a field has the name of the event-time column; Spark ignores case."""
    return name.lower() == EVENT_TIME


def _require_timestamp(data_type: DataType, label: str) -> None:
    if not isinstance(data_type, TimestampType):
        raise ColumnTypeError(
            f"invalid time: {label!r} of type {data_type.simpleString()}",
            "a timestamp",
            'time_unit="milliseconds" for a field of epoch numbers',
        )
