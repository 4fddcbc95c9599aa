"""CorrectedWindows: the current table and its log."""

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

from tests.support.sink_batches import batch
from tidegate import aggregates as agg
from tidegate.aggregates import Aggregate
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError
from tidegate.sinks import CorrectedWindows, windows_from_log
from tidegate.windows import (
    Session,
    Sliding,
    Tumbling,
    WindowAggregation,
    cumulative,
    hopping,
    session,
    tumbling,
)

pytestmark = pytest.mark.jobs

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
AGGS: dict[str, Aggregate] = {
    "n": agg.count(),
    "ms": agg.sum("ms"),
    "slowest": agg.max("ms"),
    "last": agg.max("page"),
}
SCHEMA = "event_time timestamp, page string, ms bigint"
Event = tuple[int, str | None, int]
Transform = Callable[[DataFrame], DataFrame]


def events_frame(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    return spark.createDataFrame(
        [(AT + timedelta(seconds=at), page, ms) for at, page, ms in events], SCHEMA
    )


def edges() -> list[Column]:
    return [
        F.unix_seconds(f"window.{edge}") - F.lit(int(AT.timestamp())) for edge in ("start", "end")
    ]


def log_of(spark: SparkSession, sink: CorrectedWindows, number: int) -> list[tuple[Any, ...]]:
    """Return a batch's entries: start, end, page, version, supersedes; n of old, new and net."""
    table = spark.read.format("delta").load(str(sink.log)).where(F.col("batch") == number)
    return by_page(
        table.select(*edges(), "page", "version", "supersedes", "old.n", "new.n", "net.n").collect()
    )


def current_of(spark: SparkSession, sink: CorrectedWindows) -> list[tuple[Any, ...]]:
    table = spark.read.format("delta").load(sink.path)
    return by_page(table.select(*edges(), "page", "n", "version", "final").collect())


def by_page(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=lambda row: (row[0], row[1], row[2] or ""))


def write(
    spark: SparkSession,
    sink: CorrectedWindows,
    number: int,
    watermark: int,
    transform: Transform,
    *events: Event,
) -> None:
    frame = transform(events_frame(spark, events))
    sink.write({"rows": frame}, batch(number, watermark=AT + timedelta(seconds=watermark)))


def test_a_late_row_replaces_the_result_of_its_window(spark: SparkSession, tmp_path: Path) -> None:
    views = WindowAggregation(Tumbling("1 minute"), by="page", aggs=AGGS)
    sink = CorrectedWindows(str(tmp_path / "views"), aggregation=views, log=str(tmp_path / "log"))

    def minutes(rows: DataFrame) -> DataFrame:
        return tumbling(rows, "1 minute", by="page", aggs=agg.partials(AGGS))

    write(spark, sink, 0, 120, minutes, (10, "/", 5), (20, "/", 7), (70, "/", 1), (130, "/", 9))
    assert log_of(spark, sink, 0) == [
        (0, 60, "/", 1, None, None, 2, 2),
        (60, 120, "/", 1, None, None, 1, 1),
    ]
    write(spark, sink, 1, 180, minutes, (30, "/", 8), (50, None, 4))
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
    assert sink.write({"rows": minutes(events_frame(spark, [(30, "/", 8)]))}, batch(1)) == "skipped"


def test_a_late_row_between_two_sessions_withdraws_both_and_adds_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    visits_by_page = WindowAggregation(Session("10 seconds"), by="page", aggs=AGGS)
    sink = CorrectedWindows(
        str(tmp_path / "visits"), aggregation=visits_by_page, log=str(tmp_path / "log")
    )

    def visits(rows: DataFrame) -> DataFrame:
        return session(rows, "10 seconds", by="page", aggs=agg.partials(AGGS))

    write(spark, sink, 0, 100, visits, (0, "/", 1), (15, "/", 1), (40, "/", 1), (15, "/b", 1))
    assert [row[:3] for row in current_of(spark, sink)] == [
        (0, 10, "/"),
        (15, 25, "/"),
        (15, 25, "/b"),
        (40, 50, "/"),
    ]
    # 7 to 17 connects the first two sessions; the third, and the other page, do not change.
    write(spark, sink, 1, 110, visits, (7, "/", 1))
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
    """Return windows of three kinds, distinguished by the key column kind."""
    aggs = agg.partials(AGGS)
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
    return session(rows, "5 seconds", by="page", aggs=agg.partials(AGGS)).withColumn(
        "kind", F.lit("session")
    )


@pytest.mark.parametrize(
    ("transform", "window"),
    [(kinds, Tumbling("10 seconds")), (visits, Session("5 seconds"))],
    ids=["same", "overlapping"],
)
def test_the_table_equals_the_windows_of_all_rows_and_the_log_adds_up_for_any_batches(
    spark: SparkSession, tmp_path: Path, transform: Transform, window: Tumbling | Session
) -> None:
    chance = random.Random(7)
    by = ["page", "kind"]
    events: list[Event] = [
        (chance.randrange(200), chance.choice(["a", "b", None]), chance.randrange(9))
        for _ in range(120)
    ]
    aggregation = WindowAggregation(window, by=by, aggs=AGGS)
    sink = CorrectedWindows(
        str(tmp_path / "now"), aggregation=aggregation, log=str(tmp_path / "log")
    )
    cuts = sorted(chance.sample(range(1, len(events)), 2))
    parts = [events[i:j] for i, j in zip([0, *cuts], [*cuts, len(events)], strict=True)]
    # Any row may be late: windows close between batches while rows for them still arrive.
    for number, (part, watermark) in enumerate(zip([*parts, []], [60, 130, 200, 300], strict=True)):
        write(spark, sink, number, watermark, transform, *part)

    complete = transform(events_frame(spark, events))
    expected = agg.finish(complete, AGGS).select("window", *by, *AGGS)
    now = spark.read.format("delta").load(sink.path)
    log = spark.read.format("delta").load(str(sink.log))

    def counted_rows(frame: DataFrame) -> Counter[str]:
        return Counter(repr(row) for row in frame.select("window", *by, *AGGS).collect())

    assert counted_rows(now) == counted_rows(expected)
    assert counted_rows(now.where("final")) == counted_rows(expected)
    assert counted_rows(windows_from_log(log, by)) == counted_rows(expected)
    assert log.agg(F.sum("net.n")).first() == expected.agg(F.sum("n")).first()
    versions = log.groupBy("window", *by).agg(
        F.sort_array(F.collect_list("version")).alias("versions"),
        F.sort_array(F.collect_list("supersedes")).alias("superseded"),
    )
    counted = F.sequence(F.lit(1), F.size("versions")).cast("array<bigint>")
    chained = (F.col("versions") == counted) & (
        F.col("superseded") == F.slice(counted, 1, F.size("versions") - 1)
    )
    assert versions.where(~chained).collect() == []
    assert log.where("supersedes is not null").count() > 5, "no window was corrected"


def test_invalid_arguments_are_refused(spark: SparkSession) -> None:
    minute = WindowAggregation(Tumbling("1 minute"), aggs={"n": agg.count()})
    with pytest.raises(ArgumentError, match="invalid log: '/t'"):
        CorrectedWindows("/t", aggregation=minute, log="/t")
    with pytest.raises(ColumnError, match="version"):
        CorrectedWindows("/t", aggregation=replace(minute, aggs={"version": agg.count()}), log=None)
    with pytest.raises(ArgumentError, match="cannot merge late rows"):
        CorrectedWindows("/t", aggregation=replace(minute, aggs={"n": F.count("*")}), log=None)
    with pytest.raises(ArgumentError, match="Sliding cannot merge late rows"):
        CorrectedWindows("/t", aggregation=replace(minute, window=Sliding("1 minute")), log=None)
    with pytest.raises(ColumnError, match="invalid by: 'my page'"):
        CorrectedWindows("/t", aggregation=replace(minute, by="my page"), log=None)
    not_aggregation: Any = Tumbling("1 minute")
    with pytest.raises(ColumnTypeError, match="invalid aggregation: Tumbling"):
        CorrectedWindows("/t", aggregation=not_aggregation, log=None)


def test_results_of_type_decimal_are_corrected_repeatedly(
    spark: SparkSession, tmp_path: Path
) -> None:
    prices = {"sum": agg.sum("price"), "mean": agg.avg("price")}
    minute = WindowAggregation(Tumbling("1 minute"), aggs=prices)
    sink = CorrectedWindows(str(tmp_path / "views"), aggregation=minute, log=str(tmp_path / "log"))
    for number, price in enumerate(["1.35", "2.00", "0.05"]):
        frame = spark.createDataFrame(
            [(AT, Decimal(price))], "event_time TIMESTAMP, price DECIMAL(10,2)"
        )
        later = batch(number, watermark=AT + timedelta(minutes=2))
        assert sink.write({"rows": minute.partials()(frame)}, later) == "written"
    (row,) = spark.read.format("delta").load(sink.path).collect()
    assert (row["sum"], row["mean"], row.version) == (
        Decimal("3.40"),
        Decimal("1.13333333333333333333"),
        3,
    )
