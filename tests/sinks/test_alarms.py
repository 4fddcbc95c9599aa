"""Alarms of windows that deviate from their past: raised once, withdrawn, raised again."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count, partials
from tidegate.commit.batch import EPOCH
from tidegate.errors import ArgumentError, ColumnError
from tidegate.patterns import Deviation, Deviations, Past
from tidegate.sinks import Alarms, Corrected
from tidegate.windows import Session, Tumbling, Windowed, tumbling

from ..patterns.comparison.oracle import judged
from .batches import batch

pytestmark = pytest.mark.jobs

FIRST = datetime(2026, 3, 2, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
AGGS = {"views": count()}
HOURS = Windowed(Tumbling("1 hour"), by="page", aggs=AGGS)
SILENT = Deviation("views", Past(2, zero_from=FIRST), ratio=2, absolute=1.5, at_least=2)
DAILY = Deviation("views", Past(2, every="1 day"), absolute=2, at_least=1)


def sink(root: Path, **rules: Deviation) -> Alarms:
    return Alarms(
        str(root / "alarms"),
        windows=Corrected(str(root / "hours"), windowed=HOURS, log=None),
        deviations=Deviations("1 hour", by="page", rules=rules),
    )


def hours(spark: SparkSession, events: list[tuple[int, str | None]]) -> DataFrame:
    """Return the partials of events, which are told by hour and page."""
    rows = [(FIRST + at * HOUR, page) for at, page in events]
    frame = spark.createDataFrame(rows, "event_time timestamp, page string")
    return tumbling(frame, "1 hour", by="page", aggs=partials(AGGS))


def entries(spark: SparkSession, alarms: Alarms) -> list[tuple[Any, ...]]:
    hour = (F.unix_seconds("window.start") - F.lit(int(FIRST.timestamp()))) / 3600
    log = spark.read.format("delta").load(alarms.path)
    found = log.select(
        "batch", "rule", hour.cast("int"), "page", "version", "status", "reason", "value"
    )
    return sorted((tuple(row) for row in found.collect()), key=str)


def test_an_alarm_comes_once_and_is_withdrawn_and_raised_again_by_corrections(
    spark: SparkSession, tmp_path: Path
) -> None:
    alarms = sink(tmp_path, silent=SILENT)

    def write(number: int, watermark: int, before: int, *events: tuple[int, str | None]) -> None:
        planned = batch(
            number, watermark=FIRST + watermark * HOUR, late_watermark=FIRST + before * HOUR
        )
        alarms.write({"rows": hours(spark, list(events))}, planned)

    # Hours 0 to 2 are alike.
    write(0, 4, 0, *[(at, "/") for at in (0, 0, 1, 1, 2, 2)], *[(3, "/")] * 9)
    raised = (0, "silent", 3, "/", 1, "raised", None, 9.0)
    assert entries(spark, alarms) == [raised]
    # Late rows change its evidence and its ground, and raise it once more.
    write(1, 4, 4, (3, "/"), *[(2, "/")] * 9, *[(1, "/")] * 9)
    gone = (1, "silent", 3, "/", 2, "withdrawn", "ordinary", 10.0)
    assert entries(spark, alarms) == [raised, gone]
    # The hours that have ended without a row are alarms.
    write(2, 6, 4, *[(3, "/")] * 30)
    again = (2, "silent", 3, "/", 3, "raised", None, 40.0)
    silent = [(2, "silent", at, "/", 1, "raised", None, 0.0) for at in (4, 5)]
    assert entries(spark, alarms) == [raised, gone, again, *silent]
    assert alarms.standing(spark).count() == 3


@pytest.mark.draws("seed", short=[5], long=range(20))
def test_whatever_the_cuts_and_stragglers_the_alarms_that_stand_are_those_of_plain_python(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    alarms = sink(tmp_path, silent=SILENT, daily=DAILY)
    every = [
        (chance.choice([*range(6), *range(24, 30), 49, 50]), chance.choice("ab")) for _ in range(60)
    ]
    # A third comes late by any time.
    every.sort(key=lambda event: event[0] if chance.random() < 0.7 else chance.randrange(60))
    watermark, seen = EPOCH, list[tuple[int, str | None]]()
    size = len(every) // 3
    for number in range(3):
        some = list[tuple[int, str | None]](every[number * size : (number + 1) * size])
        seen += some
        before, watermark = watermark, FIRST + max(at for at, _ in seen) * HOUR
        planned = batch(number, watermark=watermark, late_watermark=before)
        frames = {"rows": hours(spark, some)}
        if number == 1:
            # A crash between the two tables, and the batch once more.
            alarms.windows.write(frames, planned)
        assert alarms.write(frames, planned) == "written"
        if number == 2:
            assert alarms.write(frames, planned) == "skipped"
        counts = Counter((page, FIRST + at * HOUR) for at, page in seen)
        values = {place: float(found) for place, found in counts.items()}
        wanted = {
            (name, each.key, each.start)
            for name, rule, distance in (
                ("silent", SILENT, None),
                ("daily", DAILY, timedelta(days=1)),
            )
            for each in judged(values, rule, HOUR, distance, None, watermark)
            if each.verdict == "alarm"
        }
        rows = alarms.standing(spark).select("rule", "page", "window.start").collect()
        assert {(row[0], row[1], row[2].astimezone(UTC)) for row in rows} == wanted
        assert len(rows) == len(wanted)
        assert wanted or number == 0
    log = spark.read.format("delta").load(alarms.path)
    # Each alarm comes and goes in turn.
    odd = F.col("version") % 2 == 1
    assert log.where(odd != (F.col("status") == "raised")).isEmpty()
    assert not log.where("status = 'withdrawn'").isEmpty()


def test_windows_that_are_not_those_of_the_rules_are_refused() -> None:
    rules = {"r": SILENT}
    kept = Corrected("/tables/hours", windowed=HOURS, log=None)
    with pytest.raises(ArgumentError, match="the same size"):
        Alarms("/a", windows=kept, deviations=Deviations("1 day", by="page", rules=rules))
    with pytest.raises(ColumnError, match="deviations are by nothing"):
        Alarms("/a", windows=kept, deviations=Deviations("1 hour", rules=rules))
    whole = Deviations("1 hour", by="page", rules=rules)
    with pytest.raises(ArgumentError, match="path is"):
        Alarms("/tables/hours", windows=kept, deviations=whole)
    visits = Windowed(Session("1 hour"), by="page", aggs=AGGS)
    with pytest.raises(ArgumentError, match="tumbling ones"):
        Alarms("/a", windows=Corrected("/v", windowed=visits, log=None), deviations=whole)
    other = Deviations("1 hour", by="page", rules={"r": Deviation("ms", Past(1), ratio=2)})
    with pytest.raises(ColumnError, match="'ms'"):
        Alarms("/a", windows=kept, deviations=other)
