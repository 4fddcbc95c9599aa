"""Rows that are written to a table as they are read: counted by the write, and committed last."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.delta_tables import is_there, rows
from tests.support.kafka_topics import pages_input, send_records
from tests.support.sink_batches import commits
from tidegate import Job, Limits, run
from tidegate import aggregates as agg
from tidegate.changelogs import Fold
from tidegate.errors import DeadLetterLimitError, TidegateError
from tidegate.joins import LookupJoin, stream_table
from tidegate.jvm import release_checkpointed_rows
from tidegate.sinks import Append, FanOut, Projection, Sink, SnapshotJoin, Upsert
from tidegate.sinks.event_sourcing import StateTable
from tidegate.testing import Broker, CrashError, crash_after
from tidegate.transform import Stateful, Stateless
from tidegate.windows import Deduplication, Tumbling, WindowAggregation

NAMES = {"p0": "Home", "p1": "Help"}


def create_names(spark: SparkSession, root: Path) -> Path:
    """Create a table of the names of pages."""
    spark.createDataFrame(list(NAMES.items()), "page string, name string").write.format(
        "delta"
    ).save(str(root / "names"))
    return root / "names"


def job(servers: str, topic: str, sink: Sink, **options: Any) -> Job:
    pages = pages_input(servers, topic, max_records=4)
    return Job(**{"name": "as-read", "inputs": {"pages": pages}, "sink": sink, **options})


def counts(table: Path) -> list[dict[str, int]]:
    """Return the row counts in each batch's commit."""
    recorded = [json.loads(each["userMetadata"]) for each in commits(str(table))]
    return [each["rows"] for each in recorded if "rows" in each]


def by_function(events: DataFrame, table: DataFrame) -> DataFrame:
    return stream_table(events, table, "page")


@pytest.mark.usefixtures("spark")
def test_jobs_without_state_write_rows_as_they_are_read() -> None:
    plain = Append("/t/rows")
    looked_up = SnapshotJoin(table="/t/names", join=LookupJoin("page"), sink=plain)

    def as_read(sink: Sink, **others: Any) -> bool:
        return job("s:1", "pages", sink, **others).streams_to_sink

    same = Stateless(lambda frame: frame, one_to_one=True)
    assert as_read(plain)
    assert as_read(plain, transform=Stateless(lambda frame: frame.where("page = 'p0'")))
    assert as_read(looked_up)
    assert as_read(looked_up, transform=same)
    # The number of rows of the query would be unknown.
    assert not as_read(looked_up, transform=Stateless(lambda frame: frame))
    # These may read the rows more than once.
    assert not as_read(SnapshotJoin(table="/t/names", join=by_function, sink=plain))
    assert not as_read(plain, each_batch=lambda frame: frame.union(frame))
    assert not as_read(FanOut(plain, other_sinks=[Append("/t/too", output="too")]))
    assert not as_read(Upsert("/t/rows", keys=["page"]))
    first = Deduplication("page", "9 seconds", max_delay="3 seconds")
    assert not as_read(plain, transform=first)
    assert not as_read(plain, transform=Stateful(lambda frame: frame, late_from=lambda time: time))
    # A backfill has no state.
    assert job("s:1", "pages", plain, transform=first).writes_while_computing
    assert not job("s:1", "pages", Upsert("/t/rows", keys=["page"])).writes_while_computing


@pytest.mark.broker
@pytest.mark.jobs
@pytest.mark.parametrize("kind", ["as they are", "looked up", "by a function"])
def test_rows_and_counts_do_not_depend_on_how_rows_are_written(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, kind: str
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, "bad", 2, 3, 4], 0)
    send_records(broker.bootstrap_servers, topic, [1, 2, "no", "bad", 3], 1)
    sink: Sink = Append(str(tmp_path / "rows"))
    if kind != "as they are":
        join = LookupJoin("page") if kind == "looked up" else by_function
        sink = SnapshotJoin(table=str(create_names(spark, tmp_path)), join=join, sink=sink)
    pages = job(broker.bootstrap_servers, topic, sink)
    done = run(pages, spark)
    assert (done.rows_in, done.dead_letters) == (10, 3)
    found = rows(tmp_path / "rows")
    assert sorted((row["page"], row["event_time"].second) for row in found) == [
        *(("p0", second) for second in (1, 2, 3, 4)),
        *(("p1", second) for second in (1, 2, 3)),
    ]
    if kind != "as they are":
        assert {(row["page"], row["name"]) for row in found} == set(NAMES.items())
    assert len(rows(tmp_path / "rows.dead_letters")) == 3
    recorded = counts(tmp_path / "rows")
    assert sum(each["in"] for each in recorded) == 10
    assert sum(each["dead_letters"] for each in recorded) == 3
    assert len(recorded) == 3
    # The number of rows of a function is not known before the commit.
    assert sum(each.get("out", 0) for each in recorded) == (0 if kind == "by a function" else 7)


@pytest.mark.broker
@pytest.mark.jobs
def test_too_many_dead_letters_leave_no_commit_and_no_file(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, "bad", 2, "bad"], 0)
    flooded = job(
        broker.bootstrap_servers, topic, Append(str(tmp_path / "rows")), limits=Limits(dead_rows=1)
    )
    for _ in range(2):
        with pytest.raises(DeadLetterLimitError):
            run(flooded, spark)
        assert not is_there(tmp_path / "rows")
        assert list(tmp_path.rglob("part-*.parquet")) == []
    run(job(broker.bootstrap_servers, topic, Append(str(tmp_path / "rows"))), spark)
    assert len(rows(tmp_path / "rows")) == 2


@pytest.mark.broker
@pytest.mark.jobs
@pytest.mark.parametrize("table", ["rows", "rows.dead_letters"])
def test_a_job_that_crashes_after_a_commit_writes_each_row_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, table: str
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, "bad", 2, 3, 4, "bad"], 0)
    pages = job(broker.bootstrap_servers, topic, Append(str(tmp_path / "rows")))
    with crash_after(tmp_path / table, batch=0), pytest.raises((CrashError, TidegateError)):
        run(pages, spark)
    assert is_there(tmp_path / "rows") == (table == "rows")
    done = run(pages, spark)
    assert done.skipped_batches == (1 if table == "rows" else 0)
    assert sorted(row["event_time"].second for row in rows(tmp_path / "rows")) == [1, 2, 3, 4]
    assert len(rows(tmp_path / "rows.dead_letters")) == 2


@pytest.mark.broker
@pytest.mark.jobs
def test_a_batch_without_good_rows_does_not_commit_to_the_target(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, 2], 0)
    pages = job(broker.bootstrap_servers, topic, Append(str(tmp_path / "rows")))
    run(pages, spark)
    send_records(broker.bootstrap_servers, topic, ["bad"], 0)
    assert run(pages, spark).dead_letters == 1
    send_records(broker.bootstrap_servers, topic, [3], 0)
    run(pages, spark)
    assert len(rows(tmp_path / "rows.dead_letters")) == 1
    assert sorted(row["event_time"].second for row in rows(tmp_path / "rows")) == [1, 2, 3]
    written = [each for each in counts(tmp_path / "rows") if each["out"]]
    assert counts(tmp_path / "rows") == written
    assert len(written) == 2


@pytest.mark.broker
@pytest.mark.jobs
@pytest.mark.parametrize("losses", [1, 4])
def test_a_batch_is_written_again_if_rows_were_lost_with_an_executor(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    losses: int,
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, 2, 3], 0)
    seen = Fold(
        key="page",
        type_column="page",
        initial={"times": (0, "BIGINT")},
        handlers={"p0": {"times": "state.times + 1"}},
    )
    raise_faults = StateTable.raise_faults
    calls: list[DataFrame] = []

    def raise_faults_after_loss(self: StateTable, rows: DataFrame) -> None:
        raise_faults(self, rows)
        calls.append(rows)
        if len(calls) <= losses:
            release_checkpointed_rows(rows)

    monkeypatch.setattr(StateTable, "raise_faults", raise_faults_after_loss)
    job_input = replace(
        pages_input(broker.bootstrap_servers, topic), kafka_columns=["topic", "partition", "offset"]
    )
    folded = Projection(str(tmp_path / "rows"), fold=seen)
    pages = job(broker.bootstrap_servers, topic, folded, inputs={"pages": job_input})
    if losses > 3:
        with pytest.raises(TidegateError, match="find out why executors are lost"):
            run(pages, spark)
        return
    run(pages, spark)
    assert len(calls) == 2
    assert [row["times"] for row in rows(tmp_path / "rows")] == [3]
    assert len([each for each in counts(tmp_path / "rows") if each["in"]]) == 1


@pytest.mark.jobs
@pytest.mark.broker
def test_the_results_of_a_sort_aggregate_are_written(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, 2, 3, 11, 31], 0)
    send_records(broker.bootstrap_servers, topic, [1, 31], 1)
    # The last text of a window has no fixed size, so Spark sorts the rows to aggregate them.
    last = WindowAggregation(Tumbling("10 seconds"), by=(), aggs={"page": agg.last("page")})
    run(job(broker.bootstrap_servers, topic, Append(str(tmp_path / "rows")), transform=last), spark)
    assert [row["page"] for row in rows(tmp_path / "rows")] == ["p0", "p0"]
