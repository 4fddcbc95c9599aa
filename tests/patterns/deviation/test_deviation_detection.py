"""Deviation detection: past windows, verdicts, and the evidence of alarms."""

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

from tests.support.deviation_oracle import Values, Verdict, expected_verdicts, sorted_by_window
from tests.support.hypothesis_profiles import few
from tidegate.aggregates import count
from tidegate.patterns import DeviationDetection, DeviationRule, PastWindows, deviations
from tidegate.windows import tumbling

HOUR = timedelta(hours=1)
WEEK = timedelta(weeks=1)
BERLIN = "Europe/Berlin"
MONDAY = datetime(2026, 3, 2, 9, tzinfo=UTC)
SCHEMA = "window struct<start: timestamp, end: timestamp>, page string, views double"


def hours(spark: SparkSession, values: Values, size: timedelta = HOUR) -> DataFrame:
    rows = [((start, start + size), key, value) for (key, start), value in values.items()]
    random.Random(1).shuffle(rows)
    return spark.createDataFrame(rows, SCHEMA)


def collect_verdicts(rows: DataFrame) -> list[Verdict]:
    """Collect the rows as verdicts of the oracle."""
    verdicts = [
        Verdict(
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
    return sorted_by_window(verdicts)


def verdicts_by_start(rows: DataFrame) -> dict[datetime, str]:
    return {each.start: each.verdict for each in collect_verdicts(rows)}


@pytest.mark.slow
def test_an_hour_is_compared_with_the_same_local_hour_after_a_clock_change(
    spark: SparkSession,
) -> None:
    """On 29 March, clocks in Berlin change from 02:00 to 03:00: 10:00 is 09:00, then 08:00 UTC."""
    after = datetime(2026, 3, 30, 8, tzinfo=UTC)
    values: Values = {
        ("/", after): 90.0,
        ("/", datetime(2026, 3, 23, 9, tzinfo=UTC)): 30.0,
        ("/", datetime(2026, 3, 23, 8, tzinfo=UTC)): 88.0,
        ("/", datetime(2026, 3, 16, 9, tzinfo=UTC)): 40.0,
    }
    rule = DeviationRule("views", PastWindows(2, every="1 week"), ratio=2)
    (alarm,) = deviations(
        hours(spark, values), "1 hour", by="page", rules={"week": rule}, zone=BERLIN
    ).collect()
    assert (alarm.rule, alarm.page, alarm.value, alarm.baseline) == ("week", "/", 90.0, 35.0)
    assert (alarm.deviation, alarm.ratio) == (55.0, 90 / 35)
    assert [(each.value, each.filled) for each in alarm.past] == [(30.0, False), (40.0, False)]
    assert alarm.limits == rule.describe()
    assert "every 1 week" in alarm.limits
    # By elapsed time, it is compared with 09:00 local time.
    in_utc = DeviationDetection("1 hour", by="page", rules={"week": replace(rule, min_samples=1)})
    assert verdicts_by_start(in_utc.verdicts(hours(spark, values)))[after] == "ordinary"


def test_an_hour_that_a_clock_change_skipped_does_not_count_as_zero(spark: SparkSession) -> None:
    """On 29 March, 02:00 to 03:00 does not exist in Berlin; on 25 October it occurs twice."""
    since = datetime(2026, 1, 1, tzinfo=UTC)
    two = [datetime(2026, 3, day, 1 - (day > 29), tzinfo=UTC) for day in (15, 22)]
    week_later = datetime(2026, 4, 5, 0, tzinfo=UTC)
    values: Values = {("/", at): 10.0 for at in [*two, week_later]}
    rule = DeviationRule(
        "views", PastWindows(3, every="1 week", zero_from=since), absolute=1, min_samples=1
    )
    detection = DeviationDetection("1 hour", by="page", rules={"r": rule}, zone=BERLIN)
    verdicts = collect_verdicts(detection.verdicts(hours(spark, values)))
    by_start = {each.start: each for each in verdicts}
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
    rule = DeviationRule("views", PastWindows(1, every="1 week"), absolute=0.01)
    detection = DeviationDetection("1 day", by="page", rules={"r": rule}, zone=BERLIN)
    noon = timedelta(hours=12)
    alarms = detection(days).collect()
    assert {(row.window.start.astimezone(UTC) + noon).date() for row in alarms} == {
        date(2026, 3, 29),
        date(2026, 4, 5),
    }
    rates = replace(detection, rules={"r": replace(rule, per="1 hour")})
    assert {row.value for row in rates.verdicts(days).collect()} == {1.0}


@pytest.mark.slow
def test_skipped_dates_are_neither_compared_nor_past_windows(spark: SparkSession) -> None:
    values: Values = {("/", MONDAY + week * WEEK): 10.0 for week in range(4)}
    values = {**values, ("/", MONDAY + 2 * WEEK): 1000.0}
    past = PastWindows(2, every="1 week", skip=[(MONDAY + 2 * WEEK).date()])
    rule = DeviationRule("views", past, absolute=1, min_samples=1)
    detection = DeviationDetection("1 hour", by="page", rules={"r": rule}, zone=BERLIN)
    assert verdicts_by_start(detection.verdicts(hours(spark, values))) == {
        MONDAY: "too little history",
        MONDAY + WEEK: "ordinary",
        MONDAY + 3 * WEEK: "ordinary",
    }


@pytest.mark.slow
def test_a_silent_source_raises_an_alarm_with_zero_from(spark: SparkSession) -> None:
    values: Values = {("/", MONDAY + week * WEEK): 50.0 for week in range(3)}
    values = {**values, ("/other", MONDAY + 3 * WEEK): 1.0}
    silent = PastWindows(3, every="1 week", zero_from=MONDAY)
    rules = {
        "silent": DeviationRule("views", silent, ratio=2, direction="below"),
        "omitted": DeviationRule("views", replace(silent, zero_from=None), ratio=2),
    }
    detection = DeviationDetection("1 hour", by="page", rules=rules)
    (alarm,) = detection(hours(spark, values)).collect()
    assert (alarm.rule, alarm.page, alarm.value, alarm.baseline) == ("silent", "/", 0.0, 50.0)
    assert alarm.window.start.astimezone(UTC) == MONDAY + 3 * WEEK
    # An open window is not compared.
    before_end = MONDAY + 3 * WEEK + HOUR / 2
    assert detection(hours(spark, values), until=before_end).isEmpty()


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
    rule = DeviationRule("views", PastWindows(3), robust_z=2.3)
    detection = DeviationDetection("1 hour", by="page", rules={"r": rule})
    verdicts = collect_verdicts(detection.verdicts(hours(spark, values)))
    last = {each.key: each for each in verdicts if each.start == MONDAY}
    for case, (verdict, robust_z) in cases.items():
        assert last[str(case)].verdict == verdict
        expected = robust_z if robust_z is None else pytest.approx(robust_z)
        assert last[str(case)].robust_z == expected


@pytest.mark.slow
def test_windows_of_another_size_and_duplicate_windows_fail_the_query(
    spark: SparkSession,
) -> None:
    detection = DeviationDetection(
        "1 hour", by="page", rules={"r": DeviationRule("views", PastWindows(1), ratio=2)}
    )
    values: Values = {("/", MONDAY): 1.0}
    # Two stages can fail at once; PySpark raises that as an error of Py4J.
    with pytest.raises(Exception, match="invalid window, whose size or alignment differs"):
        detection.verdicts(hours(spark, values, size=HOUR / 2)).collect()
    one = hours(spark, values)
    with pytest.raises(PySparkException, match="duplicate window"):
        detection.verdicts(one.union(one)).collect()


@st.composite
def histories(draw: st.DrawFn) -> dict[tuple[str | None, datetime], float | None]:
    """Draw hourly windows of weeks around a clock change, close to each other in local time."""
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
        lambda past, limit: DeviationRule("views", past, **limit),
        st.builds(
            PastWindows,
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
def test_the_verdicts_of_all_windows_equal_the_oracle(spark: SparkSession) -> None:
    @few()
    @given(histories(), st.lists(rules(), min_size=2, max_size=2), st.sampled_from([None, BERLIN]))
    def agree(values: Values, drawn: list[DeviationRule], zone: str | None) -> None:
        named = {str(at): rule for at, rule in enumerate(drawn)}
        rows = DeviationDetection("1 hour", by="page", rules=named, zone=zone).verdicts(
            hours(spark, values)
        )
        rows = rows.persist()
        for name, rule in named.items():
            distance = DISTANCES[rule.past.every]  # type: ignore[index]
            expected = sorted_by_window(expected_verdicts(values, rule, HOUR, distance, zone))
            actual = collect_verdicts(rows.where(rows.rule == name))
            assert [rounded(each) for each in actual] == [rounded(each) for each in expected]
        rows.unpersist()

    agree()


def rounded(verdict: Verdict) -> Verdict:
    """Round the numbers that may differ in the last digit."""
    return verdict._replace(
        baseline=None if verdict.baseline is None else round(verdict.baseline, 9),
        robust_z=None if verdict.robust_z is None else round(verdict.robust_z, 6),
    )
