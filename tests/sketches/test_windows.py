"""Sketches in windows give equal results on a batch, a stream, in roll-ups and upserted tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.sink_batches import batch
from tidegate.aggregates import Aggregate, finish, merge_partials, partials
from tidegate.errors import ArgumentError
from tidegate.sinks import Upsert
from tidegate.sketches import approx_count_distinct, approx_quantile, approx_top_k, theta_sketch
from tidegate.testing import StreamDriver
from tidegate.windows import hopping, session, sliding, tumbling

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
SCHEMA = "event_time timestamp, page string, user string, ms int"
# The coarse sketch exceeds its exact size, so a dependency on the row order would be visible.
AGGS: dict[str, Aggregate] = {
    "users": approx_count_distinct("user"),
    "coarse": approx_count_distinct("user", precision=4),
    "set": theta_sketch("user"),
    "ms": approx_quantile("ms", [0.0, 0.5, 1.0]),
    "top": approx_top_k("user", 2),
}
Events = list[tuple[datetime, str, str | None, int | None]]
EVENTS: Events = [
    (
        START + timedelta(seconds=second, milliseconds=137 * (second % 3)),
        "/a" if second % 5 else "/b",
        None if second % 7 == 0 else f"u{second * second % 41}",
        None if second % 11 == 0 else second * 37 % 100,
    )
    for second in range(60)
]
CASES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "tumbling": lambda events: tumbling(events, "20 seconds", by="page", aggs=AGGS),
    "hopping by panes": lambda events: hopping(
        events, "40 seconds", "5 seconds", by="page", aggs=AGGS
    ),
    "session": lambda events: session(events, "4 seconds", by="page", aggs=AGGS),
}


def results_of(frame: DataFrame) -> list[Any]:
    micros = [F.unix_micros(f"window.{end}").alias(end) for end in ("start", "end")]
    return sorted(tuple(row) for row in frame.select(*micros, "page", *AGGS).collect())


def expected(rows: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the exact results of users, set, ms and top over events."""
    events = list(rows)
    users = [user for _, _, user, _ in events if user is not None]
    values = sorted(ms for _, _, _, ms in events if ms is not None)
    counts = sorted((-users.count(user), user) for user in set(users))[:2]
    ms = (
        [float(values[0]), float(values[(len(values) - 1) // 2]), float(values[-1])]
        if values
        else None
    )
    return len(set(users)), len(set(users)), ms, [(user, -less, 0) for less, user in counts]


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
@pytest.mark.slow
def test_a_stream_gives_the_results_of_a_batch(
    spark: SparkSession, case: Callable[[DataFrame], DataFrame]
) -> None:
    batched = results_of(case(spark.createDataFrame(EVENTS, SCHEMA)))
    assert batched
    with StreamDriver(spark, SCHEMA, case, watermark_delay="2 minutes") as stream:
        stream.feed(EVENTS[40:] + EVENTS[:5])
        stream.feed(EVENTS[:4:-1][20:])
        stream.advance_to(START + timedelta(minutes=5))
        assert results_of(stream.results()) == batched


@pytest.mark.parametrize("name", ["tumbling", "hopping by panes"])
@pytest.mark.slow
def test_windows_give_the_results_of_plain_python(spark: SparkSession, name: str) -> None:
    result = results_of(CASES[name](spark.createDataFrame(EVENTS, SCHEMA)))
    for start, end, page, users, _, of_set, ms, most in result:
        inside = [e for e in EVENTS if start <= e[0].timestamp() * 1e6 < end and e[1] == page]
        assert (users, of_set, ms, [tuple(one) for one in most]) == expected(inside)


def test_a_sliding_window_rejects_sketches(spark: SparkSession) -> None:
    events = spark.createDataFrame(EVENTS[:1], SCHEMA)
    for name, agg in AGGS.items():
        with pytest.raises(ArgumentError, match=rf"aggs: '{name}' is not available(.|\n)*hopping"):
            sliding(events, "1 minute", aggs={name: agg})


@pytest.mark.slow
def test_rolled_up_windows_give_the_results_of_all_rows(spark: SparkSession) -> None:
    events = spark.createDataFrame(EVENTS, SCHEMA)
    minutes = tumbling(events, "7 seconds", by="page", aggs=partials(AGGS))
    rolled = finish(merge_partials(minutes, "page", AGGS), AGGS).orderBy("page").select(*AGGS)
    full = events.groupBy("page").agg(
        *[a.finish(a.partial(F.lit(None))).alias(n) for n, a in AGGS.items()]
    )
    assert rolled.collect() == full.orderBy("page").select(*AGGS).collect()


@pytest.mark.slow
def test_upserted_partials_merge_and_a_damaged_one_fails_the_merge(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "pages")
    sink = Upsert(path=path, keys=["page"], aggs=AGGS)
    for number in range(2):
        rows = spark.createDataFrame(EVENTS[number::2], SCHEMA).groupBy("page")
        sink.write(
            {
                "rows": rows.agg(
                    *[agg.partial(F.lit(None)).alias(name) for name, agg in AGGS.items()]
                )
            },
            batch(number),
        )
    table = spark.read.format("delta").load(path)
    for row in finish(table, AGGS).collect():
        result = (row.users, row.set, row.ms, [tuple(one) for one in row.top])
        assert result == expected(event for event in EVENTS if event[1] == row.page)

    damaged = table.withColumn("users", F.overlay("users", F.lit(b"x"), 70, 1))
    damaged.write.format("delta").mode("overwrite").save(path)
    with pytest.raises(Exception, match="damaged: checksum"):
        sink.write({"rows": table.where("page = '/a'")}, batch(2))
