"""The stream driver: inputs, watermarks under any transform, and errors at the call."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError, TidegateError
from tidegate.joins import IntervalJoin, stream_table
from tidegate.testing import StreamDriver
from tidegate.windows import (
    Tumbling,
    WindowAggregation,
    cumulative,
    deduplicate,
    hopping,
    session,
    sliding,
    tumbling,
)

SCHEMA = "event_time timestamp, page string"
PER_MINUTE = WindowAggregation(Tumbling("1 minute"), aggs={"n": count()})
BOTH = {"searches": "event_time timestamp, id int", "clicks": "event_time timestamp, id int, n int"}
CLICKED = IntervalJoin("id", within=("0 seconds", "10 seconds"), how="left")


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 10, 0, tzinfo=UTC) + timedelta(seconds=second)


def identity(events: DataFrame) -> DataFrame:
    return events


def filtered(events: DataFrame) -> DataFrame:
    """Remove null rows by a filter, and by the filter that Spark derives from a join key."""
    titles = events.sparkSession.createDataFrame([("/", "Home")], "page string, title string")
    return stream_table(events.where("length(page) = 1"), titles, "page")


def test_the_watermark_advances_under_a_transform_with_filters(
    spark: SparkSession,
) -> None:
    def transform(events: DataFrame) -> DataFrame:
        return PER_MINUTE(filtered(events))

    with StreamDriver(spark, SCHEMA, transform, watermark_delay="10 seconds") as stream:
        assert stream.feed([(at(5), "/"), (at(6), "/"), (at(7), "/other")]) == []
        assert [row.n for row in stream.advance_to(at(60))] == [2]


def test_a_filtered_row_advances_the_watermark(
    spark: SparkSession,
) -> None:
    def home(events: DataFrame) -> DataFrame:
        return tumbling(events.where("page = '/'"), "1 minute", aggs={"n": count()})

    with StreamDriver(spark, SCHEMA, home, watermark_delay="0 seconds") as stream:
        assert stream.feed([(at(5), "/")]) == []
        assert [row.n for row in stream.feed([(at(61), "/other")])] == [1]


@pytest.mark.slow
def test_rows_of_several_inputs_are_one_batch(
    spark: SparkSession,
) -> None:
    delays = {"searches": "1 second", "clicks": "2 seconds"}
    with StreamDriver(spark, BOTH, CLICKED, watermark_delay=delays) as stream:
        for second in (0, 100):
            stream.feed(searches=[(at(second), second)], clicks=[(at(second + 3), second, 7)])
        stream.restart()
        assert stream.feed(searches=[{"event_time": at(200), "id": 200}]) == []
        stream.advance_to(at(300))
        found = stream.results().orderBy("id").collect()
    assert [(row.id, row.n) for row in found] == [(0, 7), (100, 7), (200, None)]


def test_a_dataframe_with_other_columns_is_rejected(
    spark: SparkSession,
) -> None:
    rows = spark.createDataFrame([("/", at(1))], "page string, event_time timestamp")
    with StreamDriver(spark, SCHEMA, identity, watermark_delay=None) as stream:
        assert [row.page for row in stream.feed(rows)] == ["/"]
        with pytest.raises(ColumnError, match="page"):
            stream.feed(rows.drop("page"))
        with pytest.raises(ColumnTypeError, match="'page' has type int"):
            stream.feed(rows.withColumn("page", F.lit(1)))
        with pytest.raises(ColumnTypeError, match="invalid rows"):
            stream.feed([("not a time", "/")])
        assert [row.page for row in stream.feed([(at(2), "/2")])] == ["/2"]


KINDS = (
    "event_time timestamp, day date, local timestamp_ntz, cost decimal(10, 2), raw binary, "
    "tags map<string, int>, place struct<x: int, y: string>, numbers array<int>, n int not null"
)


def test_rows_are_converted_as_spark_converts_them(spark: SparkSession) -> None:
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
        # Only Spark accepts a tuple for an array.
        (*values[:-1], (4, 5), 4),
    ]
    expected = spark.createDataFrame(rows, KINDS)
    with StreamDriver(spark, KINDS, identity, watermark_delay=None) as stream:
        stream.feed(rows[:3])
        stream.feed(rows[3:])
        assert stream.results().orderBy("n").collect() == expected.orderBy("n").collect()
        with pytest.raises(ColumnTypeError, match=r"invalid rows.*not.*None"):
            stream.feed([(*values, None)])
        assert stream.feed([]) == []


@pytest.mark.parametrize(
    ("schema", "transform", "options", "error", "message"),
    [
        ("a b c", identity, {}, ArgumentError, "DDL text"),
        ("page string", identity, {}, ColumnError, "time: no column 'event_time'"),
        ("event_time string", identity, {}, ColumnTypeError, "has type string"),
        (SCHEMA, None, {}, ColumnTypeError, "invalid transform: None"),
        (
            SCHEMA,
            lambda a, b: a,
            {},
            ArgumentError,
            "invalid transform: signature .* with inputs events",
        ),
        (BOTH, identity, {}, ArgumentError, "with inputs searches, clicks"),
        (
            BOTH,
            CLICKED,
            {"watermark_delay": {"clicks": None}},
            ArgumentError,
            "one value per input",
        ),
        (BOTH, CLICKED, {"time": {"other": "at"}}, ArgumentError, "searches, clicks"),
        ({"to-day": SCHEMA}, identity, {}, ArgumentError, "a Python identifier"),
        ({}, identity, {}, ArgumentError, "at least one input"),
        (SCHEMA, identity, {"watermark_delay": "-1 second"}, ArgumentError, "zero or more"),
        (SCHEMA, identity, {"output_mode": "complete"}, ArgumentError, "'append' or 'update'"),
    ],
)
def test_an_invalid_argument_is_rejected_at_the_call(
    spark: SparkSession,
    schema: Any,
    transform: Any,
    options: dict[str, Any],
    error: type[TidegateError],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        StreamDriver(spark, schema, transform, **{"watermark_delay": "1 second", **options})


def test_an_invalid_session_is_rejected() -> None:
    with pytest.raises(ColumnTypeError, match="a classic SparkSession"):
        StreamDriver("local", SCHEMA, identity, watermark_delay=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "transform",
    [
        partial(hopping, size="2 minutes", hop="1 minute", aggs={"n": count()}),
        partial(cumulative, size="1 hour", step="10 minutes", aggs={"n": count()}),
        partial(sliding, size="1 minute", by="page", aggs={"n": count()}),
        partial(session, gap="1 minute", by="page", aggs={"n": count()}),
        partial(deduplicate, key="page", within="1 hour", max_delay="1 minute"),
    ],
)
def test_update_mode_is_refused_for_a_transform_that_spark_cannot_update(
    spark: SparkSession, transform: Callable[[DataFrame], DataFrame]
) -> None:
    driver = StreamDriver(
        spark, SCHEMA, transform, watermark_delay="1 second", output_mode="update"
    )
    with pytest.raises(ArgumentError, match="'append', since Spark cannot update sessions"), driver:
        driver.feed([(at(0), "p")])


def test_a_tumbling_window_is_updated_by_each_batch(spark: SparkSession) -> None:
    with StreamDriver(
        spark, SCHEMA, PER_MINUTE, watermark_delay="1 second", output_mode="update"
    ) as stream:
        assert [[row.n for row in stream.feed([(at(second), "p")])] for second in (1, 2)] == [
            [1],
            [2],
        ]


def test_calls_require_a_running_driver(spark: SparkSession) -> None:
    stream = StreamDriver(spark, SCHEMA, identity, watermark_delay=None)
    calls: list[Callable[[], object]] = [lambda: stream.feed([]), stream.restart]
    for call in (*calls, stream.results):
        with pytest.raises(ArgumentError, match="with block"):
            call()
    with stream, pytest.raises(ArgumentError, match="the stream has no watermark"):
        stream.advance_to(at(0))
    for call in calls:
        with pytest.raises(ArgumentError, match="not running"):
            call()
    assert stream.results().count() == 0


def test_feed_requires_names_for_several_inputs_only(
    spark: SparkSession,
) -> None:
    one = StreamDriver(spark, SCHEMA, identity, watermark_delay=None)
    several = StreamDriver(spark, BOTH, CLICKED, watermark_delay="1 second")
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: one.feed(), r"feed\(rows\)"),
        (lambda: one.feed(events=[]), r"feed\(rows\)"),
        (lambda: several.feed([]), r"feed\(searches=rows\)"),
        (lambda: several.feed(), "searches, clicks"),
        (lambda: several.feed(nowhere=[]), "invalid arguments of feed: nowhere"),
    ]
    for call, message in calls:
        with pytest.raises(ArgumentError, match=message):
            call()


def test_a_transform_that_fails_leaves_no_folder_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def failing(events: DataFrame) -> DataFrame:
        raise RuntimeError("no such thing")

    def returning_none(events: DataFrame) -> Any:
        return None

    with pytest.raises(RuntimeError), StreamDriver(spark, SCHEMA, failing, watermark_delay=None):
        pass
    with (
        pytest.raises(ColumnTypeError),
        StreamDriver(spark, SCHEMA, returning_none, watermark_delay=None),
    ):
        pass
    assert not list(tmp_path.iterdir())
