"""The layout of the tables of dead letters, late rows and offset gaps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import delta_tables as tables
from tests.support.spark_session import from_options
from tidegate import Input, Job, run
from tidegate.cli.status_command import OutputFolder, group_by_job, table_rows
from tidegate.delta.table_layout import TableLayout
from tidegate.errors import ColumnError, ColumnTypeError, TableError
from tidegate.formats import json_format
from tidegate.jobs import Windows
from tidegate.jobs.windows import job as windows
from tidegate.jvm import delta_state
from tidegate.kafka.producer import Record, deliver
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.testing import Broker

pytestmark = [pytest.mark.slow, pytest.mark.jobs]
AT = 1_767_312_000_000
SIDES = ("dead_letters", "late_rows", "offset_gaps")
SETTINGS = {
    "input.schema": "sensor string not null, at bigint",
    "input.time": "at",
    "input.time_unit": "milliseconds",
    "input.watermark_delay": "1 second",
    "input.on_data_loss": "record",
    "input.watermarks": "partition",
    "window.size": "1 minute",
    "window.by": "sensor",
    "aggregates.n": "count",
}


def send(broker: Broker, topic: str, partition: int, *seconds: int) -> None:
    """Send a reading for each second."""
    values = [json.dumps({"sensor": "a", "at": AT + 1_000 * second}) for second in seconds]
    records = [Record(topic, value.encode(), AT, partition=partition) for value in values]
    deliver(broker.bootstrap_servers, records)


@pytest.mark.broker
@pytest.mark.parametrize(
    ("overrides", "clustered", "partitioned"),
    [
        ({"output.side_table_cluster_by": "topic,partition"}, ["topic", "partition"], []),
        ({"output.side_table_partition_by": "topic"}, [], ["topic"]),
    ],
)
def test_side_tables_have_the_configured_layout_and_each_row_once(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    overrides: dict[str, str],
    clustered: list[str],
    partitioned: list[str],
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    options = {
        **SETTINGS,
        **overrides,
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "output.root": tmp_path,
    }
    job = windows(from_options(Windows, options))
    for partition in (0, 1):
        send(broker, topic, partition, 5, 200)
        deliver(broker.bootstrap_servers, [Record(topic, b"{oops", AT, partition=partition)])
    assert (run(job, spark).dead_letters, run(job, spark).dead_letters) == (2, 0)
    # A late row and a dead letter per partition, after a lost record.
    for partition in (0, 1):
        send(broker, topic, partition, 201, 6)
        deliver(broker.bootstrap_servers, [Record(topic, b"{oops", AT, partition=partition)])
    broker.delete_records(topic, {0: 4})
    done = run(job, spark)
    assert (done.late_rows, done.dead_letters, done.lost_offsets) == (2, 2, 1)
    for name, partitions in zip(SIDES, ([0, 0, 1, 1], [0, 1], [0]), strict=True):
        state = delta_state(spark, str(tmp_path / name))
        assert (state.clustering_columns(), state.partition_columns()) == (clustered, partitioned)
        assert sorted(row["partition"] for row in tables.rows(tmp_path / name)) == partitions
    (status,) = group_by_job(*OutputFolder(str(tmp_path)).scan())
    assert {row.output: row.rows for row in table_rows(status)} == {
        "append": 1,
        "dead_letters": 4,
        "offset_gaps": 1,
        "late": 2,
    }

    # Every start checks the existing tables.
    other = replace(job, side_table_layout=TableLayout(cluster_by=["partition"]))
    with pytest.raises(TableError, match=r"invalid cluster_by: \['partition'\] for .*dead_letters"):
        run(other, spark)
    assert run(replace(job, side_table_layout=TableLayout()), spark).rows_in == 0


@pytest.mark.broker
def test_a_gap_table_with_another_layout_is_rejected_before_the_start(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    options = {
        **SETTINGS,
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "output.root": tmp_path,
    }
    send(broker, topic, 0, 5)
    run(windows(from_options(Windows, options)), spark)
    send(broker, topic, 0, 6, 7)
    broker.delete_records(topic, {0: 2})
    assert run(windows(from_options(Windows, options)), spark).lost_offsets == 1
    clustered = from_options(Windows, {**options, "output.side_table_cluster_by": "topic"})
    with pytest.raises(TableError, match=r"(?s)for .*gaps.*: \[\].*CLUSTER BY \(topic\)"):
        run(windows(clustered), spark)


def job_with_layout(layout: TableLayout, schema: str) -> Job:
    reading = Input(
        KafkaSource("b:1", "t"), json_format(schema), time="event_time", watermark_delay="1 second"
    )
    sink = Append("/x/t")
    return Job(name="j", inputs={"rows": reading}, sink=sink, side_table_layout=layout)


def test_layout_columns_must_be_in_every_side_table(
    spark: SparkSession,
) -> None:
    own = "topic ARRAY<STRING>, event_time TIMESTAMP"
    with pytest.raises(ColumnError, match="side_table_layout: invalid cluster_by: reason"):
        job_with_layout(TableLayout(cluster_by=["topic", "reason"]), "event_time TIMESTAMP")
    with pytest.raises(ColumnError, match="side_table_layout: invalid partition_by: event_time"):
        job_with_layout(TableLayout(partition_by=["event_time"]), "event_time TIMESTAMP")
    # In late rows the field `topic` replaces the record's topic.
    with pytest.raises(ColumnTypeError, match=r"side_table_layout: .*'topic'.*array"):
        job_with_layout(TableLayout(cluster_by=["topic"]), own)
    assert job_with_layout(
        TableLayout(cluster_by=["partition"]), own
    ).side_table_layout.cluster_by == ["partition"]
