"""Event times at the ends of what Spark, Parquet and the readers of Delta can represent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import by_spark, rows
from tests.support.raw_records import produce
from tests.support.readers import assert_readers_agree
from tidegate import Input, Job, KafkaSource, Limits, json_format, run
from tidegate import aggregates as agg
from tidegate.sinks import Append, TableLayout
from tidegate.testing import Broker
from tidegate.windows import Hopping, Tumbling, Window, WindowAggregation

pytestmark = [pytest.mark.jobs, pytest.mark.broker]

HOUR = timedelta(hours=1)
BEFORE_1970 = [
    datetime(1, 1, 3, 0, 0, 1, tzinfo=UTC),
    datetime(1600, 2, 29, 10, tzinfo=UTC),
    datetime(1969, 12, 31, 22, 59, 59, 999999, tzinfo=UTC),
]
FROM_1970 = [
    datetime(2262, 4, 12, 0, tzinfo=UTC),
    datetime(9999, 12, 31, 22, 59, 59, 999999, tzinfo=UTC),
]
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
"""The usual sentinel, which closes all windows but its own."""


@pytest.mark.parametrize(
    ("kind", "hop"), [(Tumbling("1 hour"), HOUR), (Hopping("1 hour", "30 minutes"), HOUR / 2)]
)
@pytest.mark.parametrize("threshold", [None, 0], ids=["stream", "backfill"])
def test_windows_of_the_first_and_last_years_are_counted_once_for_all_readers(
    threshold: int | None,
    kind: Window,
    hop: timedelta,
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    times = [*BEFORE_1970, *FROM_1970, LAST]
    values = [f'{{"at": "{time.isoformat()}"}}'.encode() for time in times]
    produce(broker.bootstrap_servers, topic, values)
    visits = Input(
        KafkaSource(broker.bootstrap_servers, topic),
        json_format("at TIMESTAMP"),
        time="at",
        watermark_delay="0 seconds",
        future_tolerance=None,
    )
    job = Job(
        name="visits",
        inputs={"visits": visits},
        transform=WindowAggregation(kind, aggs={"n": agg.count()}),
        sink=Append(str(tmp_path / "windows")),
        late_rows=str(tmp_path / "late"),
        backfill_threshold=threshold,
    )
    done = run(job, spark)
    # On a stream, Spark's first watermark is 1970-01-01.
    late = BEFORE_1970 if threshold is None else []
    assert (done.rows_in, done.late_rows) == (len(times), len(late))
    expected = sorted(
        (start - number * hop, start - number * hop + HOUR, 1)
        for time in {*BEFORE_1970, *FROM_1970} - {*late}
        for start in [hop_start(time, hop)]
        for number in range(HOUR // hop)
    )
    for read in (rows, by_spark(spark)):
        windows = [
            (utc(row["window"]["start"]), utc(row["window"]["end"]), row["n"])
            for row in read(tmp_path / "windows")
        ]
        assert sorted(windows) == expected
        if late:
            assert sorted(utc(row["at"]) for row in read(tmp_path / "late")) == late


LANDED = {
    '"0001-01-01T00:00:00Z"': datetime(1, 1, 1, tzinfo=UTC),
    '"1677-09-21T00:12:43Z"': datetime(1677, 9, 21, 0, 12, 43, tzinfo=UTC),
    "-9223372037": datetime(1677, 9, 21, 0, 12, 43, tzinfo=UTC),
    '"2262-04-11T23:47:16.854776Z"': datetime(2262, 4, 11, 23, 47, 16, 854776, tzinfo=UTC),
    "9223372037": datetime(2262, 4, 11, 23, 47, 17, tzinfo=UTC),
    '"9999-12-31T23:59:59.999999Z"': LAST,
    "253402300799": LAST.replace(microsecond=0),
}
"""The event times of records, as JSON, and their values."""
OUTSIDE = (
    '"0000-12-31T23:59:59Z"',
    '"0001-01-01T00:00:00+00:01"',
    "-62135596801",
    '"10000-01-01T00:00:00Z"',
    '"9999-12-31T23:59:59-00:01"',
    "253402300800",
    "9223372036854775807",
)
"""Event times outside the years 1 to 9999."""


@pytest.mark.parametrize("threshold", [None, 0], ids=["stream", "backfill"])
def test_the_times_of_a_landed_topic_are_right_for_all_readers_or_dead_letters(
    threshold: int | None, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    fields = [
        *(f'"at": {text}, "day": "{at.date()}", "n": {at.year}' for text, at in LANDED.items()),
        *(f'"at": {text}' for text in OUTSIDE),
    ]
    produce(broker.bootstrap_servers, topic, [f"{{{each}}}".encode() for each in fields])
    job = Job(
        name="landed",
        inputs={
            "visits": Input(
                KafkaSource(broker.bootstrap_servers, topic),
                json_format("at TIMESTAMP, day DATE, n INT"),
                time="at",
                watermark_delay="0 seconds",
                future_tolerance=None,
            )
        },
        sink=Append(str(tmp_path / "landed"), layout=TableLayout(partition_by=["day"])),
        limits=Limits(dead_ratio=None),
        backfill_threshold=threshold,
    )
    assert run(job, spark).rows_out == len(LANDED)
    columns = ("at", "event_time", "day", "n")
    landed = [tuple(row[name] for name in columns) for row in rows(tmp_path / "landed")]
    expected = sorted((at, at, at.date(), at.year) for at in LANDED.values())
    assert sorted((utc(at), utc(time), day, n) for at, time, day, n in landed) == expected
    dead_letters = rows(tmp_path / "landed.dead_letters")
    reasons = {row["offset"]: row["reason"] for row in dead_letters}
    assert reasons == dict.fromkeys(range(len(LANDED), len(fields)), "wrong type: at")
    assert_readers_agree(spark, tmp_path / "landed")


def hop_start(time: datetime, hop: timedelta) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return time - (time - epoch) % hop


def utc(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
