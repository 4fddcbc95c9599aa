"""Late rows: each is in the result or in the late table, or the job stops."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.delta_tables import rows
from tests.support.kafka_topics import START, pages_input, send_records
from tests.support.sink_batches import batch
from tidegate import Job, merge_late_rows, run
from tidegate.aggregates import Aggregate, count
from tidegate.commit.batch import LATE_REPLAY_QUERY
from tidegate.commit.delta_commit import read_table_log
from tidegate.errors import AccountingError
from tidegate.jvm import clear_table_cache, delta_state
from tidegate.operations.late_replay import merged_late_version
from tidegate.sinks import Append, CorrectedWindows, SideOutputTable, Sink
from tidegate.testing import Broker
from tidegate.transform import Stateful
from tidegate.windows import Hopping, Tumbling, WindowAggregation, tumbling

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

AGGS: dict[str, Aggregate] = {"n": count()}


def counts_by_start(table: Path) -> dict[int, int]:
    """Return the counts by the first second of their windows."""
    return {int((row["window"]["start"] - START).total_seconds()): row["n"] for row in rows(table)}


def test_rows_that_only_spark_considers_late_stop_the_job_before_it_writes(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [10, 70, 130, 140, 20, "no json"])

    def count_views(clicks: DataFrame) -> DataFrame:
        return tumbling(clicks, "1 minute", by="page", aggs=AGGS)

    job = Job(
        name="views",
        inputs={"clicks": pages_input(broker.bootstrap_servers, topic, max_records=2)},
        # The windows have one minute, but late_at assumes ten.
        transform=Stateful(count_views, late_from=Tumbling("10 minutes").late_at),
        sink=Append(str(tmp_path / "views")),
    )
    with pytest.raises(AccountingError, match="Spark dropped 1 rows of batch 2"):
        run(job, spark)
    assert rows(tmp_path / "views.late") == []
    assert rows(tmp_path / "views.dead_letters") == []
    assert sum(counts_by_start(tmp_path / "views").values()) == 1, "the first window, of batch 1"


@pytest.mark.parametrize("bare", [False, True])
def test_a_row_late_for_its_first_window_is_late_and_in_none_of_its_windows(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, bare: bool
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, 25, 26, 27, 5, 200, 201])
    job = Job(
        name="views",
        inputs={"clicks": pages_input(broker.bootstrap_servers, topic, max_records=2)},
        transform=WindowAggregation(
            Hopping("40 seconds", "5 seconds"),
            by="page",
            aggs={"n": F.count("*")} if bare else AGGS,
        ),
        sink=Append(str(tmp_path / "views")),
    )
    summary = run(job, spark)
    assert (summary.rows_in, summary.late_rows) == (7, 1)
    assert [row["offset"] for row in rows(tmp_path / "views.late")] == [4]
    on_time = (1, 25, 26, 27)
    assert counts_by_start(tmp_path / "views") == {
        start: sum(start <= second < start + 40 for second in on_time)
        for start in range(-35, 30, 5)
    }


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_a_late_row_corrects_all_of_its_windows(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    emit: Literal["final", "changes"],
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, 25, 26, 27, 5, 200, 201])
    views = WindowAggregation(Hopping("40 seconds", "10 seconds"), by="page", aggs=AGGS)
    sink: Sink = CorrectedWindows(str(tmp_path / "views"), aggregation=views, log=None)
    job = Job(
        name="views",
        inputs={"clicks": pages_input(broker.bootstrap_servers, topic, max_records=2)},
        transform=views,
        sink=sink,
        emit=emit,
        allowed_lateness="1 hour",
    )
    summary = run(job, spark)
    assert (summary.late_rows, summary.corrected_rows) == (1, 1)
    assert rows(tmp_path / "views.late") == []
    counts = {start: n for start, n in counts_by_start(tmp_path / "views").items() if start < 100}
    assert counts == {-30: 2, -20: 2, -10: 5, 0: 5, 10: 3, 20: 3}


def test_late_rows_of_a_recreated_late_table_are_merged_after_each_batch(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    views = WindowAggregation(Tumbling("10 seconds"), by="page", aggs=AGGS)
    job = Job(
        name="views",
        inputs={"clicks": pages_input(broker.bootstrap_servers, topic)},
        transform=views,
        sink=CorrectedWindows(str(tmp_path / "views"), aggregation=views, log=None),
        allowed_lateness="1 second",
    )

    def merge_after(*seconds: int, recreate: bool = False) -> int:
        send_records(broker.bootstrap_servers, topic, list(seconds))
        run(job, spark, recreate=["late"] if recreate else [])
        return merge_late_rows(job, spark)

    # The first record of a batch moves the watermark of the next one.
    assert merge_after(1, 200) == 0
    assert [merge_after(2), merge_after(3), merge_after(4)] == [1, 1, 1]
    shutil.rmtree(tmp_path / "views.late")
    clear_table_cache(spark)
    assert [merge_after(5, recreate=True), merge_after(6, 7), merge_after()] == [1, 2, 0]
    assert counts_by_start(tmp_path / "views")[0] == 7


def test_late_rows_that_an_earlier_version_has_merged_are_not_merged_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    late = SideOutputTable(str(tmp_path / "late"), output="late")
    windows = Append(str(tmp_path / "windows"))
    schema = "topic string, partition int, offset bigint"
    late.write(spark.createDataFrame([("t", 0, 0)], schema), batch(0))
    windows.write({"rows": spark.range(1)}, batch(0, query_id=LATE_REPLAY_QUERY))
    target = read_table_log(spark, windows.path)
    assert merged_late_version(target, "j", windows.output, delta_state(spark, late.path)) == 0
    shutil.rmtree(late.path)
    clear_table_cache(spark)
    late.write(spark.createDataFrame([("t", 0, 1)], schema), batch(0))
    assert merged_late_version(target, "j", windows.output, delta_state(spark, late.path)) is None
