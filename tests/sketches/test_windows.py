"""Sketches in windows, on a batch and on a stream, in roll-ups and in upserted tables: the same
answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.sinks.batches import batch
from tidegate.aggregates import Aggregate, finished, merged, partials
from tidegate.errors import ArgumentError
from tidegate.sinks import Upsert
from tidegate.sketches import distinct, quantile, theta, top
from tidegate.testing import StreamDriver
from tidegate.windows import hopping, session, sliding, tumbling

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
SCHEMA = "event_time timestamp, page string, user string, ms int"
# One sketch far beyond what it can hold exactly, so that the order of rows would show.
AGGS: dict[str, Aggregate] = {
    "users": distinct("user"),
    "coarse": distinct("user", precision=4),
    "set": theta("user"),
    "ms": quantile("ms", [0.0, 0.5, 1.0]),
    "top": top("user", 2),
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


def answers(frame: DataFrame) -> list[Any]:
    micros = [F.unix_micros(f"window.{end}").alias(end) for end in ("start", "end")]
    return sorted(tuple(row) for row in frame.select(*micros, "page", *AGGS).collect())


def expected(rows: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the exact answers of users, set, ms and top over events."""
    held = list(rows)
    users = [user for _, _, user, _ in held if user is not None]
    values = sorted(ms for _, _, _, ms in held if ms is not None)
    counts = sorted((-users.count(user), user) for user in set(users))[:2]
    ms = (
        [float(values[0]), float(values[(len(values) - 1) // 2]), float(values[-1])]
        if values
        else None
    )
    return len(set(users)), len(set(users)), ms, [(user, -less, 0) for less, user in counts]


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
@pytest.mark.slow
def test_a_stream_gives_what_the_batch_gives(
    spark: SparkSession, case: Callable[[DataFrame], DataFrame]
) -> None:
    batched = answers(case(spark.createDataFrame(EVENTS, SCHEMA)))
    assert batched
    with StreamDriver(spark, SCHEMA, case, lateness="2 minutes") as stream:
        stream.feed(EVENTS[40:] + EVENTS[:5])
        stream.feed(EVENTS[:4:-1][20:])
        stream.advance_to(START + timedelta(minutes=5))
        assert answers(stream.results()) == batched


@pytest.mark.parametrize("name", ["tumbling", "hopping by panes"])
@pytest.mark.slow
def test_windows_give_what_plain_python_gives(spark: SparkSession, name: str) -> None:
    found = answers(CASES[name](spark.createDataFrame(EVENTS, SCHEMA)))
    for start, end, page, users, _, of_set, ms, most in found:
        inside = [e for e in EVENTS if start <= e[0].timestamp() * 1e6 < end and e[1] == page]
        assert (users, of_set, ms, [tuple(one) for one in most]) == expected(inside)


def test_a_sliding_window_refuses_what_can_not_roll(spark: SparkSession) -> None:
    events = spark.createDataFrame(EVENTS[:1], SCHEMA)
    for name, agg in AGGS.items():
        with pytest.raises(ArgumentError, match=rf"aggs\['{name}'\] cannot roll(.|\n)*hopping"):
            sliding(events, "1 minute", aggs={name: agg})


@pytest.mark.slow
def test_minutes_roll_up_to_what_all_rows_give_at_once(spark: SparkSession) -> None:
    events = spark.createDataFrame(EVENTS, SCHEMA)
    minutes = tumbling(events, "7 seconds", by="page", aggs=partials(AGGS))
    rolled = finished(merged(minutes, "page", AGGS), AGGS).orderBy("page").select(*AGGS)
    whole = events.groupBy("page").agg(
        *[a.finish(a.partial(F.lit(None))).alias(n) for n, a in AGGS.items()]
    )
    assert rolled.collect() == whole.orderBy("page").select(*AGGS).collect()


@pytest.mark.slow
def test_upserted_partials_add_up_and_a_damaged_one_stops_the_merge(
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
    for row in finished(table, AGGS).collect():
        found = (row.users, row.set, row.ms, [tuple(one) for one in row.top])
        assert found == expected(event for event in EVENTS if event[1] == row.page)

    damaged = table.withColumn("users", F.overlay("users", F.lit(b"x"), 70, 1))
    damaged.write.format("delta").mode("overwrite").save(path)
    with pytest.raises(Exception, match="damaged: its check sum"):
        sink.write({"rows": table.where("page = '/a'")}, batch(2))
