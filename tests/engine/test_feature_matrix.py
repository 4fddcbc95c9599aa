"""Checkpoints, tables and topics of different times: each record once, or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoint_files import FIRST, SECOND, JobFiles
from tests.support.event_clock import (
    RECORDS,
    SNAPSHOT_NAMES,
    JobSnapshots,
    Record,
    data_files,
    require_each_once,
)
from tests.support.kafka_topics import send_records
from tidegate import run
from tidegate.errors import CheckpointError, SourceError, TableMismatchError, TidegateError
from tidegate.process.exit_codes import exit_code
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]
INCONSISTENT = (CheckpointError, TableMismatchError)
READ = {"none": 0, "first": len(FIRST), "second": len(FIRST) + len(SECOND)}
"""The number of records that are read and written in a snapshot."""
ALL = dict(enumerate(RECORDS))


@pytest.fixture(scope="session")
def snapshots(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> JobSnapshots:
    return JobSnapshots.create(spark, broker, "snapshots", tmp_path_factory.mktemp("snapshots"))


def outcome(
    job_files: JobFiles, spark: SparkSession, *, resume: bool = False
) -> TidegateError | None:
    """Run the job; return the preflight error, if any, before which nothing was written."""
    before = data_files(job_files.root)
    try:
        run(job_files.job(), spark, resume_from_table=resume)
    except TidegateError as error:
        refusal = error
    else:
        return None
    assert data_files(job_files.root) == before, f"written before it was refused: {refusal}"
    return refusal


def is_consistent(checkpoint: str, target: str, side_tables: str) -> bool:
    """Return whether a run, or a crash between its commits, leaves these snapshots.

    The run after "unfinished" writes another batch after the one that it finishes, so the tables
    of "third" are two batches ahead.
    """
    if checkpoint == "unfinished":
        return target in ("second", "unfinished") and side_tables in ("second", "unfinished")
    return checkpoint == target == side_tables


def require_all_or_error(job_files: JobFiles, spark: SparkSession, *, consistent: bool) -> None:
    """Require each record once, or an error if the snapshots are not consistent."""
    refusal = outcome(job_files, spark)
    if consistent:
        assert refusal is None, refusal
    if refusal is None:
        require_each_once(job_files, ALL)
    else:
        assert isinstance(refusal, INCONSISTENT), refusal
        assert exit_code(refusal) == 5


@pytest.mark.parametrize("tables", SNAPSHOT_NAMES)
@pytest.mark.parametrize("checkpoint", SNAPSHOT_NAMES)
def test_a_checkpoint_with_tables_of_another_time_has_each_record_once_or_raises(
    snapshots: JobSnapshots, spark: SparkSession, tmp_path: Path, checkpoint: str, tables: str
) -> None:
    job_files = snapshots.combine(tmp_path / "cell", checkpoint, tables, tables)
    require_all_or_error(job_files, spark, consistent=is_consistent(checkpoint, tables, tables))


@pytest.mark.parametrize(
    ("checkpoint", "target", "side_tables"),
    [
        (checkpoint, *tables)
        for checkpoint in ("none", "second", "unfinished", "third")
        for other in SNAPSHOT_NAMES
        if other != checkpoint
        for tables in ((other, checkpoint), (checkpoint, other))
    ],
)
def test_a_target_with_side_tables_of_another_time_has_each_record_once_or_raises(
    snapshots: JobSnapshots,
    spark: SparkSession,
    tmp_path: Path,
    checkpoint: str,
    target: str,
    side_tables: str,
) -> None:
    job_files = snapshots.combine(tmp_path / "cell", checkpoint, target, side_tables)
    require_all_or_error(
        job_files, spark, consistent=is_consistent(checkpoint, target, side_tables)
    )


@pytest.mark.parametrize(("tables", "lost"), [("first", [30]), ("second", [70]), ("third", [])])
def test_a_lost_checkpoint_resumes_from_tables_of_any_time(
    snapshots: JobSnapshots, spark: SparkSession, tmp_path: Path, tables: str, lost: list[int]
) -> None:
    job_files = snapshots.combine(tmp_path / "cell", "none", tables, tables)
    assert outcome(job_files, spark, resume=True) is None
    # A late row of a window that is dropped is in no table.
    require_each_once(job_files, ALL, without=[*lost, 0])


Change = Callable[[Broker, str], None]


def delete_before(first: int) -> Change:
    """Delete the records of a topic before an offset."""
    return lambda broker, topic: broker.delete_records(topic, {0: first})


def recreate(records: Iterable[Record]) -> Change:
    """Delete a topic and create it again with other records."""

    def change(broker: Broker, topic: str) -> None:
        if topic in broker.topics():
            broker.delete_topic(topic)
        broker.create_topic(topic, partitions=1, retention_ms=-1)
        send_records(broker.bootstrap_servers, topic, records)

    return change


def delete(broker: Broker, topic: str) -> None:
    broker.delete_topic(topic)


FEW: list[Record] = [3, 17, 45]
MANY: list[Record] = [float(second) for second in range(0, 60, 2)]
TOPICS: list[tuple[str, Change, dict[int, Record] | None, set[str]]] = [
    (
        "read records deleted",
        delete_before(5),
        {at: ALL[at] for at in ALL if at >= 5},
        set(SNAPSHOT_NAMES[1:]),
    ),
    (
        "unread records deleted",
        delete_before(16),
        {at: ALL[at] for at in ALL if at >= 16},
        {"third"},
    ),
    ("re-created with few", recreate(FEW), dict(enumerate(FEW)), set()),
    ("re-created with the same", recreate(RECORDS), ALL, set()),
    ("re-created with more", recreate(MANY), dict(enumerate(MANY)), set()),
    ("deleted", delete, None, set()),
]
"""Changes of the topic, its records afterwards, and the snapshots that can continue."""


@pytest.mark.timeout(900)
def test_a_topic_with_deleted_records_or_re_created_is_read_from_its_start_or_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """A single test, because changes of a topic cannot be undone."""
    snapshots = JobSnapshots.create(spark, broker, "snapshots-of-a-topic", tmp_path / "snapshots")
    for number, (name, change, remaining, can_continue) in enumerate(TOPICS):
        change(broker, snapshots.job_files.topic)
        for snapshot in SNAPSHOT_NAMES:
            for resume in (False, True):
                if resume and snapshot in ("none", "unfinished"):
                    continue
                cell = f"{name}, {snapshot}{', resumed' if resume else ''}"
                checkpoint = "none" if resume else snapshot
                job_files = snapshots.combine(
                    tmp_path / f"{number}-{snapshot}-{resume}", checkpoint, snapshot, snapshot
                )
                refusal = outcome(job_files, spark, resume=resume)
                print(f"{cell}: {type(refusal).__name__}: {str(refusal)[:150]}")
                if refusal is not None:
                    assert isinstance(refusal, SourceError), f"{cell}: {refusal}"
                    assert exit_code(refusal) == 3
                    assert snapshot not in can_continue, cell
                    assert snapshot != "none" or remaining is None, cell
                elif snapshot == "none":
                    assert remaining is not None, f"{cell}: not refused"
                    require_each_once(job_files, remaining)
                else:
                    assert snapshot in can_continue, f"{cell}: not refused"
                    lost = {"first": [30], "second": [70]}.get(snapshot, [])
                    require_each_once(job_files, ALL, without=[*lost, 0] if resume else ())
