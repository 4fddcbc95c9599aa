"""Hopping windows: overlap, uneven hops, and panes that equal Spark's windows."""

from __future__ import annotations

import re
import warnings
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few
from tests.support.window_frames import AGGS, batch, relative_windows, window_rows
from tests.support.window_oracle import SECOND, Event
from tests.support.window_strategies import BASE, events
from tidegate.aggregates import count
from tidegate.errors import ArgumentError
from tidegate.windows import Hopping, hopping
from tidegate.windows._grouping import build_grouping


def test_an_event_is_in_every_window_that_overlaps_it(spark: SparkSession) -> None:
    # windows of 5 minutes every 1 minute:   [99:00 ........ 104:00)
    # an event at 103:59                        [100:00 ........ 105:00) ... [103:00 ........
    # 108:00)
    clicks = batch(spark, [Event(BASE + 6239 * SECOND, "a", 1)])
    result = relative_windows(
        hopping(clicks, "5 minutes", "1 minute", aggs={"n": count()}).collect(), "n"
    )
    starts = sorted(float(str(row[0])) for row in result)
    assert len(starts) == 5
    assert [later - earlier for earlier, later in pairwise(starts)] == [60.0] * 4
    assert starts[-1] <= 6239 < starts[0] + 300


@pytest.mark.draws
@few()
@given(
    drawn=events(),
    hops=st.integers(1, 12),
    hop=st.sampled_from([SECOND, 1_500_000, 7]),
    remainder=st.sampled_from([0, 1, 5]),
    start=st.integers(0, 6),
)
def test_panes_equal_the_windows_of_spark(
    spark: SparkSession, drawn: list[Event], hops: int, hop: int, remainder: int, start: int
) -> None:
    data, size = batch(spark, drawn), hops * hop + remainder
    lengths = [timedelta(microseconds=micros) for micros in (size, hop)]
    offset = timedelta(microseconds=start)
    native = F.window("event_time", *(f"{micros} microseconds" for micros in (size, hop, start)))
    rows = build_grouping(data, "key", AGGS, "event_time")
    expected = window_rows(rows.aggregate_by(native))
    assert window_rows(hopping(data, *lengths, by="key", aggs=AGGS, offset=offset)) == expected


def test_an_aggregate_that_does_not_merge_equals_the_windows_of_spark(
    spark: SparkSession,
) -> None:
    data = batch(spark, [Event(BASE + 700_000 * at, "ab"[at % 2], at % 5) for at in range(40)])
    aggs = {"values": F.countDistinct("value")}
    result = hopping(data, "10 seconds", "4 seconds", by="key", aggs=aggs)
    native = data.groupBy(F.window("event_time", "10 seconds", "4 seconds"), "key").agg(
        aggs["values"].alias("values")
    )
    assert relative_windows(result.collect(), "key", "values") == relative_windows(
        native.collect(), "key", "values"
    )


@pytest.mark.parametrize("hop", ["1 minute", timedelta(minutes=1)])
def test_a_hop_of_the_size_equals_tumbling(spark: SparkSession, hop: str | timedelta) -> None:
    clicks = batch(spark, [Event(BASE, "a", 1), Event(BASE + 61 * SECOND, "a", 1)])
    assert hopping(clicks, "1 minute", hop, aggs={"n": count()}).count() == 2


@pytest.mark.parametrize(
    ("size", "hop", "numbers"),
    [("1 minute", "7 seconds", "8 or 9"), ("1 hour", "45 minutes", "1 or 2")],
)
def test_a_hop_that_does_not_divide_the_size_warns_with_the_windows_per_event(
    size: str, hop: str, numbers: str
) -> None:
    with pytest.warns(UserWarning, match=rf"does not divide .*each event is in {numbers} windows"):
        Hopping(size, hop)


def test_a_hop_that_divides_the_size_does_not_warn() -> None:
    with warnings.catch_warnings(action="error"):
        Hopping("7 days", "1 minute")


def test_the_remedy_for_too_many_windows_per_event_is_accepted() -> None:
    with pytest.raises(ArgumentError, match="each event would be in 86,400 windows") as error:
        Hopping("1 day", "1 second")
    remedy = re.match(r"hop='([^']*)'", error.value.remedy)
    assert remedy
    with warnings.catch_warnings(action="ignore"):
        Hopping("1 day", remedy[1])
