"""A snapshot followed by its log gives the same table as the complete log."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.support.changelog_frames import COLUMNS, at, changes, values_by_key
from tests.support.changelog_oracle import Change, current
from tests.support.sink_batches import batch
from tidegate import Input, Job, run, write_initial_snapshot
from tidegate.changelogs import drop_covered_by_snapshot, latest_changes
from tidegate.errors import TableMismatchError
from tidegate.formats import debezium_format
from tidegate.sinks import CurrentTable
from tidegate.sources import KafkaSource
from tidegate.testing import Broker
from tidegate.transform import Stateless

pytestmark = pytest.mark.slow

SNAPSHOT_POSITION = 60


def random_log(draw: random.Random) -> list[Change]:
    """Return changes at positions 1 to 120; some keys are deleted before the snapshot."""
    log: list[Change] = []
    for number in range(1, 121):
        key = f"k{draw.randrange(25)}"
        op = draw.choice(["create", "update", "delete"])
        log.append(Change(op, key, None if op == "delete" else f"v{number}", (number,), number))
    return log


def produce_debezium(servers: str, topic: str, log: list[Change]) -> None:
    """Produce changes in the format of Debezium's PostgreSQL connector."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for change in log:
        assert change.position is not None
        value = {
            "op": change.op[0],
            "before": None,
            "after": None if change.op == "delete" else {"id": change.key, "v": change.value},
            "source": {"lsn": change.position[0]},
            "ts_ms": int(at(change.at).timestamp() * 1000),
        }
        key = json.dumps({"id": change.key})
        producer.produce(topic, json.dumps(value).encode(), key.encode(), partition=0)
    assert producer.flush(30) == 0


@pytest.mark.jobs
@pytest.mark.draws("seed", short=[1], long=range(1, 7))
def test_a_log_that_begins_before_its_snapshot_restores_no_deleted_row(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, seed: int
) -> None:
    log = random_log(random.Random(seed))
    snapshot = current(log[:SNAPSHOT_POSITION])
    rows = spark.createDataFrame([*snapshot.items()], COLUMNS)
    table = CurrentTable(str(tmp_path / "t"))

    def write(position: int) -> str:
        time = at(SNAPSHOT_POSITION)
        return write_initial_snapshot(
            rows, table, job="customers", key="id", log_position=[position], snapshot_time=time
        )

    assert write(SNAPSHOT_POSITION) == "written"
    assert write(SNAPSHOT_POSITION) == "skipped"
    with pytest.raises(TableMismatchError):
        write(SNAPSHOT_POSITION + 1)
    broker.create_topic(topic)
    produce_debezium(broker.bootstrap_servers, topic, log[20:])
    changelog = Input(
        KafkaSource(broker.bootstrap_servers, topic),
        debezium_format(COLUMNS, key="id"),
        time="event_time",
        watermark_delay="0 seconds",
    )
    job = Job(
        name="customers",
        inputs={"changes": changelog},
        transform=Stateless(partial(drop_covered_by_snapshot, position=[SNAPSHOT_POSITION])),
        sink=table,
    )
    assert run(job, spark).rows_in == 100
    assert values_by_key(table.rows(spark).collect()) == current(log)
    # The partition begins with the 21st change.
    offsets = {"t": {0: SNAPSHOT_POSITION - 20}}
    after = drop_covered_by_snapshot(changes(spark, log[20:]), offsets=offsets)
    latest = latest_changes(after).where("NOT deleted").collect()
    assert values_by_key(latest) == current(log[SNAPSHOT_POSITION:])


@pytest.mark.jobs
def test_deleted_rows_are_removed_after_the_delete_retention(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = CurrentTable(str(tmp_path / "t"), delete_retention="10 seconds")
    first = [
        Change("create", "a", "x", (1,), 0),
        Change("delete", "b", None, (2,), 0),
        Change("delete", "c", None, (3,), 5_000),
    ]
    table.write({"rows": changes(spark, first)}, batch(0))
    later = changes(spark, [Change("create", "d", "x", (4,), 12_000)], 3)
    table.write({"rows": later}, batch(49))
    stored = spark.read.format("delta").load(table.path)
    assert sorted(row.id for row in stored.collect()) == ["a", "c", "d"]
