"""Totals and means of decimals: one type, whichever way a window is computed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.aggregates import finished, mean, partials, total
from tidegate.windows import cumulative, hopping, rolled_up, session, sliding, tumbling

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
AGGS = {"sum": total("price"), "mean": mean("price")}


def minutes_rolled_up(events: DataFrame) -> DataFrame:
    minutes = tumbling(events, "1 minute", by="page", aggs=partials(AGGS))
    return finished(rolled_up(minutes, "1 hour", by="page", aggs=AGGS), AGGS)


WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "tumbling": lambda events: tumbling(events, "1 minute", by="page", aggs=AGGS),
    "hopping, few": lambda events: hopping(events, "1 minute", "30 seconds", by="page", aggs=AGGS),
    "hopping, many": lambda events: hopping(events, "1 minute", "5 seconds", by="page", aggs=AGGS),
    "cumulative": lambda events: cumulative(events, "1 minute", "1 hour", by="page", aggs=AGGS),
    "session": lambda events: session(events, "1 minute", by="page", aggs=AGGS),
    "sliding": lambda events: sliding(events, "1 minute", by="page", aggs=AGGS),
    "rolled up": minutes_rolled_up,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_total_and_the_mean_of_decimals_have_one_type(spark: SparkSession, way: str) -> None:
    events = spark.createDataFrame(
        [(AT, "/a", Decimal("1.35"))], "event_time TIMESTAMP, page STRING, price DECIMAL(10,2)"
    )
    found = WAYS[way](events).select("sum", "mean").schema
    types = [field.dataType.simpleString() for field in found]
    assert types == ["decimal(20,2)", "decimal(38,20)"]
