"""Rows that come too late: each is in the result or the late table, or the job stops."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.tables import rows
from tidegate.aggregates import Aggregate, count
from tidegate.errors import AccountingError
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.sinks import Append, Corrected, Sink
from tidegate.testing import Broker
from tidegate.transform import Stateful
from tidegate.windows import Hopping, Tumbling, Windowed, tumbling

from .topics import START, reading, sent

pytestmark = pytest.mark.broker

AGGS: dict[str, Aggregate] = {"n": count()}


def by_start(table: Path) -> dict[int, int]:
    """Return the numbers by the seconds at which their windows begin."""
    return {int((row["window"]["start"] - START).total_seconds()): row["n"] for row in rows(table)}


def test_rows_that_spark_drops_and_the_transform_calls_in_time_stop_the_job_before_it_writes(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    sent(broker.servers, topic, [10, 70, 130, 140, 20, "no json"])

    def views(clicks: DataFrame) -> DataFrame:
        return tumbling(clicks, "1 minute", by="page", aggs=AGGS)

    job = Job(
        name="views",
        inputs={"clicks": Input(reading(broker.servers, topic, max_rows=2))},
        # The windows are of one minute, and the rows are said to be late after ten.
        transform=Stateful(views, late=Tumbling("10 minutes").late_at),
        sink=Append(str(tmp_path / "views")),
    )
    with pytest.raises(AccountingError, match="Spark dropped 1 rows of batch 2"):
        run(job, spark)
    assert rows(tmp_path / "views.late") == []
    assert rows(tmp_path / "views.dead_letters") == []
    assert sum(by_start(tmp_path / "views").values()) == 1, "the first window, of batch 1"


@pytest.mark.parametrize("bare", [False, True])
def test_a_straggler_that_misses_the_first_of_its_windows_is_late_and_in_none_of_them(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, bare: bool
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    sent(broker.servers, topic, [1, 25, 26, 27, 5, 200, 201])
    job = Job(
        name="views",
        inputs={"clicks": Input(reading(broker.servers, topic, max_rows=2))},
        transform=Windowed(
            Hopping("40 seconds", "5 seconds"),
            by="page",
            aggs={"n": F.count("*")} if bare else AGGS,
        ),
        sink=Append(str(tmp_path / "views")),
    )
    done = run(job, spark)
    assert (done.rows_in, done.late) == (7, 1)
    assert [row["offset"] for row in rows(tmp_path / "views.late")] == [4]
    in_time = (1, 25, 26, 27)
    assert by_start(tmp_path / "views") == {
        start: sum(start <= second < start + 40 for second in in_time)
        for start in range(-35, 30, 5)
    }


@pytest.mark.parametrize("emission", ["final", "updates"])
def test_a_straggler_corrects_all_of_its_windows_whether_they_are_shown_open_or_not(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    emission: Literal["final", "updates"],
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    sent(broker.servers, topic, [1, 25, 26, 27, 5, 200, 201])
    views = Windowed(Hopping("40 seconds", "10 seconds"), by="page", aggs=AGGS)
    sink: Sink = Corrected(str(tmp_path / "views"), windowed=views, log=None)
    job = Job(
        name="views",
        inputs={"clicks": Input(reading(broker.servers, topic, max_rows=2))},
        transform=views,
        sink=sink,
        emission=emission,
        corrections="1 hour",
    )
    done = run(job, spark)
    assert (done.late, done.corrected) == (1, 1)
    assert rows(tmp_path / "views.late") == []
    found = {start: n for start, n in by_start(tmp_path / "views").items() if start < 100}
    assert found == {-30: 2, -20: 2, -10: 5, 0: 5, 10: 3, 20: 3}
