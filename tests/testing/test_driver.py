"""The stream driver: inputs, watermarks under any transform, and errors at the call."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError, TidegateError
from tidegate.joins import IntervalJoin, stream_table
from tidegate.testing import StreamDriver
from tidegate.windows import Tumbling, Windowed, tumbling

SCHEMA = "event_time timestamp, page string"
PER_MINUTE = Windowed(Tumbling("1 minute"), aggs={"n": count()})
BOTH = {"searches": "event_time timestamp, id int", "clicks": "event_time timestamp, id int, n int"}
FOUND = IntervalJoin("id", within=("0 seconds", "10 seconds"), how="left")


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 10, 0, tzinfo=UTC) + timedelta(seconds=second)


def passed(events: DataFrame) -> DataFrame:
    return events


def filtered(events: DataFrame) -> DataFrame:
    """Take a row of nulls away by a filter, and by the filter that Spark makes of a join's key."""
    titles = events.sparkSession.createDataFrame([("/", "Home")], "page string, title string")
    return stream_table(events.where("length(page) = 1"), titles, "page")


def test_a_watermark_moves_on_under_a_transform_that_begins_with_filters(
    spark: SparkSession,
) -> None:
    def transform(events: DataFrame) -> DataFrame:
        return PER_MINUTE(filtered(events))

    with StreamDriver(spark, SCHEMA, transform, lateness="10 seconds") as stream:
        assert stream.feed([(at(5), "/"), (at(6), "/"), (at(7), "/other")]) == []
        assert [row.n for row in stream.advance_to(at(60))] == [2]


def test_a_row_that_the_transform_filters_out_moves_the_watermark_on_as_any_other(
    spark: SparkSession,
) -> None:
    def home(events: DataFrame) -> DataFrame:
        return tumbling(events.where("page = '/'"), "1 minute", aggs={"n": count()})

    with StreamDriver(spark, SCHEMA, home, lateness="0 seconds") as stream:
        assert stream.feed([(at(5), "/")]) == []
        assert [row.n for row in stream.feed([(at(61), "/other")])] == [1]


@pytest.mark.slow
def test_several_inputs_are_fed_by_name_and_together_they_are_one_batch(
    spark: SparkSession,
) -> None:
    lateness = {"searches": "1 second", "clicks": "2 seconds"}
    with StreamDriver(spark, BOTH, FOUND, lateness=lateness) as stream:
        for second in (0, 100):
            stream.feed(searches=[(at(second), second)], clicks=[(at(second + 3), second, 7)])
        stream.restart()
        assert stream.feed(searches=[{"event_time": at(200), "id": 200}]) == []
        stream.advance_to(at(300))
        found = stream.results().orderBy("id").collect()
    assert [(row.id, row.n) for row in found] == [(0, 7), (100, 7), (200, None)]


def test_a_dataframe_is_fed_as_it_is_and_one_of_other_columns_is_refused(
    spark: SparkSession,
) -> None:
    rows = spark.createDataFrame([("/", at(1))], "page string, event_time timestamp")
    with StreamDriver(spark, SCHEMA, passed, lateness=None) as stream:
        assert [row.page for row in stream.feed(rows)] == ["/"]
        with pytest.raises(ColumnError, match="page"):
            stream.feed(rows.drop("page"))
        with pytest.raises(ColumnTypeError, match="'page' of type int"):
            stream.feed(rows.withColumn("page", F.lit(1)))
        with pytest.raises(ColumnTypeError, match="do not fit"):
            stream.feed([("not a time", "/")])
        assert [row.page for row in stream.feed([(at(2), "/2")])] == ["/2"]


KINDS = (
    "event_time timestamp, day date, local timestamp_ntz, cost decimal(10, 2), raw binary, "
    "tags map<string, int>, place struct<x: int, y: string>, numbers array<int>, n int not null"
)


def test_rows_are_fed_as_spark_itself_would_take_them(spark: SparkSession) -> None:
    naive = datetime(2026, 1, 1, 12)
    names = spark.createDataFrame([], KINDS).columns
    values = [
        naive,
        naive.date(),
        naive,
        Decimal("1.50"),
        b"\x00",
        {"a": None},
        (1, "y"),
        [1, None],
    ]
    rows = [
        (*values, 1),
        tuple([None] * len(values) + [2]),
        dict(zip(names, [*values, 3], strict=True)),
        # A tuple for an array is what Spark alone takes.
        (*values[:-1], (4, 5), 4),
    ]
    expected = spark.createDataFrame(rows, KINDS)
    with StreamDriver(spark, KINDS, passed, lateness=None) as stream:
        stream.feed(rows[:3])
        stream.feed(rows[3:])
        assert stream.results().orderBy("n").collect() == expected.orderBy("n").collect()
        with pytest.raises(ColumnTypeError, match=r"do not fit.*not.*None"):
            stream.feed([(*values, None)])
        assert stream.feed([]) == []


@pytest.mark.parametrize(
    ("schema", "transform", "options", "error", "says"),
    [
        ("a b c", passed, {}, ArgumentError, "DDL text"),
        ("page string", passed, {}, ColumnError, "time names 'event_time'"),
        ("event_time string", passed, {}, ColumnTypeError, "is of type string"),
        (SCHEMA, None, {}, ColumnTypeError, "transform is None"),
        (SCHEMA, lambda a, b: a, {}, ArgumentError, "transform takes .*the stream has 1"),
        (BOTH, passed, {}, ArgumentError, "the stream has 2: searches, clicks"),
        (BOTH, FOUND, {"lateness": {"clicks": None}}, ArgumentError, "one for each input"),
        (BOTH, FOUND, {"time": {"other": "at"}}, ArgumentError, "searches, clicks"),
        ({"to-day": SCHEMA}, passed, {}, ArgumentError, "a Python name"),
        ({}, passed, {}, ArgumentError, "names no input"),
        (SCHEMA, passed, {"lateness": "-1 second"}, ArgumentError, "zero or more"),
        (SCHEMA, passed, {"output_mode": "complete"}, ArgumentError, '"append" or "update"'),
    ],
)
def test_a_wrong_argument_is_refused_at_the_call(
    spark: SparkSession,
    schema: Any,
    transform: Any,
    options: dict[str, Any],
    error: type[TidegateError],
    says: str,
) -> None:
    with pytest.raises(error, match=says):
        StreamDriver(spark, schema, transform, **{"lateness": "1 second", **options})


def test_a_session_that_is_none_is_refused() -> None:
    with pytest.raises(ColumnTypeError, match="a classic SparkSession"):
        StreamDriver("local", SCHEMA, passed, lateness=None)  # type: ignore[arg-type]


def test_a_driver_that_does_not_run_says_so(spark: SparkSession) -> None:
    stream = StreamDriver(spark, SCHEMA, passed, lateness=None)
    calls: list[Callable[[], object]] = [lambda: stream.feed([]), stream.restart]
    for call in (*calls, stream.results):
        with pytest.raises(ArgumentError, match="entered"):
            call()
    with stream, pytest.raises(ArgumentError, match="this stream has none"):
        stream.advance_to(at(0))
    for call in calls:
        with pytest.raises(ArgumentError, match="has been closed"):
            call()
    assert stream.results().count() == 0


def test_feed_asks_for_the_names_of_several_inputs_and_for_none_of_one(
    spark: SparkSession,
) -> None:
    one = StreamDriver(spark, SCHEMA, passed, lateness=None)
    several = StreamDriver(spark, BOTH, FOUND, lateness="1 second")
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: one.feed(), r"feed\(rows\)"),
        (lambda: one.feed(events=[]), r"feed\(rows\)"),
        (lambda: several.feed([]), r"feed\(searches=rows\)"),
        (lambda: several.feed(), "searches, clicks"),
        (lambda: several.feed(nowhere=[]), "given nowhere"),
    ]
    for call, says in calls:
        with pytest.raises(ArgumentError, match=says):
            call()


def test_a_transform_that_fails_leaves_no_folder_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def failing(events: DataFrame) -> DataFrame:
        raise RuntimeError("no such thing")

    def of_nothing(events: DataFrame) -> Any:
        return None

    with pytest.raises(RuntimeError), StreamDriver(spark, SCHEMA, failing, lateness=None):
        pass
    with pytest.raises(ColumnTypeError), StreamDriver(spark, SCHEMA, of_nothing, lateness=None):
        pass
    assert not list(tmp_path.iterdir())
