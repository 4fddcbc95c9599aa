"""Thousands of histories of a job with crashes, zombies, and old, missing or changed parts.

Each mechanism is also left out once, to show the fault that it prevents.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import commit_guards
from tests.support.commit_explorer import Guards
from tests.support.commit_guards import AllGuards
from tests.support.commit_state_machine import CRASHES, History, explore, play
from tidegate.commit import driver_lease, protocol
from tidegate.commit.batch import Stamp
from tidegate.commit.driver_lease import DriverLease
from tidegate.commit.protocol import CommitLog
from tidegate.errors import FencedError, TableMismatchError

FOREIGN = (
    "a_backup_is_made",
    "a_part_is_restored",
    "a_table_is_restored",
    "a_table_is_deleted",
    "the_checkpoint_is_deleted",
    "the_lineage_is_deleted",
    "offsets_are_changed",
    "a_commit_is_changed",
    "a_file_of_the_logs_is_removed",
    "the_topic_is_recreated",
    "the_target_is_renamed",
)
INTERLEAVED = (
    "records_come",
    "a_driver_starts",
    "a_driver_continues",
    "the_schema_is_changed",
    "another_driver_runs_in_between",
)


class Crashed(History):
    """Only crashes, zombies and lost answers."""

    guards: Callable[[], Guards] = AllGuards


class Foreign(Crashed):
    """Also parts that do not belong together."""

    acts = (*CRASHES, *FOREIGN)


class Renamed(Crashed):
    """The job or its target is renamed; with a new checkpoint it would be another job."""

    acts = (*CRASHES, "the_job_is_renamed", "the_target_is_renamed")


class Copied(Crashed):
    """A copy of the checkpoint is used as well."""

    acts = (
        "records_come",
        "a_driver_starts",
        "a_driver_continues",
        "the_checkpoint_is_copied",
        "the_copy_runs",
    )


class Skipping(Crashed):
    """The sink makes no commit if its last table has the batch."""

    skips_written_batches = True


class Changed(Crashed):
    """The schema changes from run to run, and drivers stop right before a commit.

    The tables exist, because the commit that creates a table cannot have a conflict.
    """

    acts = INTERLEAVED

    def __init__(self) -> None:
        super().__init__()
        self.drain()


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize(
    ("machine", "histories"),
    [
        (Crashed, 500),
        (Foreign, 1_500),
        (Renamed, 250),
        (Copied, 250),
        (Skipping, 250),
        (Changed, 250),
    ],
)
def test_no_history_silently_loses_or_repeats_a_record(
    machine: type[History], histories: int, part: int
) -> None:
    assert play(machine, range(part * histories, (part + 1) * histories)) > 0


@pytest.mark.parametrize("machine", [Crashed, Foreign])
def test_hypothesis_finds_no_history_that_loses_or_repeats_a_record(machine: type[History]) -> None:
    explore(machine, 100)


@pytest.mark.parametrize(
    ("mechanism", "acts", "fault"),
    [
        ("table identity", ("a_table_is_deleted",), r"\d lost after \w+ deleted"),
        ("table identity", ("a_table_is_restored",), r"\d lost after a RESTORE of"),
        ("offsets hash", ("offsets_are_changed",), r"\d lost after offsets/\d changed"),
        ("commits hash", ("a_commit_is_changed",), r"wrongly late after commits/\d changed"),
        ("owner", ("the_checkpoint_is_deleted",), r"doubled after the checkpoint deleted"),
        ("plan hash", ("the_schema_is_changed",), r"doubled after the schema changed"),
        ("topic id", ("the_topic_is_recreated",), r"\d lost, \d doubled after the topic recreated"),
        ("name", ("the_job_is_renamed",), r"doubled after the job renamed"),
        ("epoch", (), r"\d written by an older driver after crashes alone"),
    ],
)
def test_without_a_mechanism_its_fault_occurs(
    mechanism: str, acts: tuple[str, ...], fault: str
) -> None:
    class Without(Crashed):
        guards = staticmethod(lambda: AllGuards(frozenset([mechanism])))

    Without.acts = (*CRASHES, *acts)
    with pytest.raises(AssertionError, match=fault):
        play(Without, range(1_000))


@pytest.mark.parametrize("recorded", [True, False])
def test_without_recording_existing_tables_the_next_driver_refuses_them(
    monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    if not recorded:
        monkeypatch.setattr(DriverLease, "record_existing_tables", lambda *_: None)
    history = Skipping()
    history.drain()
    history.records_come(3)
    history.a_driver_starts(5)
    history.a_driver_starts(4)
    if recorded:
        history.drain()
    else:
        with pytest.raises(AssertionError, match=r"refused .* by another driver"):
            history.drain()


@pytest.mark.parametrize("fenced", [True, False])
def test_without_the_epoch_a_zombie_writes_records_that_the_next_driver_writes_elsewhere(
    fenced: bool,
) -> None:
    class Zombie(Crashed):
        guards = staticmethod(lambda: AllGuards(frozenset() if fenced else frozenset(["epoch"])))

    history = Zombie()
    history.a_driver_starts(3)
    history.the_schema_is_changed(1)
    history.a_driver_starts(9)
    history.a_driver_continues(1)
    if fenced:
        assert isinstance(history.refusal, FencedError)
        assert "epoch 2: another driver" in str(history.refusal)
        history.drain()
    else:
        with pytest.raises(AssertionError, match="1 doubled after the schema changed"):
            history.drain()


def disable_single_writer_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept tables that another driver of the same query has written to."""
    for module in (driver_lease, commit_guards):
        monkeypatch.setattr(module, "require_single_writer", lambda *_, **__: None)


def test_without_the_fence_a_driver_that_stops_after_its_checks_can_still_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The next start would refuse a table with such a commit.
    disable_single_writer_check(monkeypatch)

    class Without(Changed):
        guards = staticmethod(lambda: AllGuards(frozenset(["fence"])))

    with pytest.raises(AssertionError, match=r"\d written by an older driver, \d doubled after"):
        play(Without, range(1_000))


@pytest.mark.parametrize("checked", [True, False])
def test_without_the_single_writer_check_a_copy_of_the_checkpoint_repeats_records(
    monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    if not checked:
        disable_single_writer_check(monkeypatch)
    history = Copied()
    history.drain()
    history.the_checkpoint_is_copied(1)
    history.records_come(1)
    history.a_driver_starts(3)
    history.records_come(2)
    # The fifth record is a dead letter of batch 1 here, and of batch 2 for the driver.
    history.the_copy_runs(4)
    history.a_driver_continues(9)
    if checked:
        assert isinstance(history.refusal, TableMismatchError)
        assert "dead has batch 1" in str(history.refusal)
        history.drain()
    else:
        with pytest.raises(AssertionError, match="1 doubled after a copy of the checkpoint ran"):
            history.drain()


def test_without_comparing_stamps_a_batch_of_other_offsets_counts_as_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def has_number(log: CommitLog, stamp: Stamp) -> bool:
        last_batch = log.last_batch(stamp.app_id)
        return last_batch is not None and last_batch >= stamp.batch

    monkeypatch.setattr(protocol, "_is_committed", has_number)

    history = Crashed()
    history.drain()
    history.a_backup_is_made(1)
    history.records_come(1)
    history.drain()
    history.an_older_checkpoint_is_restored(1)
    history.records_come(1)
    with pytest.raises(AssertionError, match="1 lost after an older checkpoint"):
        history.drain()
