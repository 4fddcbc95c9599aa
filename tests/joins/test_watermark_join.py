"""Joins with emit="early": matches at once, unmatched rows when certain, bounded state."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tests.support.interval_oracle import (
    BASE,
    JOIN_TYPES,
    SCHEMA,
    SECOND,
    SPAN,
    WATERMARK_DELAY,
    Arrival,
    Bounds,
    Event,
    JoinedIds,
    expected_join,
    frame,
    instant,
    join_by_types,
    joined_ids,
    random_arrival,
)
from tidegate.joins import stream_stream
from tidegate.testing import StreamDriver

pytestmark = pytest.mark.usefixtures("single_partition")

MINUTE = Bounds(0, 60 * SECOND)


@pytest.mark.slow
def test_a_match_is_emitted_with_its_second_row_and_an_unmatched_row_when_certain(
    spark: SparkSession,
) -> None:
    # search  a 0            b 5           null 6
    # click      a 60 (arrives before its search)  a 60.000001, too late  a 1, a second match
    click, search = Event("right", 60 * SECOND, "a", 1), Event("left", 0, "a", 0)
    out_of_bounds, unmatched = (
        Event("right", 60 * SECOND + 1, "a", 2),
        Event("left", 5 * SECOND, "b", 3),
    )
    null_keys = [Event("left", 6 * SECOND, None, 4), Event("right", 6 * SECOND, None, 5)]
    second_match = Event("right", SECOND, "a", 6)
    pair = dict.fromkeys(("inner", "left", "right", "full"), 1)
    left_types = ("left", "full", "anti")
    with StreamDriver(
        spark,
        SCHEMA,
        lambda events: join_by_types(events, MINUTE),
        watermark_delay=timedelta(seconds=70),
    ) as stream:
        assert stream.feed(frame(spark, [click, out_of_bounds])) == []
        first = joined_ids(stream.feed(frame(spark, [search, unmatched])))
        assert first == Counter({(kind, 0, 1): n for kind, n in pair.items()}) + Counter(
            {("semi", 0, None): 1}
        )
        # Rows with a null key match nothing and are emitted at once.
        nulls = joined_ids(stream.feed(frame(spark, null_keys)))
        assert nulls == Counter([(kind, 4, None) for kind in left_types]) + Counter(
            [("right", None, 5), ("full", None, 5)]
        )
        stream.restart()
        second = joined_ids(stream.feed(frame(spark, [second_match])))
        assert second == Counter({(kind, 0, 6): n for kind, n in pair.items()})
        # A left row can match for a minute; a right row only matches earlier left rows.
        assert joined_ids(stream.advance_to(instant(60 * SECOND))) == Counter()
        later = joined_ids(stream.advance_to(instant(60 * SECOND + 3_000)))
        assert later == Counter([("right", None, 2), ("full", None, 2)])
        last = joined_ids(stream.advance_to(instant(65 * SECOND + 3_000)))
        assert last == Counter([(kind, 3, None) for kind in left_types])
        assert stream.advance_to(instant(900 * SECOND)) == []
        all_events = [click, search, out_of_bounds, unmatched, *null_keys, second_match]
        assert joined_ids(stream.results().collect()) == expected_join(all_events, MINUTE)


@pytest.mark.slow
def test_consecutive_batches_return_the_same_and_rows_are_evicted(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Without batches in between, Spark drops late rows by the watermark of the previous batch, and
    # evicts rows by the newer one.
    seed = Random().randrange(2**32)
    print(f"random_arrival({seed})")
    arrival = random_arrival(seed)
    assert run_consecutive_batches(spark, arrival, tmp_path) == expected_join(
        rows_in_time(arrival), arrival.bounds
    )
    states = state_stores(spark, str(tmp_path / "checkpoint"))
    assert len(states) == 2 * len(JOIN_TYPES) + 1
    # Most join types still store the left row that ended the stream.
    assert reduce(DataFrame.unionAll, states).count() <= len(JOIN_TYPES)


@pytest.mark.slow
def test_a_row_matches_a_row_of_its_batch_that_can_be_evicted_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    # The watermark is 7 s when the second batch is read. Its right row is in time by the previous
    # watermark, and cannot match rows of later batches.
    ahead = [Event("left", 10 * SECOND, "x", 0)]
    both = [Event("left", 4 * SECOND, "a", 1), Event("right", 6 * SECOND, "a", 2)]
    arrival = Arrival([ahead, both], 0, Bounds(-SECOND, 4 * SECOND))
    result = run_consecutive_batches(spark, arrival, tmp_path)
    assert result["semi", 1, None] == 1
    assert result == expected_join(rows_in_time(arrival), arrival.bounds)


def state_stores(spark: SparkSession, checkpoint: str) -> list[DataFrame]:
    """Return the rows of all state stores of a checkpoint."""
    operators = spark.read.format("state-metadata").load(checkpoint)
    result = []
    for number, name in operators.select("operatorId", "operatorName").distinct().collect():
        sides = ["left", "right"] if name == "symmetricHashJoin" else [None]
        for side in sides:
            reader = spark.read.format("statestore").option("operatorId", number)
            side_reader = reader if side is None else reader.option("joinSide", side)
            result.append(side_reader.load(checkpoint).select("partition_id"))
    return result


def rows_in_time(arrival: Arrival) -> list[Event]:
    """Return the rows in time by the watermark of the previous batch."""
    watermarks = [0, 0]
    in_time = list[Event]()
    for batch in arrival.batches:
        in_time += [event for event in batch if BASE + event.micros >= watermarks[-2]]
        max_time = max(BASE + event.micros for event in batch)
        watermarks.append(max(watermarks[-1], (max_time - WATERMARK_DELAY) // 1000 * 1000))
    return in_time


def run_consecutive_batches(
    spark: SparkSession, arrival: Arrival, folder: Path
) -> Counter[JoinedIds]:
    """Return the results of the arrival and a final row, as consecutive batches of a stream."""
    end = [Event("left", 10 * SPAN, "end", -1)]
    for number, batch in enumerate([*arrival.batches, end]):
        file = folder / "rows" / f"{number}.parquet"
        file.parent.mkdir(exist_ok=True)
        pq.write_table(frame(spark, batch).toArrow(), file)
        os.utime(file, (number, number))
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    events = source.parquet(str(folder / "rows")).withWatermark(
        "event_time", f"{WATERMARK_DELAY} microseconds"
    )
    result: list[Row] = []
    query = (
        join_by_types(events, arrival.bounds)
        .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(lambda rows, _: result.extend(rows.collect()))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return joined_ids([row for row in result if row.left != -1])


def test_a_bound_of_days_does_not_depend_on_the_session_time_zone(
    spark: SparkSession,
) -> None:
    # The day of the clock change in Berlin has 23 hours; a bound of a day is 24 hours.
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    rows = [("left", before, "a", 0)]
    rows += [("right", before + timedelta(hours=hours), "a", hours) for hours in (23, 24, 25)]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with StreamDriver(spark, SCHEMA, join_within_a_day, watermark_delay="2 days") as stream:
            result = stream.feed(rows)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert sorted(row.id_right for row in result) == [23, 24]


def join_within_a_day(events: DataFrame) -> DataFrame:
    left, right = (events.where(F.col("side") == side) for side in ("left", "right"))
    return stream_stream(left, right, "key", within=("0 seconds", "1 day"), how="inner")
