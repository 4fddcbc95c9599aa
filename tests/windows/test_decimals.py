"""The types of sums and averages of decimals, which are equal for all windows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate import aggregates as agg
from tidegate.windows import cumulative, hopping, roll_up, session, sliding, tumbling

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
AGGS = {"sum": agg.sum("price"), "mean": agg.avg("price")}


def rolled_up_minutes(events: DataFrame) -> DataFrame:
    minutes = tumbling(events, "1 minute", by="page", aggs=agg.partials(AGGS))
    return agg.finish(roll_up(minutes, "1 hour", by="page", aggs=AGGS), AGGS)


TRANSFORMS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "tumbling": lambda events: tumbling(events, "1 minute", by="page", aggs=AGGS),
    "hopping, large hop": lambda events: hopping(
        events, "1 minute", "30 seconds", by="page", aggs=AGGS
    ),
    "hopping, small hop": lambda events: hopping(
        events, "1 minute", "5 seconds", by="page", aggs=AGGS
    ),
    "cumulative": lambda events: cumulative(events, "1 minute", "1 hour", by="page", aggs=AGGS),
    "session": lambda events: session(events, "1 minute", by="page", aggs=AGGS),
    "sliding": lambda events: sliding(events, "1 minute", by="page", aggs=AGGS),
    "rolled up": rolled_up_minutes,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_sum_and_avg_of_decimals_have_the_same_type_in_all_windows(
    spark: SparkSession, name: str
) -> None:
    events = spark.createDataFrame(
        [(AT, "/a", Decimal("1.35"))], "event_time TIMESTAMP, page STRING, price DECIMAL(10,2)"
    )
    schema = TRANSFORMS[name](events).select("sum", "mean").schema
    types = [field.dataType.simpleString() for field in schema]
    assert types == ["decimal(20,2)", "decimal(38,20)"]
