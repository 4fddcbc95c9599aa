"""Event times at the ends of what Spark, Parquet and the readers of Delta can represent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import by_spark, rows
from tests.support.raw_records import produce
from tidegate import Input, Job, KafkaSource, json_format, run
from tidegate import aggregates as agg
from tidegate.sinks import Append
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


def hop_start(time: datetime, hop: timedelta) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return time - (time - epoch) % hop


def utc(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
