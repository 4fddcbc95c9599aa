"""Dead letters, late rows and gaps laid out by a job's file: what they get, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.command.logs import Folder
from tidegate.command.status import jobs, rows
from tidegate.errors import ColumnError, ColumnTypeError, TableError
from tidegate.formats import json_format
from tidegate.jobs import Windows
from tidegate.jobs.windows import job as windows
from tidegate.jvm import delta_state
from tidegate.runtime import Input, Job, run
from tidegate.sinks import Append, Layout
from tidegate.sources import KafkaSource, Reading
from tidegate.testing import Broker, Record, deliver

from .. import tables
from ..configured import from_options

pytestmark = [pytest.mark.slow, pytest.mark.jobs]
AT = 1_767_312_000_000
SIDES = ("dead_letters", "late_rows", "gaps")
SETTINGS = {
    "input.schema": "sensor string not null, at bigint",
    "input.time": "at",
    "input.time_unit": "milliseconds",
    "input.lateness": "1 second",
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
    deliver(broker.servers, records)


@pytest.mark.broker
@pytest.mark.parametrize(
    ("given", "clustered", "parted"),
    [
        ({"output.side_cluster_by": "topic,partition"}, ["topic", "partition"], []),
        ({"output.side_partition_by": "topic"}, [], ["topic"]),
    ],
)
def test_side_tables_are_laid_out_by_a_job_s_file_and_take_each_row_once(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    given: dict[str, str],
    clustered: list[str],
    parted: list[str],
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    options = {
        **SETTINGS,
        **given,
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "output.root": tmp_path,
    }
    job = windows(from_options(Windows, options))
    for partition in (0, 1):
        send(broker, topic, partition, 5, 200)
        deliver(broker.servers, [Record(topic, b"{oops", AT, partition=partition)])
    assert (run(job, spark).dead, run(job, spark).dead) == (2, 0)
    # A late row and a dead letter in each partition, after a record that the topic has lost.
    for partition in (0, 1):
        send(broker, topic, partition, 201, 6)
        deliver(broker.servers, [Record(topic, b"{oops", AT, partition=partition)])
    broker.delete_records(topic, {0: 4})
    done = run(job, spark)
    assert (done.late, done.dead, done.lost) == (2, 2, 1)
    for name, partitions in zip(SIDES, ([0, 0, 1, 1], [0, 1], [0]), strict=True):
        state = delta_state(spark, str(tmp_path / name))
        assert (state.clustering_columns(), state.partition_columns()) == (clustered, parted)
        assert sorted(row["partition"] for row in tables.rows(tmp_path / name)) == partitions
    (status,) = jobs(*Folder(str(tmp_path)).found())
    assert {row.step: row.rows for row in rows(status)} == {
        "append": 1,
        "dead": 4,
        "gaps": 1,
        "late": 2,
    }

    # Each table that is there is looked at before the next start.
    other = replace(job, side_layout=Layout(cluster_by=["partition"]))
    with pytest.raises(TableError, match=r"cluster_by is \['partition'\], and .*dead_letters"):
        run(other, spark)
    assert run(replace(job, side_layout=Layout()), spark).rows_in == 0


@pytest.mark.broker
def test_a_table_of_gaps_that_is_laid_out_in_another_way_is_refused_before_a_start(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    options = {
        **SETTINGS,
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "output.root": tmp_path,
    }
    send(broker, topic, 0, 5)
    run(windows(from_options(Windows, options)), spark)
    send(broker, topic, 0, 6, 7)
    broker.delete_records(topic, {0: 2})
    assert run(windows(from_options(Windows, options)), spark).lost == 1
    clustered = from_options(Windows, {**options, "output.side_cluster_by": "topic"})
    with pytest.raises(TableError, match=r"(?s)gaps is clustered by \[\].*CLUSTER BY \(topic\)"):
        run(windows(clustered), spark)


def laid_out(layout: Layout, schema: str) -> Job:
    reading = Reading(
        KafkaSource("b:1", "t"), json_format(schema), time="event_time", lateness="1 second"
    )
    sink = Append("/x/t")
    return Job(name="j", inputs={"rows": Input(reading)}, sink=sink, side_layout=layout)


def test_columns_that_not_each_side_table_has_are_refused_when_the_job_is_made(
    spark: SparkSession,
) -> None:
    own = "topic ARRAY<STRING>, event_time TIMESTAMP"
    with pytest.raises(ColumnError, match="side_layout: cluster_by names reason"):
        laid_out(Layout(cluster_by=["topic", "reason"]), "event_time TIMESTAMP")
    with pytest.raises(ColumnError, match="side_layout: partition_by names event_time"):
        laid_out(Layout(partition_by=["event_time"]), "event_time TIMESTAMP")
    # A late row has the field in the place of the record's topic.
    with pytest.raises(ColumnTypeError, match=r"side_layout: cluster_by names 'topic', .*array"):
        laid_out(Layout(cluster_by=["topic"]), own)
    assert laid_out(Layout(cluster_by=["partition"]), own).side_layout.cluster_by == ["partition"]
