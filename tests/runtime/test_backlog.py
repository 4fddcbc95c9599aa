"""A backlog is worked off as one batch: the same rows, each once, and the stream goes on."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.command.kafka import Cluster
from tidegate.commit import Batch
from tidegate.commit.outcome import Outcome
from tidegate.errors import ArgumentError
from tidegate.joins import IntervalJoin, Lookup
from tidegate.joins.stream_stream import How
from tidegate.jvm import with_settings
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.compare import compare
from tidegate.runtime.query.run import run
from tidegate.sinks import Append, Snapshot, Upsert
from tidegate.sketches import NearDuplicates
from tidegate.testing import Broker
from tidegate.transform import Stateful, Transform
from tidegate.windows import Deduplication, Hopping, Session, Sliding, Tumbling, Windowed

from ..sinks.batches import commits
from ..tables import rows
from .topics import reading, sent

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

HOPS = Windowed(Hopping("20 seconds", "5 seconds"), by="page", aggs={"n": count()})
TRANSFORMS: dict[str, Transform | None] = {
    "hopping": HOPS,
    "session": Windowed(Session("7 seconds"), by="page", aggs={"n": count()}),
    "deduplication": Deduplication("page", "9 seconds", hold="3 seconds"),
    "near duplicates": NearDuplicates(
        "page", key="offset", threshold=0.8, within="3 seconds", words=1, permutations=16
    ),
    "no state": None,
}


@dataclass(frozen=True)
class World:
    """Topics of two partitions that are sent in two parts, and a job that reads them."""

    broker: Broker
    root: Path
    topics: tuple[str, ...]

    def send(self, first: int, last: int, *others: float | str) -> None:
        """Send a record for every second, somewhat out of order, after others."""
        drawn = random.Random(first)
        for topic in self.topics:
            for partition in (0, 1):
                # After each 15 seconds come 10 of rest.
                active = [s for s in range(first, last) if s % 25 < 15]
                values = [float(s) for s in active if drawn.random() < 0.6]
                values.sort(key=lambda second: second + drawn.uniform(0, 4))
                sent(self.broker.servers, topic, [*others, *values], partition)

    def sent(self) -> int:
        """Return how many records there are."""
        cluster = Cluster(self.broker.servers, ())
        return sum(cluster.ends(dict.fromkeys(self.topics, range(2))).values())

    def job(self, transform: Transform | None, **others: Any) -> Job:
        """Return the job."""
        names = ["left", "right"][: len(self.topics)]
        inputs = {
            name: Input(
                replace(
                    reading(self.broker.servers, topic, lateness="5 seconds", max_rows=20),
                    keep=["offset"],
                )
            )
            for name, topic in zip(names, self.topics, strict=True)
        }
        parts = {"inputs": inputs, "transform": transform, "sink": Append(f"{self.root}/rows")}
        return Job(**{"name": "worked-off", **parts, **others})

    def aside(self, table: str) -> Counter[tuple[str, int, int]]:
        """Return the places of a side table's rows."""
        found = rows(self.root / f"rows.{table}", ["topic", "partition", "offset"])
        return Counter((row["topic"], row["partition"], row["offset"]) for row in found)


@pytest.fixture
def world(broker: Broker, topic: str, tmp_path: Path) -> World:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    return World(broker, tmp_path, (topic,))


@pytest.fixture
def pair(broker: Broker, topic: str, tmp_path: Path) -> World:
    topics = (f"{topic}-l", f"{topic}-r")
    for each in topics:
        broker.create_topic(each, partitions=2, retention_ms=-1)
    return World(broker, tmp_path, topics)


@pytest.mark.draws("kind", short=["session", "near duplicates", "no state"], long=list(TRANSFORMS))
def test_the_stream_goes_on_where_the_batch_ended(
    spark: SparkSession, world: World, kind: str
) -> None:
    transform = TRANSFORMS[kind]
    world.send(0, 100, "no record")
    job = world.job(transform, backlog=0)
    done = run(job, spark)
    assert done.dead == 2
    in_batch = rows(world.root / "rows")
    assert in_batch
    # 30 is late for windows and sessions that are out, and 99 is not.
    world.send(100, 150, 30, "nor this", 99)
    after = run(job, spark)
    stateless = transform is None
    assert (after.dead, after.late) == (2, 0 if stateless else 2)
    assert done.rows_in + after.rows_in == world.sent()
    assert len(world.aside("dead_letters")) == 4
    assert max(world.aside("dead_letters").values()) == 1
    found = compare(job, spark)
    assert found.agree, str(found)
    assert (found.rows > len(in_batch)) or stateless
    assert found.late == after.late


@pytest.mark.parametrize("kind", ["hopping", "session"])
def test_memory_keeps_results_of_a_batch_where_others_are_looked_at(
    kind: str, spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _in_memory(spark)
    kept: dict[int, bool] = {}
    write = Append.write

    def watched(self: Append, frames: Any, batch: Batch, **others: Any) -> Outcome:
        kept.setdefault(batch.number, bool(_in_memory(spark) - before))
        return write(self, frames, batch, **others)

    monkeypatch.setattr(Append, "write", watched)
    world.send(0, 100)
    job = world.job(TRANSFORMS[kind], backlog=0)
    run(job, spark)
    world.send(100, 130)
    run(job, spark)
    assert kept[0] == (kind == "session")
    # A batch with state is kept until it is counted.
    assert all(kept[number] for number in kept if number)
    assert len(kept) > 1
    # The commit says how many rows it has, whichever way they were counted.
    said = json.loads(commits(str(world.root / "rows"))[0]["userMetadata"])["rows"]
    written = spark.read.format("delta").option("versionAsOf", 0).load(str(world.root / "rows"))
    assert said["out"] == written.count() > 0


def _in_memory(spark: SparkSession) -> set[int]:
    """Return the numbers of the frames that are kept in memory."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


@pytest.mark.parametrize("how", ["left", "semi"])
def test_joins_go_on_with_both_topics(how: How, spark: SparkSession, pair: World) -> None:
    pair.send(0, 60)
    near = IntervalJoin("page", within=("1 second", "2 seconds"), how=how)
    job = pair.job(near, backlog=0)
    run(job, spark)
    pair.send(60, 90, 20)
    after = run(job, spark)
    assert after.late == 4
    found = compare(job, spark)
    assert found.agree, str(found)
    assert found.rows > 50


def test_a_batch_meets_one_version_of_a_table_and_the_stream_the_next(
    spark: SparkSession, world: World
) -> None:
    names = str(world.root / "names")

    def name(text: str) -> None:
        table = spark.createDataFrame([("p0", text)], "page string, name string")
        table.write.format("delta").mode("overwrite").save(names)

    name("old")
    world.send(0, 50, "no record")
    sink = Snapshot(
        table=names, join=Lookup("page", how="left"), sink=Append(str(world.root / "rows"))
    )
    job = world.job(None, sink=sink, backlog=0)
    done = run(job, spark)
    assert done.dead == 2
    # One commit has them all, of which a batch of the stream would have no more than 20.
    assert [json.loads(each["userMetadata"])["rows"] for each in commits(sink.path)] == [
        {"in": world.sent(), "dead": 2, "late": 0, "out": world.sent() - 2}
    ]
    name("new")
    world.send(50, 70)
    after = run(job, spark)
    assert done.rows_in + after.rows_in == world.sent()
    found = rows(world.root / "rows")
    assert len(found) == world.sent() - 2
    told = {(row["page"], row["name"], row["table_version"]) for row in found}
    assert told == {("p0", "old", 0), ("p0", "new", 1), ("p1", None, 0), ("p1", None, 1)}


def test_nothing_comes_out_of_a_batch_whose_records_are_counted_all_the_same(
    spark: SparkSession, world: World
) -> None:
    windows = Windowed(Tumbling("1 day"), by="page", aggs={"n": count()})
    world.send(0, 50, "no record")
    done = run(world.job(windows, backlog=0), spark)
    assert (done.rows_in, done.dead) == (world.sent(), 2)
    assert len(world.aside("dead_letters")) == 2
    assert rows(world.root / "rows") == []


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_join_counts_one_topic_where_the_other_has_nothing(
    how: How, spark: SparkSession, pair: World
) -> None:
    left, right = (replace(pair, topics=(each,)) for each in pair.topics)
    left.send(0, 60, "no record")
    right.send(0, 0, "nor this")
    near = IntervalJoin("page", within=("1 second", "2 seconds"), how=how)
    job = pair.job(near, backlog=0)
    done = run(job, spark)
    assert (done.rows_in, done.dead) == (pair.sent(), 4)
    right.send(0, 60)
    run(job, spark)
    early = compare(job, spark)
    assert early.agree
    assert early.ahead > 0
    assert early.rows + early.ahead == len(rows(pair.root / "rows"))
    # What is compared is certain by the rows of both.
    pair.send(60, 90)
    run(job, spark)
    found = compare(job, spark)
    assert found.agree, str(found)
    assert found.rows > 50


@pytest.mark.parametrize("compiled", ["true", "false"])
@pytest.mark.parametrize("backlog", [0, None])
@pytest.mark.parametrize("how", ["inner", "semi", "anti"])
def test_records_that_meet_an_empty_table_are_counted(
    how: Any, backlog: int | None, compiled: str, spark: SparkSession, world: World
) -> None:
    names = str(world.root / "names")
    table = spark.createDataFrame([], "page string, name string")
    table.write.format("delta").save(names)
    world.send(0, 50, "no record")
    sink = Snapshot(
        table=names, join=Lookup("page", how=how), sink=Append(str(world.root / "rows"))
    )
    with with_settings(spark, {"spark.sql.codegen.wholeStage": compiled}):
        done = run(world.job(None, sink=sink, backlog=backlog), spark)
    assert (done.rows_in, done.dead) == (world.sent(), 2)
    assert len(world.aside("dead_letters")) == 2


def test_few_records_are_read_as_a_stream_alone(spark: SparkSession, world: World) -> None:
    world.send(0, 20)
    done = run(world.job(HOPS, backlog=1_000), spark)
    assert done.batches > 1
    assert compare(world.job(HOPS), spark).agree


BY_ANOTHER = Windowed(Tumbling("1 minute"), aggs={"n": count()}, time="at")
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "a transform by at": ("a", {"transform": BY_ANOTHER}),
    "sliding windows with windows='all'": (
        "a",
        {"transform": Windowed(Sliding("5s", windows="all"), aggs={"n": count()})},
    ),
    "Stateful, of which": ("a", {"transform": Stateful(lambda rows: rows, late=lambda at: at)}),
    "the sink Snapshot": (
        "a",
        {"sink": Snapshot(table="t", join=lambda rows, _: rows, sink=Append("/nowhere/rows"))},
    ),
    "an Upsert by page": ("a", {"sink": Upsert("/nowhere/rows", keys=["page"])}),
    "backlog is -1": ("a", {"backlog": -1}),
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("says", REFUSED)
def test_what_cannot_be_worked_off_is_refused_by_name(says: str) -> None:
    topics, others = REFUSED[says]
    parts = {
        "name": "refused",
        "inputs": {topic: Input(reading("nowhere:9092", topic)) for topic in topics},
        "sink": Append("/nowhere/rows"),
        "backlog": 0,
    }
    with pytest.raises(ArgumentError, match=says):
        Job(**{**parts, **others})
