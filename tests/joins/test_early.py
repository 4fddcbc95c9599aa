"""Early emission: matches in the batch of their second row, the others as soon as they are certain,
and nothing kept for longer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidegate.joins import stream_stream
from tidegate.testing import StreamDriver

from .intervals import (
    BASE,
    KINDS,
    LATENESS,
    SCHEMA,
    SECOND,
    SPAN,
    Answer,
    Arrival,
    Bounds,
    Event,
    arrived,
    every_kind,
    frame,
    instant,
    joined,
)

MINUTE = Bounds(0, 60 * SECOND)


@pytest.fixture(autouse=True, scope="module")
def one_task(spark: SparkSession) -> Iterator[None]:
    """Several joins in one query keep many states; one partition of each is enough here."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


def counted(rows: Sequence[Row]) -> Counter[Answer]:
    return Counter((row.kind, row.left, row.right) for row in rows)


@pytest.mark.slow
def test_a_match_comes_out_with_its_second_row_and_the_others_when_they_are_certain(
    spark: SparkSession,
) -> None:
    # search  a 0            b 5           null 6
    # click      a 60 (before its search)     a 60.000001 is too late   a 1, a second match
    click, search = Event("right", 60 * SECOND, "a", 1), Event("left", 0, "a", 0)
    beyond, lonely = Event("right", 60 * SECOND + 1, "a", 2), Event("left", 5 * SECOND, "b", 3)
    keyless = [Event("left", 6 * SECOND, None, 4), Event("right", 6 * SECOND, None, 5)]
    again = Event("right", SECOND, "a", 6)
    pair = dict.fromkeys(("inner", "left", "right", "full"), 1)
    alone = ("left", "full", "anti")
    with StreamDriver(
        spark, SCHEMA, lambda events: every_kind(events, MINUTE), lateness=timedelta(seconds=70)
    ) as stream:
        assert stream.feed(frame(spark, [click, beyond])) == []
        first = counted(stream.feed(frame(spark, [search, lonely])))
        assert first == Counter({(kind, 0, 1): n for kind, n in pair.items()}) + Counter(
            {("semi", 0, None): 1}
        )
        # What has no key can match nothing, and is certain at once.
        nulls = counted(stream.feed(frame(spark, keyless)))
        assert nulls == Counter([(kind, 4, None) for kind in alone]) + Counter(
            [("right", None, 5), ("full", None, 5)]
        )
        stream.restart()
        second = counted(stream.feed(frame(spark, [again])))
        assert second == Counter({(kind, 0, 6): n for kind, n in pair.items()})
        # A left row may be matched up to a minute after it, and a right row by none after it.
        assert counted(stream.advance_to(instant(60 * SECOND))) == Counter()
        later = counted(stream.advance_to(instant(60 * SECOND + 3_000)))
        assert later == Counter([("right", None, 2), ("full", None, 2)])
        last = counted(stream.advance_to(instant(65 * SECOND + 3_000)))
        assert last == Counter([(kind, 3, None) for kind in alone])
        assert stream.advance_to(instant(900 * SECOND)) == []
        everything = [click, search, beyond, lonely, *keyless, again]
        assert counted(stream.results().collect()) == joined(everything, MINUTE)


@pytest.mark.slow
def test_batches_that_follow_at_once_give_the_same_and_no_row_is_kept_for_ever(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Batch by batch with none in between: Spark then drops late rows by the watermark of the batch
    # before, and lets rows go by the newer one.
    seed = Random().randrange(2**32)
    print(f"arrived({seed})")
    arrival = arrived(seed)
    assert read_at_once(spark, arrival, tmp_path) == joined(taken(arrival), arrival.bounds)
    kept = stores(spark, str(tmp_path / "checkpoint"))
    assert len(kept) == 2 * len(KINDS) + 1
    # What ended the stream is a left row, which most kinds still have.
    assert reduce(DataFrame.unionAll, kept).count() <= len(KINDS)


@pytest.mark.slow
def test_a_row_meets_one_of_its_own_batch_that_can_be_let_go_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    # The watermark is at 7 s when the second batch is read. Its right row is in time by that of the
    # batch before, and can match none of the batches after it.
    ahead = [Event("left", 10 * SECOND, "x", 0)]
    both = [Event("left", 4 * SECOND, "a", 1), Event("right", 6 * SECOND, "a", 2)]
    arrival = Arrival([ahead, both], 0, Bounds(-SECOND, 4 * SECOND))
    found = read_at_once(spark, arrival, tmp_path)
    assert found["semi", 1, None] == 1
    assert found == joined(taken(arrival), arrival.bounds)


def stores(spark: SparkSession, checkpoint: str) -> list[DataFrame]:
    """Return the rows of all states that a checkpoint has."""
    operators = spark.read.format("state-metadata").load(checkpoint)
    found = []
    for number, name in operators.select("operatorId", "operatorName").distinct().collect():
        sides = ["left", "right"] if name == "symmetricHashJoin" else [None]
        for side in sides:
            reader = spark.read.format("statestore").option("operatorId", number)
            chosen = reader if side is None else reader.option("joinSide", side)
            found.append(chosen.load(checkpoint).select("partition_id"))
    return found


def taken(arrival: Arrival) -> list[Event]:
    """Return the rows that are in time by the watermark of the batch before their own."""
    marks = [0, 0]
    kept = list[Event]()
    for batch in arrival.batches:
        kept += [event for event in batch if BASE + event.micros >= marks[-2]]
        newest = max(BASE + event.micros for event in batch)
        marks.append(max(marks[-1], (newest - LATENESS) // 1000 * 1000))
    return kept


def read_at_once(spark: SparkSession, arrival: Arrival, folder: Path) -> Counter[Answer]:
    """Run the arrival, and a row that ends it, as one stream of batches in a row."""
    end = [Event("left", 10 * SPAN, "end", -1)]
    for number, batch in enumerate([*arrival.batches, end]):
        file = folder / "rows" / f"{number}.parquet"
        file.parent.mkdir(exist_ok=True)
        pq.write_table(frame(spark, batch).toArrow(), file)
        os.utime(file, (number, number))
    stored = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    events = stored.parquet(str(folder / "rows")).withWatermark(
        "event_time", f"{LATENESS} microseconds"
    )
    found: list[Row] = []
    query = (
        every_kind(events, arrival.bounds)
        .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(lambda rows, _: found.extend(rows.collect()))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return counted([row for row in found if row.left != -1])


def test_a_bound_of_days_does_not_follow_the_calendar_of_the_session_s_zone(
    spark: SparkSession,
) -> None:
    # Clocks in Berlin go forward on 2026-03-29: that day has 23 hours, and a bound of a day 24.
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    rows = [("left", before, "a", 0)]
    rows += [("right", before + timedelta(hours=hours), "a", hours) for hours in (23, 24, 25)]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with StreamDriver(spark, SCHEMA, within_a_day, lateness="2 days") as stream:
            found = stream.feed(rows)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert sorted(row.id_right for row in found) == [23, 24]


def within_a_day(events: DataFrame) -> DataFrame:
    left, right = (events.where(F.col("side") == side) for side in ("left", "right"))
    return stream_stream(left, right, "key", within=("0 seconds", "1 day"), how="inner")
