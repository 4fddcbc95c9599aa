"""Windows that change after they came out: the current table, and its log."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate, count, largest, mean, partials, total
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.sinks import Corrected, rebuilt
from tidegate.windows import (
    Session,
    Sliding,
    Tumbling,
    Windowed,
    cumulative,
    hopping,
    session,
    tumbling,
)

from .batches import batch

pytestmark = pytest.mark.jobs

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
AGGS: dict[str, Aggregate] = {
    "n": count(),
    "ms": total("ms"),
    "slowest": largest("ms"),
    "last": largest("page"),
}
SCHEMA = "event_time timestamp, page string, ms bigint"
Event = tuple[int, str | None, int]
Transform = Callable[[DataFrame], DataFrame]


def events(spark: SparkSession, given: Sequence[Event]) -> DataFrame:
    return spark.createDataFrame(
        [(AT + timedelta(seconds=at), page, ms) for at, page, ms in given], SCHEMA
    )


def edges() -> list[Column]:
    return [
        F.unix_seconds(f"window.{edge}") - F.lit(int(AT.timestamp())) for edge in ("start", "end")
    ]


def log_of(spark: SparkSession, sink: Corrected, number: int) -> list[tuple[Any, ...]]:
    """Return a batch's entries: window in seconds, page, version, supersedes, and n of old, new and
    net."""
    table = spark.read.format("delta").load(str(sink.log)).where(F.col("batch") == number)
    return by_page(
        table.select(*edges(), "page", "version", "supersedes", "old.n", "new.n", "net.n").collect()
    )


def current_of(spark: SparkSession, sink: Corrected) -> list[tuple[Any, ...]]:
    table = spark.read.format("delta").load(sink.path)
    return by_page(table.select(*edges(), "page", "n", "version", "final").collect())


def by_page(found: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in found), key=lambda row: (row[0], row[1], row[2] or ""))


def written(
    spark: SparkSession, sink: Corrected, number: int, watermark: int, made: Transform, *own: Event
) -> None:
    frame = made(events(spark, own))
    sink.write({"rows": frame}, batch(number, watermark=AT + timedelta(seconds=watermark)))


def test_a_straggler_takes_the_old_answer_back_and_gives_the_new_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    views = Windowed(Tumbling("1 minute"), by="page", aggs=AGGS)
    sink = Corrected(str(tmp_path / "views"), windowed=views, log=str(tmp_path / "log"))

    def minutes(rows: DataFrame) -> DataFrame:
        return tumbling(rows, "1 minute", by="page", aggs=partials(AGGS))

    written(spark, sink, 0, 120, minutes, (10, "/", 5), (20, "/", 7), (70, "/", 1), (130, "/", 9))
    assert log_of(spark, sink, 0) == [
        (0, 60, "/", 1, None, None, 2, 2),
        (60, 120, "/", 1, None, None, 1, 1),
    ]
    written(spark, sink, 1, 180, minutes, (30, "/", 8), (50, None, 4))
    assert log_of(spark, sink, 1) == [
        (0, 60, None, 1, None, None, 1, 1),
        (0, 60, "/", 2, 1, 2, 3, 1),
        (120, 180, "/", 1, None, None, 1, 1),
    ]
    assert current_of(spark, sink) == [
        (0, 60, None, 1, 1, True),
        (0, 60, "/", 3, 2, True),
        (60, 120, "/", 1, 1, True),
        (120, 180, "/", 1, 1, True),
    ]
    assert sink.write({"rows": minutes(events(spark, [(30, "/", 8)]))}, batch(1)) == "skipped"


def test_a_straggler_between_two_sessions_withdraws_both_and_issues_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    of_pages = Windowed(Session("10 seconds"), by="page", aggs=AGGS)
    sink = Corrected(str(tmp_path / "visits"), windowed=of_pages, log=str(tmp_path / "log"))

    def visits(rows: DataFrame) -> DataFrame:
        return session(rows, "10 seconds", by="page", aggs=partials(AGGS))

    written(spark, sink, 0, 100, visits, (0, "/", 1), (15, "/", 1), (40, "/", 1), (15, "/b", 1))
    assert [row[:3] for row in current_of(spark, sink)] == [
        (0, 10, "/"),
        (15, 25, "/"),
        (15, 25, "/b"),
        (40, 50, "/"),
    ]
    # 7 to 17 reaches from the first session into the second; the third, and the other page, stay as
    # they are.
    written(spark, sink, 1, 110, visits, (7, "/", 1))
    assert log_of(spark, sink, 1) == [
        (0, 10, "/", 2, 1, 1, None, -1),
        (0, 25, "/", 1, None, None, 3, 3),
        (15, 25, "/", 2, 1, 1, None, -1),
    ]
    assert current_of(spark, sink) == [
        (0, 25, "/", 3, 1, True),
        (15, 25, "/b", 1, 1, True),
        (40, 50, "/", 1, 1, True),
    ]


def kinds(rows: DataFrame) -> DataFrame:
    """Return windows of three kinds side by side, told apart by their key."""
    aggs = partials(AGGS)
    made = {
        "tumbling": tumbling(rows, "10 seconds", by="page", aggs=aggs),
        "hopping": hopping(rows, "80 seconds", "10 seconds", by="page", aggs=aggs),
        "cumulative": cumulative(rows, "10 seconds", "1 minute", by="page", aggs=aggs),
    }
    first, *others = [frame.withColumn("kind", F.lit(name)) for name, frame in made.items()]
    for other in others:
        first = first.unionByName(other)
    return first


def visits(rows: DataFrame) -> DataFrame:
    return session(rows, "5 seconds", by="page", aggs=partials(AGGS)).withColumn(
        "kind", F.lit("session")
    )


@pytest.mark.parametrize(
    ("made", "window"),
    [(kinds, Tumbling("10 seconds")), (visits, Session("5 seconds"))],
    ids=["same", "overlapping"],
)
def test_whatever_the_batches_the_table_holds_the_windows_of_all_rows_and_the_log_adds_up_to_it(
    spark: SparkSession, tmp_path: Path, made: Transform, window: Tumbling | Session
) -> None:
    chance = random.Random(7)
    by = ["page", "kind"]
    given: list[Event] = [
        (chance.randrange(200), chance.choice(["a", "b", None]), chance.randrange(9))
        for _ in range(120)
    ]
    windowed = Windowed(window, by=by, aggs=AGGS)
    sink = Corrected(str(tmp_path / "now"), windowed=windowed, log=str(tmp_path / "log"))
    cuts = sorted(chance.sample(range(1, len(given)), 2))
    parts = [given[i:j] for i, j in zip([0, *cuts], [*cuts, len(given)], strict=True)]
    # Any row may be late in any measure: windows close between the batches while their rows still
    # come.
    for number, (part, watermark) in enumerate(zip([*parts, []], [60, 130, 200, 300], strict=True)):
        written(spark, sink, number, watermark, made, *part)

    whole = made(events(spark, given))
    answers = [agg.finish(F.col(name)).alias(name) for name, agg in AGGS.items()]
    expected = whole.select("window", *by, *answers)
    now = spark.read.format("delta").load(sink.path)
    log = spark.read.format("delta").load(str(sink.log))

    def told(frame: DataFrame) -> Counter[str]:
        return Counter(repr(row) for row in frame.select("window", *by, *AGGS).collect())

    assert told(now.where("final")) == told(now) == told(rebuilt(log, by)) == told(expected)
    assert log.agg(F.sum("net.n")).first() == expected.agg(F.sum("n")).first()
    broken = log.groupBy("window", *by).agg(
        F.sort_array(F.collect_list("version")).alias("versions"),
        F.sort_array(F.collect_list("supersedes")).alias("superseded"),
    )
    counted = F.sequence(F.lit(1), F.size("versions")).cast("array<bigint>")
    chained = (F.col("versions") == counted) & (
        F.col("superseded") == F.slice(counted, 1, F.size("versions") - 1)
    )
    assert broken.where(~chained).collect() == []
    assert log.where("supersedes is not null").count() > 5, (
        "nothing was corrected, and so nothing shown"
    )


def test_what_can_not_be_kept_is_refused(spark: SparkSession) -> None:
    minute = Windowed(Tumbling("1 minute"), aggs={"n": count()})
    with pytest.raises(ArgumentError, match="both /t"):
        Corrected("/t", windowed=minute, log="/t")
    with pytest.raises(ColumnError, match="version"):
        Corrected("/t", windowed=replace(minute, aggs={"version": count()}), log=None)
    with pytest.raises(ArgumentError, match="cannot be merged"):
        Corrected("/t", windowed=replace(minute, aggs={"n": F.count("*")}), log=None)
    with pytest.raises(ArgumentError, match="Sliding cannot be merged"):
        Corrected("/t", windowed=replace(minute, window=Sliding("1 minute")), log=None)
    with pytest.raises(ColumnError, match="by has the name 'my page'"):
        Corrected("/t", windowed=replace(minute, by="my page"), log=None)
    not_windowed: Any = Tumbling("1 minute")
    with pytest.raises(ColumnTypeError, match="windowed is Tumbling"):
        Corrected("/t", windowed=not_windowed, log=None)


def test_windows_of_decimals_are_corrected_as_often_as_rows_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    prices = {"sum": total("price"), "mean": mean("price")}
    minute = Windowed(Tumbling("1 minute"), aggs=prices)
    sink = Corrected(str(tmp_path / "views"), windowed=minute, log=str(tmp_path / "log"))
    for number, price in enumerate(["1.35", "2.00", "0.05"]):
        frame = spark.createDataFrame(
            [(AT, Decimal(price))], "event_time TIMESTAMP, price DECIMAL(10,2)"
        )
        later = batch(number, watermark=AT + timedelta(minutes=2))
        assert sink.write({"rows": minute.partials()(frame)}, later) == "written"
    (row,) = spark.read.format("delta").load(sink.path).collect()
    found = (row["sum"], row["mean"], row.version)
    assert found == (Decimal("3.40"), Decimal("1.13333333333333333333"), 3)
