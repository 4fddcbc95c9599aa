"""Alarms: raised once, withdrawn and raised again by corrections."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.deviation_oracle import expected_verdicts
from tests.support.sink_batches import batch
from tidegate.aggregates import count, partials
from tidegate.commit.batch import UNIX_EPOCH
from tidegate.errors import ArgumentError, ColumnError
from tidegate.patterns import DeviationDetection, DeviationRule, PastWindows
from tidegate.sinks import Alarms, CorrectedWindows
from tidegate.windows import Session, Tumbling, WindowAggregation, tumbling

pytestmark = pytest.mark.jobs

FIRST = datetime(2026, 3, 2, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
AGGS = {"views": count()}
HOURS = WindowAggregation(Tumbling("1 hour"), by="page", aggs=AGGS)
SILENT = DeviationRule(
    "views", PastWindows(2, zero_from=FIRST), ratio=2, absolute=1.5, min_samples=2
)
DAILY = DeviationRule("views", PastWindows(2, every="1 day"), absolute=2, min_samples=1)


def sink(root: Path, **rules: DeviationRule) -> Alarms:
    return Alarms(
        str(root / "alarms"),
        windows=CorrectedWindows(str(root / "hours"), aggregation=HOURS, log=None),
        deviations=DeviationDetection("1 hour", by="page", rules=rules),
    )


def hours(spark: SparkSession, events: list[tuple[int, str | None]]) -> DataFrame:
    """Return hourly partials of events (hour, page)."""
    rows = [(FIRST + at * HOUR, page) for at, page in events]
    frame = spark.createDataFrame(rows, "event_time timestamp, page string")
    return tumbling(frame, "1 hour", by="page", aggs=partials(AGGS))


def entries(spark: SparkSession, alarms: Alarms) -> list[tuple[Any, ...]]:
    hour = (F.unix_seconds("window.start") - F.lit(int(FIRST.timestamp()))) / 3600
    log = spark.read.format("delta").load(alarms.path)
    rows = log.select(
        "batch", "rule", hour.cast("int"), "page", "version", "status", "reason", "value"
    )
    return sorted((tuple(row) for row in rows.collect()), key=str)


def test_an_alarm_is_raised_once_and_withdrawn_and_raised_again_by_corrections(
    spark: SparkSession, tmp_path: Path
) -> None:
    alarms = sink(tmp_path, silent=SILENT)

    def write(number: int, watermark: int, before: int, *events: tuple[int, str | None]) -> None:
        planned = batch(
            number, watermark=FIRST + watermark * HOUR, late_watermark=FIRST + before * HOUR
        )
        alarms.write({"rows": hours(spark, list(events))}, planned)

    # Hours 0 to 2 have equal counts.
    write(0, 4, 0, *[(at, "/") for at in (0, 0, 1, 1, 2, 2)], *[(3, "/")] * 9)
    raised = (0, "silent", 3, "/", 1, "raised", None, 9.0)
    assert entries(spark, alarms) == [raised]
    # Late rows change the window and its past, so that it no longer deviates.
    write(1, 4, 4, (3, "/"), *[(2, "/")] * 9, *[(1, "/")] * 9)
    withdrawn = (1, "silent", 3, "/", 2, "withdrawn", "ordinary", 10.0)
    assert entries(spark, alarms) == [raised, withdrawn]
    # Hours that ended without a row raise alarms.
    write(2, 6, 4, *[(3, "/")] * 30)
    raised_again = (2, "silent", 3, "/", 3, "raised", None, 40.0)
    silent = [(2, "silent", at, "/", 1, "raised", None, 0.0) for at in (4, 5)]
    assert entries(spark, alarms) == [raised, withdrawn, raised_again, *silent]
    assert alarms.read_active_alarms(spark).count() == 3


@pytest.mark.draws("seed", short=[5], long=range(20))
def test_active_alarms_equal_a_plain_python_oracle_for_any_batches_and_late_rows(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    alarms = sink(tmp_path, silent=SILENT, daily=DAILY)
    events = [
        (chance.choice([*range(6), *range(24, 30), 49, 50]), chance.choice("ab")) for _ in range(60)
    ]
    # About a third of the events is late.
    events.sort(key=lambda event: event[0] if chance.random() < 0.7 else chance.randrange(60))
    watermark, seen = UNIX_EPOCH, list[tuple[int, str | None]]()
    size = len(events) // 3
    for number in range(3):
        part = list[tuple[int, str | None]](events[number * size : (number + 1) * size])
        seen += part
        before, watermark = watermark, FIRST + max(at for at, _ in seen) * HOUR
        planned = batch(number, watermark=watermark, late_watermark=before)
        frames = {"rows": hours(spark, part)}
        if number == 1:
            # A crash between the two tables; then the batch runs again.
            alarms.windows.write(frames, planned)
        assert alarms.write(frames, planned) == "written"
        if number == 2:
            assert alarms.write(frames, planned) == "skipped"
        counts = Counter((page, FIRST + at * HOUR) for at, page in seen)
        values = {window: float(n) for window, n in counts.items()}
        expected = {
            (name, each.key, each.start)
            for name, rule, distance in (
                ("silent", SILENT, None),
                ("daily", DAILY, timedelta(days=1)),
            )
            for each in expected_verdicts(values, rule, HOUR, distance, None, watermark)
            if each.verdict == "alarm"
        }
        rows = alarms.read_active_alarms(spark).select("rule", "page", "window.start").collect()
        assert {(row[0], row[1], row[2].astimezone(UTC)) for row in rows} == expected
        assert len(rows) == len(expected)
        assert expected or number == 0
    log = spark.read.format("delta").load(alarms.path)
    # Entries of an alarm are alternately raised and withdrawn.
    odd = F.col("version") % 2 == 1
    assert log.where(odd != (F.col("status") == "raised")).isEmpty()
    assert not log.where("status = 'withdrawn'").isEmpty()


def test_windows_that_do_not_match_the_rules_are_refused() -> None:
    rules = {"r": SILENT}
    windows = CorrectedWindows("/tables/hours", aggregation=HOURS, log=None)
    with pytest.raises(ArgumentError, match="the same size"):
        Alarms(
            "/a", windows=windows, deviations=DeviationDetection("1 day", by="page", rules=rules)
        )
    with pytest.raises(ColumnError, match=r"invalid deviations: by=\[\]"):
        Alarms("/a", windows=windows, deviations=DeviationDetection("1 hour", rules=rules))
    deviations = DeviationDetection("1 hour", by="page", rules=rules)
    with pytest.raises(ArgumentError, match="duplicate path"):
        Alarms("/tables/hours", windows=windows, deviations=deviations)
    visits = WindowAggregation(Session("1 hour"), by="page", aggs=AGGS)
    with pytest.raises(ArgumentError, match="tumbling windows"):
        Alarms(
            "/a",
            windows=CorrectedWindows("/v", aggregation=visits, log=None),
            deviations=deviations,
        )
    other = DeviationDetection(
        "1 hour", by="page", rules={"r": DeviationRule("ms", PastWindows(1), ratio=2)}
    )
    with pytest.raises(ColumnError, match="'ms'"):
        Alarms("/a", windows=windows, deviations=other)
