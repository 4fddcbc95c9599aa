"""A snapshot and then its log: the same table as the whole log makes, whatever is read again."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tidegate.changes import after_snapshot, newest
from tidegate.errors import ReplayMismatchError
from tidegate.formats import debezium, json_format
from tidegate.runtime import Input, Job, begin, run
from tidegate.sinks import Current
from tidegate.sources import KafkaSource, Reading
from tidegate.testing import Broker
from tidegate.transform import Stateless

from ..sinks.batches import batch
from .frames import COLUMNS, at, changes, living
from .oracle import Change, current

pytestmark = pytest.mark.slow

SEAM = 60


def drawn(draw: random.Random) -> list[Change]:
    """Return a log of changes at the positions 1 to 120; some keys are deleted before the seam."""
    log: list[Change] = []
    for number in range(1, 121):
        key = f"k{draw.randrange(25)}"
        op = draw.choice(["create", "update", "delete"])
        log.append(Change(op, key, None if op == "delete" else f"v{number}", (number,), number))
    return log


def sent(servers: str, topic: str, log: list[Change]) -> None:
    """Send changes as Debezium writes them for PostgreSQL."""
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


@pytest.mark.draws("seed", short=[1], long=range(1, 7))
def test_a_log_that_begins_before_its_snapshot_adds_nothing_and_wakes_no_deleted_row(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, seed: int
) -> None:
    log = drawn(random.Random(seed))
    held = current(log[:SEAM])
    rows = spark.createDataFrame([*held.items()], COLUMNS)
    table = Current(str(tmp_path / "t"))
    for outcome in ("written", "skipped"):
        done = begin(rows, table, job="customers", key="id", position=[SEAM], at=at(SEAM))
        assert done == outcome
    with pytest.raises(ReplayMismatchError):
        begin(rows, table, job="customers", key="id", position=[SEAM + 1], at=at(SEAM))
    broker.create_topic(topic)
    sent(broker.servers, topic, log[20:])
    form = debezium(COLUMNS, key="id", using=json_format, position="source")
    reading = Reading(
        KafkaSource(broker.servers, topic), form, time="event_time", lateness="0 seconds"
    )
    job = Job(
        name="customers",
        inputs={"changes": Input(reading)},
        transform=Stateless(partial(after_snapshot, position=[SEAM])),
        sink=table,
    )
    assert run(job, spark).rows_in == 100
    assert living(table.rows(spark).collect()) == current(log)
    # The partition begins with the 21st change.
    cut = after_snapshot(changes(spark, log[20:]), offsets={"t": {0: SEAM - 20}})
    assert living(newest(cut).where("NOT deleted").collect()) == current(log[SEAM:])


def test_tombstones_are_kept_for_a_time_and_no_longer(spark: SparkSession, tmp_path: Path) -> None:
    table = Current(str(tmp_path / "t"), keep_deleted="10 seconds")
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
