"""Aggregates as text: what can be written, and the word that an error points at."""

from __future__ import annotations

import inspect

import pytest
from pyspark.sql import SparkSession

from tidegate import aggregates, sketches
from tidegate.errors import ConfigError
from tidegate.runtime.config._aggregate_call import named
from tidegate.runtime.config.aggregate_text import aggregates_of, read
from tidegate.windows import tumbling


def test_every_aggregate_of_the_library_can_be_named() -> None:
    public = {
        name
        for module in (aggregates, sketches)
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and inspect.signature(value).return_annotation == "Aggregate"
        and not name.startswith("_")
    }
    assert public - set(named()) == {"reduced"}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("count", []),
        ("count()", []),
        ("count(ms)", ["ms"]),
        (" mean( ms )", ["ms"]),
        ("quantile(ms, 0.99)", ["ms"]),
        ("quantile(ms, [0.5, .99, 1e-3], k=400)", ["ms"]),
        ("quantile(value=ms, at=1)", ["ms"]),
        ("bloom([user_id, page], keys=1_000)", ["user_id", "page"]),
        ("top(`page (old)`, 10)", ["page (old)"]),
        ("distinct(user_id, precision=14)", ["user_id"]),
        ("last(größe)", ["größe"]),
    ],
)
def test_an_aggregate_is_read_with_its_columns(text: str, columns: list[str]) -> None:
    assert [word.text for word in read(text).columns] == columns


@pytest.mark.parametrize(
    ("text", "marked", "says"),
    [
        ("", "^", "its end is no aggregate"),
        ("quantil(ms, 0.99)", "^^^^^^^", "instead: quantile(...)"),
        ("avg(ms)", "^^^", "instead: mean(...)"),
        ("sum(ms)", "^^^", "instead: total(...)"),
        ("count(*)", "      ^", "instead: count"),
        ("quantile(ms)", "           ^", "')' ends quantile without its at"),
        ("mean", "^^^^", "allowed: mean(column)."),
        ("quantile(0.99, ms)", "         ^^^^", "'0.99' is no column"),
        ("top(10, page)", "    ^^", "allowed: the name of a column: top(column, n, capacity="),
        ("top(page, 1.5)", "          ^^^", "allowed: a whole number"),
        ("quantile(ms, page)", "             ^^^^", "a number, or a list of numbers"),
        ("quantile(ms, 2)", "             ^", "allowed: a number from 0 to 1"),
        ("quantile(ms, [])", "              ^", "allowed: a number from 0 to 1"),
        ("distinct(u, precision=99)", "                      ^^", "allowed: 4 to 21."),
        ("distinct(u, precison=9)", "            ^^^^^^^^", "instead: precision=..."),
        ("mean(ms", "       ^", "its end stands between two values"),
        ("mean ms", "     ^^", "'ms' follows the aggregate"),
        ("mean(ms) + 1", "         ^", "nothing after it"),
        ("mean(ms, 3)", "         ^", "one value too many"),
        ("mean(ms; drop)", "       ^", "allowed: ',' or ')'."),
        ("mean('ms')", "     ^", "is no value"),
        ("mean(__import__('os'))", "               ^", "stands between two values"),
        ("mean(payload.ms)", "            ^", "backticks"),
        ("count(ms=3)", "      ^^", "allowed: count, or count(column)."),
        ("quantile(ms, at=1, at=1)", "                   ^^", "a second time"),
        ("top([a, b], 3)", "    ^", "allowed: one column"),
        ("bloom(u, keys=0)", "              ^", "1 or more"),
    ],
)
def test_an_error_points_at_the_word(text: str, marked: str, says: str) -> None:
    with pytest.raises(ConfigError) as told:
        read(text)
    assert f"    {text}\n    {marked}\n" in f"{told.value}\n"
    assert says in str(told.value)


def test_a_column_that_the_schema_lacks_is_pointed_at() -> None:
    with pytest.raises(ConfigError) as told:
        aggregates_of({"p99": "quantile(mss, 0.99)"}, ["page", "ms"])
    assert str(told.value).splitlines() == [
        "aggregates.p99 is 'quantile(mss, 0.99)', where 'mss' is no field of the input:",
        "    quantile(mss, 0.99)",
        "             ^^^",
        "  allowed: page, ms.",
        "  instead: did you mean ms?",
    ]


def test_what_is_read_gives_what_the_function_gives(spark: SparkSession) -> None:
    events = spark.range(9).selectExpr("timestamp_seconds(id) as event_time", "id % 4 as ms")
    texts = {"n": "count", "ms": "mean(ms)", "top": "quantile(ms, [0.5, 1])", "u": "distinct(ms)"}
    read_from_texts = tumbling(events, "1 minute", aggs=aggregates_of(texts, ["ms"]))
    called = tumbling(
        events,
        "1 minute",
        aggs={
            "n": aggregates.count(),
            "ms": aggregates.mean("ms"),
            "top": sketches.quantile("ms", [0.5, 1]),
            "u": sketches.distinct("ms"),
        },
    )
    assert read_from_texts.collect() == called.collect()
