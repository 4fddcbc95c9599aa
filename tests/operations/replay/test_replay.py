"""A job is replayed, compared, swapped in and resumed; and swapped back."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.checkpoint_files import THIRD, WINDOWS, JobFiles
from tests.support.delta_tables import rows
from tests.support.kafka_topics import START, pages_input, send_records
from tidegate import Job, compare, replay, run, swap_tables
from tidegate.aggregates import count
from tidegate.errors import ArgumentError, CheckpointError, ComparisonError, SourceError
from tidegate.jobs.job_command import run_replay, run_swap
from tidegate.joins import IntervalJoin
from tidegate.operations.replay.replay import as_replay_job, clamp_offsets, passes_end
from tidegate.sinks import Append, FanOut, MapRows
from tidegate.testing import Broker
from tidegate.transform import Stateless
from tidegate.windows import Hopping, Tumbling, WindowAggregation

pytestmark = pytest.mark.jobs

CHANGED = WindowAggregation(Tumbling("10 seconds"), aggs={"n": count(), "pages": count()})


@pytest.mark.broker
def test_a_changed_job_is_replayed_compared_swapped_in_and_resumed(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job_files = JobFiles.create(spark, broker, topic, tmp_path)
    before = job_files.window_counts()
    new = job_files.job(transform=CHANGED)
    send_records(broker.bootstrap_servers, topic, THIRD)
    with pytest.raises(CheckpointError, match="transform changed from") as refused:
        run(new, spark)
    # What the remedy names is what follows here.
    assert "tidegate replay JOB, which" in refused.value.remedy
    assert "then tidegate replay JOB --swap, which" in refused.value.remedy
    # The topic has more records than the job has read: the replay ends where the job is.
    with pytest.raises(ComparisonError, match="1 differ"):
        run_replay(new, spark, (), as_json=False)
    output = capsys.readouterr().out
    assert "Late only in the job: 1 rows; late only in the replay: 0." in output
    assert "All differences are in windows of these late rows." in output
    assert "Not compared, columns of only one table: pages" in output
    assert job_files.window_counts() == before
    # The job continues meanwhile; the comparison uses its table at the start of the replay.
    run(job_files.job(), spark)
    assert job_files.window_counts() == WINDOWS
    with pytest.raises(ComparisonError):
        run_replay(new, spark, (), as_json=True)
    comparison = json.loads(capsys.readouterr().out)
    differences = comparison["differences"]
    assert (differences["expected_rows"], differences["different"]) == (6, 1)
    assert comparison["late_differences"] == {"job": 1, "replay": 0}
    assert comparison["unexplained_differences"]["different"] == 0
    with pytest.raises(
        CheckpointError, match=r"started with another plan\n.*transform changed from"
    ):
        replay(job_files.job(), spark)
    run_swap(new, spark, back=False)
    run(new, spark)
    # Every record counts once, before and after the end of the replay.
    assert job_files.window_counts() == {**WINDOWS, 0: 3}
    assert job_files.side_rows("late") == {(0, 16): 1}
    assert sorted(at for _, at in job_files.side_rows("dead_letters").elements()) == [2, 10, 17]
    with pytest.raises(CheckpointError, match="already exists"):
        swap_tables(new, spark)
    run_swap(new, spark, back=True)
    assert job_files.window_counts() == WINDOWS
    run(job_files.job(), spark)
    assert job_files.window_counts() == WINDOWS
    with pytest.raises(CheckpointError, match="the replay ends at"):
        replay(new, spark)


@pytest.mark.broker
def test_rows_of_a_stateless_job_are_all_compared_and_swapped(
    spark: SparkSession, job_files: JobFiles
) -> None:
    run(pages(job_files), spark)
    expected = Counter(map(str, rows(job_files.root / "pages")))
    changed = pages(job_files, page="upper(page)")
    comparison = replay(changed, spark)
    assert comparison is not None
    differences = comparison.differences
    assert (differences.missing, differences.extra, comparison.compared_until) == (16, 16, None)
    swap_tables(changed, spark)
    replayed = [str(row).replace("P0", "p0") for row in rows(job_files.root / "pages")]
    assert Counter(replayed) == expected
    dead = rows(job_files.root / "pages.dead_letters", ["offset"])
    assert sorted(row["offset"] for row in dead) == [2, 10, 17]
    assert compare(changed, spark).is_empty


def pages(job_files: JobFiles, page: str = "page") -> Job:
    """Return a stateless job over the same topic."""
    changed = Stateless(lambda pages: pages.selectExpr(f"{page} AS page", "event_time"))
    sink = Append(str(job_files.root / "pages"))
    return job_files.job(name="pages", transform=changed, sink=sink)


@pytest.mark.broker
def test_other_windows_and_new_columns_are_compared(
    spark: SparkSession, job_files: JobFiles
) -> None:
    hopping = WindowAggregation(
        Hopping("10 seconds", "5 seconds"), aggs={"n": count(), "twice": count()}
    )
    comparison = replay(job_files.job(transform=hopping), spark)
    assert comparison is not None
    assert comparison.differences.missing == 0
    assert comparison.differences.extra > 0
    assert comparison.uncompared_columns == ["twice"]


@pytest.mark.broker
def test_deterministic_lateness_has_the_same_late_rows(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, 12, 40, 23, 55, 68, 41, 81, 93])
    job_files = JobFiles(broker, topic, tmp_path, tmp_path)
    by_log = replace(pages_input(broker.bootstrap_servers, topic), watermarks="log")
    job = job_files.job(inputs={"pages": by_log})
    run(job, spark)
    late = {(0, 3): 1, (0, 6): 1}
    assert job_files.side_rows("late") == late
    comparison = replay(job, spark)
    assert comparison is not None
    assert (comparison.differences.is_empty, comparison.late_differences) == (True, (0, 0))
    swap_tables(job, spark)
    assert job_files.side_rows("late") == late


@pytest.mark.broker
def test_a_join_is_replayed_swapped_and_resumed(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    sides = {side: f"{topic}-{side}" for side in ("seen", "bought")}
    names = [broker.create_topic(name, retention_ms=-1) for name in sides.values()]
    for name, seconds in zip(names, ([1, 20, 45, 70, 100], [3, 25, 46, 90, 110]), strict=True):
        send_records(broker.bootstrap_servers, name, seconds)
    job = Job(
        name="bought",
        inputs={side: pages_input(broker.bootstrap_servers, name) for side, name in sides.items()},
        transform=IntervalJoin("page", within=("0 seconds", "10 seconds"), how="left"),
        sink=Append(str(tmp_path / "pairs")),
    )
    run(job, spark)
    before = sorted(map(str, rows(tmp_path / "pairs")))
    comparison = replay(job, spark)
    assert comparison is not None
    assert comparison.differences.is_empty
    assert comparison.differences.expected_rows > 0
    swap_tables(job, spark)
    assert sorted(map(str, rows(tmp_path / "pairs"))) == before
    for name, seconds in zip(names, ([200], [201]), strict=True):
        send_records(broker.bootstrap_servers, name, seconds)
    run(job, spark)
    pairs = [
        ((row["event_time_left"] - START).seconds, row["event_time_right"] is not None)
        for row in rows(tmp_path / "pairs")
    ]
    assert sorted(pairs) == [
        (1, True), (20, True), (45, True), (70, False), (100, True), (200, True)
    ]  # fmt: skip


@pytest.mark.broker
def test_a_job_whose_records_were_deleted_is_not_replayed(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    job_files = JobFiles.create(spark, broker, topic, tmp_path)
    broker.delete_records(topic, {0: 9})
    with pytest.raises(
        SourceError, match=f"deleted records that the job has read: {topic}-0 from offset 0 up to 9"
    ):
        replay(job_files.job(), spark)
    assert not Path(f"{job_files.root}/views.replay").exists()


def example_job(**options: object) -> Job:
    defaults: dict[str, object] = {
        "name": "replayed",
        "inputs": {"pages": pages_input("nowhere:9092", "pages")},
        "sink": Append("/nowhere/rows"),
    }
    return Job(**{**defaults, **options})  # type: ignore[arg-type]


def rows_if_path(frame: DataFrame, path: str) -> DataFrame:
    return frame if path else frame.limit(0)


@pytest.mark.usefixtures("spark")
def test_every_path_of_a_job_is_replaced() -> None:
    sink = FanOut(
        MapRows(rows=partial(rows_if_path, path="/nowhere/b"), sink=Append("/nowhere/a/")),
        other_sinks=[Append("/nowhere/b", output="b")],
    )
    new = as_replay_job(example_job(sink=sink, checkpoint="/nowhere/a/_checkpoint", metrics_port=9))
    assert new.sink.tables() == [("/nowhere/b.replay", "b"), ("/nowhere/a.replay", "append")]
    assert new.locations.checkpoint == "/nowhere/a.replay/_checkpoint"
    assert new.locations.dead_letters.path == "/nowhere/a.dead_letters.replay"
    assert new.metrics_port is None


@pytest.mark.usefixtures("spark")
def test_a_job_with_a_path_in_a_closure_or_an_idle_timeout_is_an_error() -> None:
    path = "/nowhere/rows"
    with pytest.raises(ArgumentError, match="each_batch names /nowhere/rows"):
        as_replay_job(example_job(each_batch=lambda rows: rows_if_path(rows, path)))
    idle = {"pages": replace(pages_input("nowhere:9092", "pages"), idle_timeout="1 minute")}
    with pytest.raises(ArgumentError, match="has an idle timeout"):
        as_replay_job(example_job(inputs=idle, every="1 second"))


def test_jobs_that_cannot_be_swapped_are_errors(spark: SparkSession, tmp_path: Path) -> None:
    job = example_job(sink=Append(f"{tmp_path}/rows"))
    with pytest.raises(CheckpointError, match="no checkpoint"):
        swap_tables(job, spark)
    (tmp_path / "rows.before").mkdir()
    with pytest.raises(CheckpointError, match=r"rows\.before already exists"):
        swap_tables(job, spark)
    with pytest.raises(ArgumentError, match="not on this machine"):
        swap_tables(example_job(sink=Append("s3a://lake/rows")), spark)
    with pytest.raises(CheckpointError, match="has no complete batch"):
        replay(job, spark)


END = {"a": {0: 5, 1: 7}}


def test_a_plan_within_the_end_is_unchanged() -> None:
    plan = [{"a": {0: 5, 1: 6}}, {}]
    assert not passes_end(plan, END)
    assert clamp_offsets(plan, [], END) == plan


def test_a_plan_beyond_the_end_is_limited_and_never_before_its_start() -> None:
    assert passes_end([{"a": {0: 6, 1: 7}}], END)
    assert clamp_offsets([{"a": {0: 6, 1: 2}}], [{"a": {0: 5, 1: 1}}], END) == [{"a": {0: 5, 1: 2}}]
    assert clamp_offsets([{"a": {0: 9, 1: 9}}], [{"a": {0: 8, 1: 7}}], END) == [{"a": {0: 8, 1: 7}}]


def test_a_partition_without_an_end_is_not_read() -> None:
    plan = [{"a": {0: 5, 1: 7, 2: 3}, "b": {0: 4}}]
    assert passes_end(plan, END)
    assert clamp_offsets(plan, [{"a": {2: 1}}], END) == [{"a": {0: 5, 1: 7, 2: 1}, "b": {0: 0}}]
