"""Windows against their past: what is compared with what, what is an alarm, and its evidence."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.aggregates import count
from tidegate.patterns import Deviation, Deviations, Past, deviations
from tidegate.windows import tumbling

from ...drawing import few
from .oracle import Judged, Values, judged, sorted_by_window

HOUR = timedelta(hours=1)
WEEK = timedelta(weeks=1)
BERLIN = "Europe/Berlin"
MONDAY = datetime(2026, 3, 2, 9, tzinfo=UTC)
SCHEMA = "window struct<start: timestamp, end: timestamp>, page string, views double"


def hours(spark: SparkSession, values: Values, size: timedelta = HOUR) -> DataFrame:
    rows = [((start, start + size), key, value) for (key, start), value in values.items()]
    random.Random(1).shuffle(rows)
    return spark.createDataFrame(rows, SCHEMA)


def told(rows: DataFrame) -> list[Judged]:
    """Return what the rows say, in the oracle's words."""
    found = [
        Judged(
            row.page,
            row.window.start.astimezone(UTC),
            row.value,
            tuple((each.start.astimezone(UTC), each.value, each.filled) for each in row.past),
            row.baseline,
            row.robust_z,
            row.verdict,
        )
        for row in rows.collect()
    ]
    return sorted_by_window(found)


def verdicts(rows: DataFrame) -> dict[datetime, str]:
    return {each.start: each.verdict for each in told(rows)}


@pytest.mark.slow
def test_an_hour_meets_the_same_hour_by_the_clocks_where_they_have_changed(
    spark: SparkSession,
) -> None:
    """Clocks in Berlin go from 02:00 to 03:00 on 29 March: ten o'clock is 09:00, then 08:00 UTC."""
    after = datetime(2026, 3, 30, 8, tzinfo=UTC)
    values: Values = {
        ("/", after): 90.0,
        ("/", datetime(2026, 3, 23, 9, tzinfo=UTC)): 30.0,
        ("/", datetime(2026, 3, 23, 8, tzinfo=UTC)): 88.0,
        ("/", datetime(2026, 3, 16, 9, tzinfo=UTC)): 40.0,
    }
    rule = Deviation("views", Past(2, every="1 week"), ratio=2)
    (alarm,) = deviations(
        hours(spark, values), "1 hour", by="page", rules={"week": rule}, zone=BERLIN
    ).collect()
    assert (alarm.rule, alarm.page, alarm.value, alarm.baseline) == ("week", "/", 90.0, 35.0)
    assert (alarm.deviation, alarm.ratio) == (55.0, 90 / 35)
    assert [(each.value, each.filled) for each in alarm.past] == [(30.0, False), (40.0, False)]
    assert alarm.limits == rule.told()
    assert "every 1 week" in alarm.limits
    # By elapsed time it meets nine o'clock instead.
    in_utc = Deviations("1 hour", by="page", rules={"week": replace(rule, at_least=1)})
    assert verdicts(in_utc.judged(hours(spark, values)))[after] == "ordinary"


def test_an_hour_that_the_clocks_skipped_is_left_out_and_never_counts_as_nothing(
    spark: SparkSession,
) -> None:
    """02:00 to 03:00 in Berlin is not there on 29 March; on 25 October it is there twice."""
    since = datetime(2026, 1, 1, tzinfo=UTC)
    two = [datetime(2026, 3, day, 1 - (day > 29), tzinfo=UTC) for day in (15, 22)]
    week_later = datetime(2026, 4, 5, 0, tzinfo=UTC)
    values: Values = {("/", at): 10.0 for at in [*two, week_later]}
    rule = Deviation("views", Past(3, every="1 week", zero_from=since), absolute=1, at_least=1)
    found = Deviations("1 hour", by="page", rules={"r": rule}, zone=BERLIN)
    by_start = {each.start: each for each in told(found.judged(hours(spark, values)))}
    assert [each[0] for each in by_start[week_later].past] == [two[1], two[0]]
    assert by_start[week_later].verdict == "ordinary"


@pytest.mark.slow
def test_days_of_23_hours_are_compared_as_rates(
    spark: SparkSession,
) -> None:
    clicks = spark.sql(
        "select explode(sequence(timestamp'2026-02-28T23:00:00Z', "
        "timestamp'2026-04-30T21:00:00Z', interval 1 hour)) event_time, '/' page"
    )
    aggs = {"views": count()}
    days = tumbling(clicks, "1 day", by="page", aggs=aggs, zone=BERLIN)
    rule = Deviation("views", Past(1, every="1 week"), absolute=0.01)
    found = Deviations("1 day", by="page", rules={"r": rule}, zone=BERLIN)
    noon = timedelta(hours=12)
    assert {(row.window.start.astimezone(UTC) + noon).date() for row in found(days).collect()} == {
        date(2026, 3, 29),
        date(2026, 4, 5),
    }
    rates = replace(found, rules={"r": replace(rule, per="1 hour")})
    assert {row.value for row in rates.judged(days).collect()} == {1.0}


@pytest.mark.slow
def test_holidays_are_neither_compared_nor_compared_with(spark: SparkSession) -> None:
    values: Values = {("/", MONDAY + week * WEEK): 10.0 for week in range(4)}
    values = {**values, ("/", MONDAY + 2 * WEEK): 1000.0}
    past = Past(2, every="1 week", skip=[(MONDAY + 2 * WEEK).date()])
    rule = Deviation("views", past, absolute=1, at_least=1)
    found = Deviations("1 hour", by="page", rules={"r": rule}, zone=BERLIN)
    assert verdicts(found.judged(hours(spark, values))) == {
        MONDAY: "too little history",
        MONDAY + WEEK: "ordinary",
        MONDAY + 3 * WEEK: "ordinary",
    }


@pytest.mark.slow
def test_a_source_that_falls_silent_is_an_alarm_where_a_missing_window_is_nothing(
    spark: SparkSession,
) -> None:
    values: Values = {("/", MONDAY + week * WEEK): 50.0 for week in range(3)}
    values = {**values, ("/other", MONDAY + 3 * WEEK): 1.0}
    silent = Past(3, every="1 week", zero_from=MONDAY)
    rules = {
        "silent": Deviation("views", silent, ratio=2, direction="below"),
        "left out": Deviation("views", replace(silent, zero_from=None), ratio=2),
    }
    found = Deviations("1 hour", by="page", rules=rules)
    (alarm,) = found(hours(spark, values)).collect()
    assert (alarm.rule, alarm.page, alarm.value, alarm.baseline) == ("silent", "/", 0.0, 50.0)
    assert alarm.window.start.astimezone(UTC) == MONDAY + 3 * WEEK
    # What has not ended is not silent yet.
    before_end = MONDAY + 3 * WEEK + HOUR / 2
    assert found(hours(spark, values), until=before_end).isEmpty()


@pytest.mark.slow
def test_a_robust_z_score_is_measured_in_median_absolute_deviations(spark: SparkSession) -> None:
    cases = {
        (10, 10, 10, 11): ("alarm", None),
        (10, 10, 10, 10): ("ordinary", None),
        (8, 10, 12, 16): ("ordinary", 3 / 1.4826),
        (8, 10, 12, 17): ("alarm", 3.5 / 1.4826),
        (10, 10, 40, 100): ("alarm", 9 / 1.2533),
        (10, 99): ("too little history", None),
    }
    values: Values = {
        (str(case), MONDAY - at * HOUR): float(each)
        for case in cases
        for at, each in enumerate(reversed(case))
    }
    rule = Deviation("views", Past(3), robust_z=2.3)
    found = told(Deviations("1 hour", by="page", rules={"r": rule}).judged(hours(spark, values)))
    last = {each.key: each for each in found if each.start == MONDAY}
    for case, (verdict, robust_z) in cases.items():
        assert last[str(case)].verdict == verdict
        wanted = robust_z if robust_z is None else pytest.approx(robust_z)
        assert last[str(case)].robust_z == wanted


@pytest.mark.slow
def test_windows_of_another_size_and_windows_that_are_there_twice_are_refused(
    spark: SparkSession,
) -> None:
    found = Deviations("1 hour", by="page", rules={"r": Deviation("views", Past(1), ratio=2)})
    values: Values = {("/", MONDAY): 1.0}
    with pytest.raises(PySparkException, match="not of the size that is compared"):
        found.judged(hours(spark, values, size=HOUR / 2)).collect()
    one = hours(spark, values)
    with pytest.raises(PySparkException, match="there twice"):
        found.judged(one.union(one)).collect()


@st.composite
def histories(draw: st.DrawFn) -> dict[tuple[str | None, datetime], float | None]:
    """Draw hours of weeks about a change of clocks: near each other by the week's clocks."""
    first = draw(st.sampled_from([datetime(2026, 3, 8, 23), datetime(2026, 10, 4, 22)]))
    number = st.one_of(st.none(), st.integers(-3, 40).map(float), st.just(float("nan")))
    place = st.tuples(
        st.sampled_from([None, "/", "/a"]),
        st.integers(0, 5),
        st.integers(0, 5),
    )
    drawn = draw(st.dictionaries(place, number, min_size=6, max_size=50))
    return {
        (key, first.replace(tzinfo=UTC) + week * WEEK + hour * HOUR): value
        for (key, week, hour), value in drawn.items()
    }


def rules() -> st.SearchStrategy[Any]:
    limits = st.sampled_from(
        [
            {"ratio": 1.5},
            {"absolute": 5},
            {"robust_z": 2.0},
            {"ratio": 2, "absolute": 3, "direction": "below"},
            {"absolute": 2, "baseline": "mean", "direction": "above"},
        ]
    )
    return st.builds(
        lambda past, given: Deviation("views", past, **given),
        st.builds(
            Past,
            st.integers(1, 4),
            every=st.sampled_from([None, "1 week", "1 day"]),
            zero_from=st.sampled_from([None, datetime(2026, 1, 1, tzinfo=UTC)]),
            skip=st.sampled_from([(), (date(2026, 3, 23), date(2026, 10, 18))]),
        ),
        limits,
    )


DISTANCES = {None: None, "1 week": WEEK, "1 day": timedelta(days=1)}


@pytest.mark.draws
@pytest.mark.slow
def test_every_window_is_judged_as_in_plain_python(spark: SparkSession) -> None:
    @few()
    @given(histories(), st.lists(rules(), min_size=2, max_size=2), st.sampled_from([None, BERLIN]))
    def agree(values: Values, drawn: list[Deviation], zone: str | None) -> None:
        named = {str(at): rule for at, rule in enumerate(drawn)}
        rows = Deviations("1 hour", by="page", rules=named, zone=zone).judged(hours(spark, values))
        rows = rows.persist()
        for name, rule in named.items():
            distance = DISTANCES[rule.past.every]  # type: ignore[index]
            wanted = sorted_by_window(judged(values, rule, HOUR, distance, zone))
            found = told(rows.where(rows.rule == name))
            assert [near(each) for each in found] == [near(each) for each in wanted]
        rows.unpersist()

    agree()


def near(one: Judged) -> Judged:
    """Round what may differ in the last place."""
    return one._replace(
        baseline=None if one.baseline is None else round(one.baseline, 9),
        robust_z=None if one.robust_z is None else round(one.robust_z, 6),
    )
