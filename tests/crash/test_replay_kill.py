"""A killed replay resumes, and a killed swap is finished before its job starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoint_files import THIRD, WINDOWS, JobFiles
from tests.support.delta_tables import rows
from tests.support.kafka_topics import send_records
from tests.support.killed_steps import AFTER_TARGET, Step, kill_at
from tests.support.record_rounds import windows_job
from tidegate import replay, run
from tidegate.errors import CheckpointError, TidegateError
from tidegate.operations.replay.swap import swap_tables
from tidegate.testing import Broker, CrashError, crash_after

pytestmark = [pytest.mark.broker, pytest.mark.crash]

PROGRAM = """
import sys
from pathlib import Path

from tests.support.record_rounds import windows_job
from tidegate import spark_session
from tidegate.jobs.job_command import run_replay, run_swap
from tidegate.process.exit_codes import run_with_exit_code

servers, topic, root, operation = sys.argv[1:]
spark = spark_session("killed", master="local[2]")
job = windows_job(servers, topic, Path(root))
operations = {
    "replay": lambda: run_replay(job, spark, (), as_json=True),
    "in": lambda: run_swap(job, spark, back=False),
    "back": lambda: run_swap(job, spark, back=True),
}
sys.exit(run_with_exit_code(operations[operation]))
"""
MANIFEST = Step("tidegate.operations.replay.replay:load_or_create_manifest")
CLAIMED = Step("tidegate.commit.driver_lease:DriverLease.acquire")
SIDE_WRITTEN = Step("tidegate.commit.delta_commit:DeltaCommitter.commit")
PLAN_DELETED = Step("tidegate.operations.replay.replay:AtomicFiles.delete")
PLAN_TRUNCATED = Step("tidegate.operations.replay.replay:_truncate_plan")
NOT_RELEASED = Step("tidegate.commit.driver_lease:DriverLease.release", before=True)
NOT_COMPARED = Step("tidegate.operations.replay.replay:compare_tables", before=True)
OWN_CLAIMED = Step("tidegate.operations.offline_lease:OfflineLease.acquire")
BOTH_CLAIMED = Step("tidegate.operations.offline_lease:OfflineLease.acquire", 2)
JOURNALED = Step("tidegate.operations.replay.swap:write_swap_journal")
RENAMED = Step("pathlib:Path.rename")
NOT_ENDED = Step("pathlib:Path.unlink", before=True)
ENDED = Step("pathlib:Path.unlink")


def test_a_killed_replay_resumes_and_a_killed_swap_is_finished(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_files = JobFiles.create(spark, broker, topic, tmp_path)
    new = job_files.job()
    deaths = [("views.dead_letters.replay", 0), ("views.replay", 0), ("views.replay", 1)]
    for number, (table, batch) in enumerate(deaths):
        # Records after the first start are beyond the end, and lengthen the next plan.
        place = job_files.root / table
        with crash_after(place, batch=batch), pytest.raises((CrashError, TidegateError)):
            replay(new, spark)
        send_records(broker.bootstrap_servers, topic, THIRD[number : number + 1])
        with pytest.raises(CheckpointError, match=r"has not ended|replay ends at"):
            swap_tables(new, spark)
    found = replay(new, spark)
    assert found is not None
    assert (
        found.differences.expected_rows,
        found.differences.different,
        found.differences.missing,
    ) == (6, 1, 0)

    rename = Path.rename
    for step in (0, 1, 2):
        remaining = step

        def rename_or_crash(source: Path, target: Path) -> Path:
            nonlocal remaining
            remaining -= 1
            if remaining < 0:
                raise CrashError(str(source))
            return rename(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", rename_or_crash)
            with pytest.raises(CrashError):
                swap_tables(new, spark)
    with pytest.raises(CheckpointError, match=r"^the swap of the tables of .* is incomplete"):
        run(new, spark)
    with pytest.raises(CheckpointError, match="a swap in the other direction is unfinished"):
        swap_tables(new, spark, back=True)
    swap_tables(new, spark)
    send_records(broker.bootstrap_servers, topic, THIRD[3:])
    run(new, spark)
    assert job_files.window_counts() == {**WINDOWS, 0: 3}
    assert job_files.side_rows("late") == {(0, 16): 1}


@pytest.mark.timeout(900)
@pytest.mark.draws(
    "steps",
    short=[(AFTER_TARGET, PLAN_DELETED)],
    long=[
        (MANIFEST, CLAIMED, SIDE_WRITTEN, AFTER_TARGET, AFTER_TARGET),
        (PLAN_DELETED, PLAN_TRUNCATED, SIDE_WRITTEN, NOT_RELEASED, NOT_COMPARED),
    ],
    ids=lambda steps: f"{len(steps)} kills",
)
def test_a_replay_that_is_killed_at_each_step_compares_as_one_that_is_not(
    steps: tuple[Step, ...], spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    job_files = JobFiles.create(spark, broker, topic, tmp_path)
    undisturbed = job_files.copy_to(tmp_path / "copy")
    # Records beyond the end: the last batch of three records is truncated.
    send_records(servers, topic, THIRD)
    expected = replay(windows_job(servers, topic, undisturbed.root), spark)
    job = windows_job(servers, topic, job_files.root)
    for step in steps:
        arguments = (servers, topic, str(job_files.root), "replay")
        kill_at(step, *arguments, log=tmp_path / "log", program=PROGRAM)
        if step != NOT_COMPARED:
            with pytest.raises(CheckpointError, match=r"has not ended|replay ends at"):
                swap_tables(job, spark)
    found = replay(job, spark)
    assert found is not None
    assert expected is not None
    paths = {"target": expected.target, "replay_target": expected.replay_target}
    assert replace(found, **paths) == expected  # type: ignore[arg-type]
    for name in ("", ".dead_letters", ".late"):
        replayed, wanted = (
            sorted(map(str, rows(files.root / f"views{name}.replay")))
            for files in (job_files, undisturbed)
        )
        assert replayed == wanted
    swap_tables(job, spark)
    run(job, spark)
    assert job_files.window_counts() == {**WINDOWS, 0: 3}


@pytest.mark.timeout(900)
@pytest.mark.draws(
    "steps",
    short=[(BOTH_CLAIMED,)],
    long=[(OWN_CLAIMED, BOTH_CLAIMED, JOURNALED, RENAMED, RENAMED, NOT_ENDED, ENDED)],
    ids=lambda steps: f"{len(steps)} kills",
)
def test_a_swap_and_a_swap_back_are_finished_after_a_kill_at_each_step(
    steps: tuple[Step, ...], spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    job_files = JobFiles.create(spark, broker, topic, tmp_path)
    job = job_files.job()
    replay(job, spark)
    for direction in ("in", "back"):
        for step in steps:
            kill_at(
                step,
                *(broker.bootstrap_servers, topic, str(job_files.root), direction),
                log=tmp_path / "log",
                program=PROGRAM,
            )
            if step in (JOURNALED, RENAMED, NOT_ENDED):
                with pytest.raises(CheckpointError, match="is incomplete"):
                    run(job, spark)
        if steps[-1] != ENDED:
            swap_tables(job, spark, back=direction == "back")
        send_records(broker.bootstrap_servers, topic, THIRD if direction == "in" else [111])
        run(job, spark)
        # To the replay, which is one batch, only the late record of the third run is late.
        difference = {0: 3} if direction == "in" else {100: 1}
        assert job_files.window_counts() == {**WINDOWS, **difference}
        assert not list(job_files.root.glob("*.swap.json"))
