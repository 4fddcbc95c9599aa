"""Rows that go from a topic to a table as they are read: counted on the way, and committed last."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.changes import Fold
from tidegate.errors import DeadLetterFloodError, TidegateError
from tidegate.joins import Lookup, stream_table
from tidegate.jvm import release
from tidegate.runtime.job import Input, Job
from tidegate.runtime.limits import Limits
from tidegate.runtime.query.run import run
from tidegate.sinks import Append, FanOut, Folded, Sink, Snapshot, Upsert
from tidegate.sinks._states import StateTable
from tidegate.testing import Broker, CrashError, crash_after
from tidegate.transform import Stateful, Stateless
from tidegate.windows import Deduplication

from ..sinks.batches import commits
from ..tables import is_there, rows
from .topics import reading, sent

NAMES = {"p0": "Home", "p1": "Help"}


def named(spark: SparkSession, root: Path) -> Path:
    """Make a table of the pages' names."""
    spark.createDataFrame(list(NAMES.items()), "page string, name string").write.format(
        "delta"
    ).save(str(root / "names"))
    return root / "names"


def job(servers: str, topic: str, sink: Sink, **others: Any) -> Job:
    given = Input(reading(servers, topic, max_rows=4))
    return Job(**{"name": "as-read", "inputs": {"pages": given}, "sink": sink, **others})


def counts(table: Path) -> list[dict[str, int]]:
    """Return what each batch's commit says of its rows."""
    said = [json.loads(each["userMetadata"]) for each in commits(str(table))]
    return [each["rows"] for each in said if "rows" in each]


def by_function(events: DataFrame, table: DataFrame) -> DataFrame:
    return stream_table(events, table, "page")


@pytest.mark.usefixtures("spark")
def test_which_jobs_write_their_rows_as_they_are_read() -> None:
    plain = Append("/t/rows")
    looked_up = Snapshot(table="/t/names", join=Lookup("page"), sink=plain)

    def as_read(sink: Sink, **others: Any) -> bool:
        return job("s:1", "pages", sink, **others).written_as_read

    same = Stateless(lambda frame: frame, one_to_one=True)
    assert as_read(plain)
    assert as_read(plain, transform=Stateless(lambda frame: frame.where("page = 'p0'")))
    assert as_read(looked_up)
    assert as_read(looked_up, transform=same)
    # How many rows the query gave could not be told.
    assert not as_read(looked_up, transform=Stateless(lambda frame: frame))
    # Such a function, and each of these, may read the rows more than once.
    assert not as_read(Snapshot(table="/t/names", join=by_function, sink=plain))
    assert not as_read(plain, each_batch=lambda frame: frame.union(frame))
    assert not as_read(FanOut(plain, also=[Append("/t/too", step="too")]))
    assert not as_read(Upsert("/t/rows", keys=["page"]))
    first = Deduplication("page", "9 seconds", hold="3 seconds")
    assert not as_read(plain, transform=first)
    assert not as_read(plain, transform=Stateful(lambda frame: frame, late=lambda time: time))
    # A backlog keeps no state.
    assert job("s:1", "pages", plain, transform=first).written_as_computed
    assert not job("s:1", "pages", Upsert("/t/rows", keys=["page"])).written_as_computed


@pytest.mark.broker
@pytest.mark.jobs
@pytest.mark.parametrize("kind", ["as they are", "looked up", "by a function"])
def test_rows_and_counts_are_those_of_rows_that_are_kept(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, kind: str
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    sent(broker.servers, topic, [1, "bad", 2, 3, 4], 0)
    sent(broker.servers, topic, [1, 2, "no", "bad", 3], 1)
    sink: Sink = Append(str(tmp_path / "rows"))
    if kind != "as they are":
        join = Lookup("page") if kind == "looked up" else by_function
        sink = Snapshot(table=str(named(spark, tmp_path)), join=join, sink=sink)
    pages = job(broker.servers, topic, sink)
    done = run(pages, spark)
    assert (done.rows_in, done.dead) == (10, 3)
    found = rows(tmp_path / "rows")
    assert sorted((row["page"], row["event_time"].second) for row in found) == [
        *(("p0", second) for second in (1, 2, 3, 4)),
        *(("p1", second) for second in (1, 2, 3)),
    ]
    if kind != "as they are":
        assert {(row["page"], row["name"]) for row in found} == set(NAMES.items())
    assert len(rows(tmp_path / "rows.dead_letters")) == 3
    said = counts(tmp_path / "rows")
    assert sum(each["in"] for each in said) == 10
    assert sum(each["dead"] for each in said) == 3
    assert len(said) == 3
    # How many rows a function made is not known before the commit.
    assert sum(each.get("out", 0) for each in said) == (0 if kind == "by a function" else 7)


@pytest.mark.broker
@pytest.mark.jobs
def test_a_flood_leaves_no_commit_and_no_file(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    sent(broker.servers, topic, [1, "bad", 2, "bad"], 0)
    flooded = job(broker.servers, topic, Append(str(tmp_path / "rows")), limits=Limits(dead_rows=1))
    for _ in range(2):
        with pytest.raises(DeadLetterFloodError):
            run(flooded, spark)
        assert not is_there(tmp_path / "rows")
        assert list(tmp_path.rglob("part-*.parquet")) == []
    run(job(broker.servers, topic, Append(str(tmp_path / "rows"))), spark)
    assert len(rows(tmp_path / "rows")) == 2


@pytest.mark.broker
@pytest.mark.jobs
@pytest.mark.parametrize("table", ["rows", "rows.dead_letters"])
def test_a_job_that_dies_after_a_commit_goes_on_with_each_row_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, table: str
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    sent(broker.servers, topic, [1, "bad", 2, 3, 4, "bad"], 0)
    pages = job(broker.servers, topic, Append(str(tmp_path / "rows")))
    with crash_after(tmp_path / table, batch=0), pytest.raises((CrashError, TidegateError)):
        run(pages, spark)
    assert is_there(tmp_path / "rows") == (table == "rows")
    done = run(pages, spark)
    assert done.skipped == (1 if table == "rows" else 0)
    assert sorted(row["event_time"].second for row in rows(tmp_path / "rows")) == [1, 2, 3, 4]
    assert len(rows(tmp_path / "rows.dead_letters")) == 2


@pytest.mark.broker
@pytest.mark.jobs
def test_a_batch_without_a_good_row_is_no_commit_of_the_target(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    sent(broker.servers, topic, [1, 2], 0)
    pages = job(broker.servers, topic, Append(str(tmp_path / "rows")))
    run(pages, spark)
    sent(broker.servers, topic, ["bad"], 0)
    assert run(pages, spark).dead == 1
    sent(broker.servers, topic, [3], 0)
    run(pages, spark)
    assert len(rows(tmp_path / "rows.dead_letters")) == 1
    assert sorted(row["event_time"].second for row in rows(tmp_path / "rows")) == [1, 2, 3]
    written = [each for each in counts(tmp_path / "rows") if each["out"]]
    assert counts(tmp_path / "rows") == written
    assert len(written) == 2


@pytest.mark.broker
@pytest.mark.jobs
@pytest.mark.parametrize("losses", [1, 4])
def test_a_batch_is_written_anew_where_rows_were_lost_with_an_executor(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    losses: int,
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    sent(broker.servers, topic, [1, 2, 3], 0)
    seen = Fold(
        key="page",
        kind="page",
        initial={"times": (0, "BIGINT")},
        on={"p0": {"times": "state.times + 1"}},
    )
    require_sound = StateTable.require_sound
    asked: list[DataFrame] = []

    def lost(self: StateTable, rows: DataFrame) -> None:
        require_sound(self, rows)
        asked.append(rows)
        if len(asked) <= losses:
            release(rows)

    monkeypatch.setattr(StateTable, "require_sound", lost)
    given = Input(replace(reading(broker.servers, topic), keep=["topic", "partition", "offset"]))
    folded = Folded(str(tmp_path / "rows"), fold=seen)
    pages = job(broker.servers, topic, folded, inputs={"pages": given})
    if losses > 3:
        with pytest.raises(TidegateError, match="see why executors are lost"):
            run(pages, spark)
        return
    run(pages, spark)
    assert len(asked) == 2
    assert [row["times"] for row in rows(tmp_path / "rows")] == [3]
    assert len([each for each in counts(tmp_path / "rows") if each["in"]]) == 1
