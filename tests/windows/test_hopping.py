"""Hopping windows: overlap, uneven hops, and panes that give what copies give."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count
from tidegate.windows import hopping
from tidegate.windows._grouping import grouping
from tidegate.windows.hopping import by_copies, by_panes

from .frames import AGGS, answers, batch, windows
from .oracle import SECOND, Event
from .strategies import BASE, events


def plan(frame: DataFrame) -> str:
    """Return the optimised plan as text."""
    return str(frame._jdf.queryExecution().optimizedPlan())


def test_an_event_is_in_every_window_that_overlaps_it(spark: SparkSession) -> None:
    # windows of 5 minutes every 1 minute:   [99:00 ........ 104:00)
    # an event at 103:59                        [100:00 ........ 105:00) ... [103:00 ........
    # 108:00)
    clicks = batch(spark, [Event(BASE + 6239 * SECOND, "a", 1)])
    found = windows(hopping(clicks, "5 minutes", "1 minute", aggs={"n": count()}).collect(), "n")
    starts = sorted(float(str(row[0])) for row in found)
    assert len(starts) == 5
    assert [later - earlier for earlier, later in pairwise(starts)] == [60.0] * 4
    assert starts[-1] <= 6239 < starts[0] + 300


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    drawn=events(),
    hops=st.integers(1, 12),
    hop=st.sampled_from([SECOND, 1_500_000, 7]),
    start=st.integers(0, 6),
)
def test_panes_give_what_copies_give(
    spark: SparkSession, drawn: list[Event], hops: int, hop: int, start: int
) -> None:
    rows = grouping(batch(spark, drawn), "key", AGGS, "event_time")
    assert answers(by_panes(rows, hops * hop, hop, start)) == answers(
        by_copies(rows, hops * hop, hop, start)
    )


def test_events_are_copied_where_panes_can_not_serve(spark: SparkSession) -> None:
    clicks = batch(spark, [Event(BASE, "a", 1)])
    merging = hopping(clicks, "10 seconds", "1 second", aggs=AGGS)
    uneven = hopping(clicks, "10 seconds 500 milliseconds", "1 second", aggs=AGGS)
    unmergeable = hopping(clicks, "10 seconds", "1 second", aggs={"n": F.countDistinct("value")})
    assert plan(merging).count("Aggregate [") == 2
    assert plan(uneven).count("Aggregate [") == 1
    assert "window_time" not in plan(unmergeable)
    assert uneven.count() == 11


@pytest.mark.parametrize("hop", ["1 minute", timedelta(minutes=1)])
def test_a_hop_of_the_size_is_tumbling(spark: SparkSession, hop: str | timedelta) -> None:
    clicks = batch(spark, [Event(BASE, "a", 1), Event(BASE + 61 * SECOND, "a", 1)])
    assert hopping(clicks, "1 minute", hop, aggs={"n": count()}).count() == 2
