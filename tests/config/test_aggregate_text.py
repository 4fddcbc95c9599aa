"""Parsing of aggregates, and the pointers of its errors."""

from __future__ import annotations

import inspect

import pytest
from pyspark.sql import SparkSession

from tidegate import aggregates, sketches
from tidegate.config.aggregate_text import aggregate_functions, parse_aggregate, parse_aggregates
from tidegate.errors import ConfigError
from tidegate.windows import tumbling


def test_text_can_name_every_aggregate_of_the_library() -> None:
    public = {
        name
        for module in (aggregates, sketches)
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and inspect.signature(value).return_annotation == "Aggregate"
        and not name.startswith("_")
    }
    assert public - set(aggregate_functions()) == {"reduce_with"}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("count", []),
        ("count()", []),
        ("count(ms)", ["ms"]),
        (" avg( ms )", ["ms"]),
        ("approx_quantile(ms, 0.99)", ["ms"]),
        ("approx_quantile(ms, [0.5, .99, 1e-3], k=400)", ["ms"]),
        ("approx_quantile(value=ms, probabilities=1)", ["ms"]),
        ("bloom_filter([user_id, page], expected_items=1_000)", ["user_id", "page"]),
        ("approx_top_k('page (old)', 10)", ["page (old)"]),
        ('avg("payload.ms")', ["payload.ms"]),
        ("avg(\n    ms,\n)", ["ms"]),
        ("max('from')", ["from"]),
        ("max(µs)", ["µs"]),
        ("approx_top_k(größe, 3)", ["größe"]),
        ("approx_count_distinct(user_id, precision=14)", ["user_id"]),
        ("last(größe)", ["größe"]),
    ],
)
def test_an_aggregate_is_parsed_with_its_columns(text: str, columns: list[str]) -> None:
    assert [value for value, _ in parse_aggregate(text).inputs] == columns


@pytest.mark.parametrize(
    ("text", "token", "message"),
    [
        ("", "", "the text is empty"),
        ("  ", "", "the text is empty"),
        ("approx_quantil(ms, 0.99)", "approx_quantil", "try: approx_quantile(...)"),
        ("mean(ms)", "mean", "try: avg(...)"),
        ("total(ms)", "total", "try: sum(...)"),
        ("quantile(ms, 0.5)", "quantile", "try: approx_quantile(...)"),
        ("count(*)", ")", "try: count"),
        ("approx_quantile(ms)", "approx_quantile", "approx_quantile requires probabilities"),
        ("avg", "avg", "expected: avg(column)"),
        ("approx_quantile(0.99, ms)", "0.99", "'0.99' is not a column"),
        ("approx_top_k(10, page)", "10", "the name of a column: approx_top_k(column, n, capacity="),
        ("approx_top_k(page, 1.5)", "1.5", "expected: an integer"),
        ("approx_top_k(page, True)", "True", "expected: an integer"),
        ("approx_top_k(page, 'ten')", "'ten'", "expected: an integer"),
        ("approx_quantile(ms, page)", "page", "a number, or a list of numbers"),
        ("approx_quantile(ms, [0.5, [0.9]])", "[0.5, [0.9]]", "a number, or a list of numbers"),
        ("approx_quantile(ms, 2)", "2", "from 0 to 1"),
        ("approx_quantile(ms, [])", "[]", "from 0 to 1"),
        ("approx_count_distinct(u, precision=99)", "99", "4 to 21"),
        ("approx_count_distinct(größe, precision=99)", "99", "4 to 21"),
        ("approx_count_distinct(u, precison=9)", "precison=9", "try: precision=..."),
        ("approx_count_distinct(u, **options)", "**options", "has no parameter"),
        ("avg(ms", "(", "'(' was never closed"),
        ("avg ms", "ms", "unexpected 'ms'"),
        ("avg(ms) + 1", "avg(ms) + 1", "the text is not a single aggregate"),
        ("avg(ms) # mean", "avg(ms)", "the text is not a single aggregate"),
        ("(count)", "count", "the text is not a single aggregate"),
        ("avg(ms, 3)", "3", "unexpected argument '3'"),
        ("avg(ms; drop)", ";", "unexpected ';'"),
        ("avg('ms", "'", "unterminated string"),
        ("avg(__import__('os'))", "__import__('os')", "is not a column"),
        ("__import__('os')", "__import__", "unknown aggregate '__import__'"),
        ("avg(x for x in y)", "(x for x in y)", "is not a column"),
        ("avg(payload.ms)", "payload.ms", "try: 'payload.ms'"),
        ("avg(from)", "from", "try: 'from'"),
        ("avg(`ms`)", "`", "quotes around the name of a column"),
        ("count(ms=3)", "ms=3", "expected: count, or count(column)"),
        (
            "approx_quantile(ms, probabilities=1, probabilities=0)",
            "probabilities=0",
            "duplicate",
        ),
        ("approx_top_k([a, b], 3)", "[a, b]", "expected: one column"),
        ("bloom_filter([], expected_items=9)", "[]", "the list of columns is empty"),
        ("bloom_filter(u, expected_items=0)", "0", "1 or more"),
    ],
)
def test_an_error_points_at_the_token(text: str, token: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_aggregate(text)
    offset = len(text) if not token else text.index(token) if token in "'`(" else text.rindex(token)
    assert f"    {text}\n    {' ' * offset}{'^' * max(1, len(token))}\n" in f"{error.value}\n"
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["\x00", "-" * 100_000 + "1", "(" * 300, "é\ud800", "1" * 5_000])
def test_a_text_that_cannot_be_parsed_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="invalid value"):
        parse_aggregate(text)


def test_an_unknown_column_is_an_error_with_a_pointer() -> None:
    with pytest.raises(ConfigError) as error:
        parse_aggregates({"p99": "approx_quantile(mss, 0.99)"}, ["page", "ms"])
    assert str(error.value).splitlines() == [
        "invalid aggregates.p99: 'approx_quantile(mss, 0.99)'; the input has no field 'mss'",
        "    approx_quantile(mss, 0.99)",
        "                    ^^^",
        "  expected: page, ms",
        "  try: ms",
    ]


def test_parsed_aggregates_equal_those_of_function_calls(spark: SparkSession) -> None:
    events = spark.range(9).selectExpr("timestamp_seconds(id) as event_time", "id % 4 as ms")
    texts = {
        "n": "count",
        "ms": "avg(ms)",
        "top": "approx_quantile(ms, [0.5, 1])",
        "u": "approx_count_distinct(ms)",
    }
    parsed = tumbling(events, "1 minute", aggs=parse_aggregates(texts, ["ms"]))
    called = tumbling(
        events,
        "1 minute",
        aggs={
            "n": aggregates.count(),
            "ms": aggregates.avg("ms"),
            "top": sketches.approx_quantile("ms", [0.5, 1]),
            "u": sketches.approx_count_distinct("ms"),
        },
    )
    assert parsed.collect() == called.collect()
