"""A backfill writes the rows that a stream would write, each once, and the stream continues."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tests.support.sink_batches import commits
from tidegate import Job, compare, run
from tidegate.aggregates import count
from tidegate.commit.batch import CommitContext
from tidegate.commit.protocol import Outcome
from tidegate.errors import ArgumentError
from tidegate.joins import IntervalJoin, LookupJoin
from tidegate.joins.interval_join import IntervalJoinType
from tidegate.jvm import with_settings
from tidegate.kafka.admin import Cluster
from tidegate.sinks import Append, SnapshotJoin, Upsert
from tidegate.sketches import NearDuplicates
from tidegate.testing import Broker
from tidegate.transform import Stateful, Transform
from tidegate.windows import Deduplication, Hopping, Session, Sliding, Tumbling, WindowAggregation

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

HOPS = WindowAggregation(Hopping("20 seconds", "5 seconds"), by="page", aggs={"n": count()})
TRANSFORMS: dict[str, Transform | None] = {
    "hopping": HOPS,
    "session": WindowAggregation(Session("7 seconds"), by="page", aggs={"n": count()}),
    "deduplication": Deduplication("page", "9 seconds", max_delay="3 seconds"),
    "near duplicates": NearDuplicates(
        "page", key="offset", threshold=0.8, within="3 seconds", shingle_size=1, permutations=16
    ),
    "no state": None,
}


@dataclass(frozen=True)
class BackfillTopics:
    """Topics of two partitions that are sent in two parts, and a job that reads them."""

    broker: Broker
    root: Path
    topics: tuple[str, ...]

    def send(self, first: int, last: int, *others: float | str) -> None:
        """Send records of about every second, slightly out of order, after others."""
        drawn = random.Random(first)
        for topic in self.topics:
            for partition in (0, 1):
                # Each 15 seconds of records are followed by a pause of 10 seconds.
                active = [s for s in range(first, last) if s % 25 < 15]
                values = [float(s) for s in active if drawn.random() < 0.6]
                values.sort(key=lambda second: second + drawn.uniform(0, 4))
                send_records(self.broker.bootstrap_servers, topic, [*others, *values], partition)

    def record_count(self) -> int:
        """Return the number of records in the topics."""
        cluster = Cluster(self.broker.bootstrap_servers, ())
        return sum(cluster.end_offsets(dict.fromkeys(self.topics, range(2))).values())

    def job(self, transform: Transform | None, **options: Any) -> Job:
        """Return the job."""
        names = ["left", "right"][: len(self.topics)]
        inputs = {
            name: replace(
                pages_input(
                    self.broker.bootstrap_servers,
                    topic,
                    watermark_delay="5 seconds",
                    max_records=20,
                ),
                kafka_columns=["offset"],
            )
            for name, topic in zip(names, self.topics, strict=True)
        }
        parts = {"inputs": inputs, "transform": transform, "sink": Append(f"{self.root}/rows")}
        return Job(**{"name": "backfill", **parts, **options})

    def side_offsets(self, table: str) -> Counter[tuple[str, int, int]]:
        """Return the topic, partition and offset of each row in a side output table."""
        found = rows(self.root / f"rows.{table}", ["topic", "partition", "offset"])
        return Counter((row["topic"], row["partition"], row["offset"]) for row in found)


@pytest.fixture
def world(broker: Broker, topic: str, tmp_path: Path) -> BackfillTopics:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    return BackfillTopics(broker, tmp_path, (topic,))


@pytest.fixture
def pair(broker: Broker, topic: str, tmp_path: Path) -> BackfillTopics:
    topics = (f"{topic}-l", f"{topic}-r")
    for each in topics:
        broker.create_topic(each, partitions=2, retention_ms=-1)
    return BackfillTopics(broker, tmp_path, topics)


@pytest.mark.draws("kind", short=["session", "near duplicates", "no state"], long=list(TRANSFORMS))
def test_the_stream_continues_after_the_backfill(
    spark: SparkSession, world: BackfillTopics, kind: str
) -> None:
    transform = TRANSFORMS[kind]
    world.send(0, 100, "no record")
    job = world.job(transform, backfill_threshold=0)
    done = run(job, spark)
    assert done.dead_letters == 2
    in_batch = rows(world.root / "rows")
    assert in_batch
    # 30 is late for windows and sessions that are written, 99 is not.
    world.send(100, 150, 30, "nor this", 99)
    after = run(job, spark)
    stateless = transform is None
    assert (after.dead_letters, after.late_rows) == (2, 0 if stateless else 2)
    assert done.rows_in + after.rows_in == world.record_count()
    assert len(world.side_offsets("dead_letters")) == 4
    assert max(world.side_offsets("dead_letters").values()) == 1
    found = compare(job, spark)
    assert found.is_empty, str(found)
    assert (found.expected_rows > len(in_batch)) or stateless
    assert found.late_rows == after.late_rows


@pytest.mark.parametrize("kind", ["hopping", "session"])
def test_only_session_backfills_persist_their_results(
    kind: str, spark: SparkSession, world: BackfillTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _persisted_frames(spark)
    persisted: dict[int, bool] = {}
    write = Append.write

    def write_with_probe(self: Append, frames: Any, batch: CommitContext, **others: Any) -> Outcome:
        persisted.setdefault(batch.plan.number, bool(_persisted_frames(spark) - before))
        return write(self, frames, batch, **others)

    monkeypatch.setattr(Append, "write", write_with_probe)
    world.send(0, 100)
    job = world.job(TRANSFORMS[kind], backfill_threshold=0)
    run(job, spark)
    world.send(100, 130)
    run(job, spark)
    assert persisted[0] == (kind == "session")
    # A batch with state is persisted and counted before it is written.
    assert all(persisted[number] for number in persisted if number)
    assert len(persisted) > 1
    # The commit has the number of rows, however they were counted.
    row_counts = json.loads(commits(str(world.root / "rows"))[0]["userMetadata"])["rows"]
    written = spark.read.format("delta").option("versionAsOf", 0).load(str(world.root / "rows"))
    assert row_counts["out"] == written.count() > 0


def _persisted_frames(spark: SparkSession) -> set[int]:
    """Return the ids of the persisted frames."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


@pytest.mark.parametrize("how", ["left", "semi"])
def test_joins_continue_after_a_backfill_of_both_topics(
    how: IntervalJoinType, spark: SparkSession, pair: BackfillTopics
) -> None:
    pair.send(0, 60)
    near = IntervalJoin("page", within=("1 second", "2 seconds"), how=how)
    job = pair.job(near, backfill_threshold=0)
    run(job, spark)
    pair.send(60, 90, 20)
    after = run(job, spark)
    assert after.late_rows == 4
    found = compare(job, spark)
    assert found.is_empty, str(found)
    assert found.expected_rows > 50


def test_a_backfill_joins_one_version_of_a_table_and_the_stream_the_next(
    spark: SparkSession, world: BackfillTopics
) -> None:
    names = str(world.root / "names")

    def name(text: str) -> None:
        table = spark.createDataFrame([("p0", text)], "page string, name string")
        table.write.format("delta").mode("overwrite").save(names)

    name("old")
    world.send(0, 50, "no record")
    sink = SnapshotJoin(
        table=names, join=LookupJoin("page", how="left"), sink=Append(str(world.root / "rows"))
    )
    job = world.job(None, sink=sink, backfill_threshold=0)
    done = run(job, spark)
    assert done.dead_letters == 2
    # One commit has all rows; a batch of the stream would have at most 20.
    assert [json.loads(each["userMetadata"])["rows"] for each in commits(sink.path)] == [
        {"in": world.record_count(), "dead_letters": 2, "late": 0, "out": world.record_count() - 2}
    ]
    name("new")
    world.send(50, 70)
    after = run(job, spark)
    assert done.rows_in + after.rows_in == world.record_count()
    found = rows(world.root / "rows")
    assert len(found) == world.record_count() - 2
    versions = {(row["page"], row["name"], row["table_version"]) for row in found}
    assert versions == {("p0", "old", 0), ("p0", "new", 1), ("p1", None, 0), ("p1", None, 1)}


def test_a_backfill_without_results_still_counts_its_records(
    spark: SparkSession, world: BackfillTopics
) -> None:
    windows = WindowAggregation(Tumbling("1 day"), by="page", aggs={"n": count()})
    world.send(0, 50, "no record")
    done = run(world.job(windows, backfill_threshold=0), spark)
    assert (done.rows_in, done.dead_letters) == (world.record_count(), 2)
    assert len(world.side_offsets("dead_letters")) == 2
    assert rows(world.root / "rows") == []


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_join_counts_one_topic_while_the_other_is_empty(
    how: IntervalJoinType, spark: SparkSession, pair: BackfillTopics
) -> None:
    left, right = (replace(pair, topics=(each,)) for each in pair.topics)
    left.send(0, 60, "no record")
    right.send(0, 0, "nor this")
    near = IntervalJoin("page", within=("1 second", "2 seconds"), how=how)
    job = pair.job(near, backfill_threshold=0)
    done = run(job, spark)
    assert (done.rows_in, done.dead_letters) == (pair.record_count(), 4)
    right.send(0, 60)
    run(job, spark)
    early = compare(job, spark)
    assert early.is_empty
    assert early.not_compared > 0
    assert early.expected_rows + early.not_compared == len(rows(pair.root / "rows"))
    # Only results that are final by the rows of both topics are compared.
    pair.send(60, 90)
    run(job, spark)
    found = compare(job, spark)
    assert found.is_empty, str(found)
    assert found.expected_rows > 50


@pytest.mark.parametrize("compiled", ["true", "false"])
@pytest.mark.parametrize("backfill_threshold", [0, None])
@pytest.mark.parametrize("how", ["inner", "semi", "anti"])
def test_records_joined_with_an_empty_table_are_counted(
    how: Any,
    backfill_threshold: int | None,
    compiled: str,
    spark: SparkSession,
    world: BackfillTopics,
) -> None:
    names = str(world.root / "names")
    table = spark.createDataFrame([], "page string, name string")
    table.write.format("delta").save(names)
    world.send(0, 50, "no record")
    sink = SnapshotJoin(
        table=names, join=LookupJoin("page", how=how), sink=Append(str(world.root / "rows"))
    )
    with with_settings(spark, {"spark.sql.codegen.wholeStage": compiled}):
        done = run(world.job(None, sink=sink, backfill_threshold=backfill_threshold), spark)
    assert (done.rows_in, done.dead_letters) == (world.record_count(), 2)
    assert len(world.side_offsets("dead_letters")) == 2


def test_few_records_are_read_as_a_stream_without_a_backfill(
    spark: SparkSession, world: BackfillTopics
) -> None:
    world.send(0, 20)
    done = run(world.job(HOPS, backfill_threshold=1_000), spark)
    assert done.batches > 1
    assert compare(world.job(HOPS), spark).is_empty


BY_OTHER_TIME = WindowAggregation(Tumbling("1 minute"), aggs={"n": count()}, time="at")
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "a transform by at": ("a", {"transform": BY_OTHER_TIME}),
    "sliding windows with windows='all'": (
        "a",
        {"transform": WindowAggregation(Sliding("5s", windows="all"), aggs={"n": count()})},
    ),
    "Stateful, which does not declare": (
        "a",
        {"transform": Stateful(lambda rows: rows, late_from=lambda at: at)},
    ),
    "the sink SnapshotJoin": (
        "a",
        {"sink": SnapshotJoin(table="t", join=lambda rows, _: rows, sink=Append("/nowhere/rows"))},
    ),
    "the sink Upsert by page": ("a", {"sink": Upsert("/nowhere/rows", keys=["page"])}),
    "^invalid backfill_threshold: -1": ("a", {"backfill_threshold": -1}),
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("message", REFUSED)
def test_a_job_that_does_not_support_a_backfill_is_refused(message: str) -> None:
    topics, options = REFUSED[message]
    parts = {
        "name": "refused",
        "inputs": {topic: pages_input("nowhere:9092", topic) for topic in topics},
        "sink": Append("/nowhere/rows"),
        "backfill_threshold": 0,
    }
    with pytest.raises(ArgumentError, match=message):
        Job(**{**parts, **options})
