"""Ten thousand histories of a job, with crashes, zombies and everything older, gone or changed; and
the proof that each mechanism is needed: without it the fault shows that it keeps off."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.commit import known_tables, protocol
from tidegate.commit.known_tables import KnownTables
from tidegate.commit.protocol import CommitLog
from tidegate.commit.stamp import Stamp
from tidegate.errors import FencedError, ReplayMismatchError

from . import guards
from .guards import Whole
from .machine import CRASHES, History, explore, play
from .world import Guards

FOREIGN = (
    "a_backup_is_made",
    "a_part_is_put_back",
    "a_table_is_restored",
    "a_table_is_deleted",
    "the_checkpoint_is_deleted",
    "the_identity_is_deleted",
    "offsets_are_changed",
    "a_commit_is_changed",
    "a_file_of_the_logs_is_removed",
    "the_topic_is_made_again",
    "the_target_is_renamed",
)
TAKING_TURNS = (
    "records_come",
    "a_driver_starts",
    "a_driver_goes_on",
    "the_schema_is_changed",
    "another_driver_runs_in_between",
)


class Crashed(History):
    """Nothing happens but crashes, zombies and lost answers."""

    guards: Callable[[], Guards] = Whole


class Foreign(Crashed):
    """The parts cease to belong together as well."""

    acts = (*CRASHES, *FOREIGN)


class Renamed(Crashed):
    """The job gets another name; with a new checkpoint it would be another job."""

    acts = (*CRASHES, "the_job_is_renamed", "the_target_is_renamed")


class Copied(Crashed):
    """A copy of the checkpoint is used beside it."""

    acts = (
        "records_come",
        "a_driver_starts",
        "a_driver_goes_on",
        "the_checkpoint_is_copied",
        "the_copy_runs",
    )


class Leaving(Crashed):
    """The sink asks for none of its tables where the last one has the batch."""

    leaves = True


class Changed(Crashed):
    """What is a dead letter changes from run to run, and drivers stop right before a commit.

    Only a commit that makes a table has none beside it to meet; so the tables are there.
    """

    acts = TAKING_TURNS

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
        (Leaving, 250),
        (Changed, 250),
    ],
)
def test_no_history_loses_or_repeats_a_record_in_silence(
    machine: type[History], histories: int, part: int
) -> None:
    play(machine, range(part * histories, (part + 1) * histories))


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
        ("topic id", ("the_topic_is_made_again",), r"\d lost, \d doubled after the topic made"),
        ("name", ("the_job_is_renamed",), r"doubled after the job renamed"),
        ("epoch", (), r"\d written by an older driver after crashes alone"),
    ],
)
def test_without_a_mechanism_its_fault_shows(
    mechanism: str, acts: tuple[str, ...], fault: str
) -> None:
    class Without(Crashed):
        guards = staticmethod(lambda: Whole(frozenset([mechanism])))

    Without.acts = (*CRASHES, *acts)
    with pytest.raises(AssertionError, match=fault):
        play(Without, range(1_000))


@pytest.mark.parametrize("noted", [True, False])
def test_without_noting_what_it_found_a_driver_leaves_tables_that_the_next_one_refuses(
    monkeypatch: pytest.MonkeyPatch, noted: bool
) -> None:
    if not noted:
        monkeypatch.setattr(KnownTables, "note_found", lambda *_: None)
    history = Leaving()
    history.drain()
    history.records_come(3)
    history.a_driver_starts(5)
    history.a_driver_starts(4)
    if noted:
        history.drain()
    else:
        with pytest.raises(AssertionError, match=r"refused .* by another driver"):
            history.drain()


@pytest.mark.parametrize("fenced", [True, False])
def test_without_the_epoch_a_zombie_writes_what_the_next_driver_read_otherwise(
    fenced: bool,
) -> None:
    class Zombie(Crashed):
        guards = staticmethod(lambda: Whole(frozenset() if fenced else frozenset(["epoch"])))

    history = Zombie()
    history.a_driver_starts(3)
    history.the_schema_is_changed(1)
    history.a_driver_starts(9)
    history.a_driver_goes_on(1)
    if fenced:
        assert isinstance(history.refusal, FencedError)
        assert "epoch 2: another driver" in str(history.refusal)
        history.drain()
    else:
        with pytest.raises(AssertionError, match="1 doubled after the schema changed"):
            history.drain()


def without_looking_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a table pass that another driver of the same query has written to."""
    for module in (known_tables, guards):
        monkeypatch.setattr(module, "require_alone", lambda *_, **__: None)


def test_without_the_fence_a_driver_that_stops_after_its_look_may_still_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A table that has got such a commit would be refused at the next start.
    without_looking_for_others(monkeypatch)

    class Without(Changed):
        guards = staticmethod(lambda: Whole(frozenset(["fence"])))

    with pytest.raises(AssertionError, match=r"\d written by an older driver, \d doubled after"):
        play(Without, range(1_000))


@pytest.mark.parametrize("looked_for", [True, False])
def test_without_looking_for_others_a_copy_of_the_checkpoint_writes_records_again(
    monkeypatch: pytest.MonkeyPatch, looked_for: bool
) -> None:
    if not looked_for:
        without_looking_for_others(monkeypatch)
    history = Copied()
    history.drain()
    history.the_checkpoint_is_copied(1)
    history.records_come(1)
    history.a_driver_starts(3)
    history.records_come(2)
    # The fifth record is a dead letter of batch 1 here, and of batch 2 where the driver goes on.
    history.the_copy_runs(4)
    history.a_driver_goes_on(9)
    if looked_for:
        assert isinstance(history.refusal, ReplayMismatchError)
        assert "dead has got batch 1" in str(history.refusal)
        history.drain()
    else:
        with pytest.raises(AssertionError, match="1 doubled after a copy of the checkpoint ran"):
            history.drain()


def test_without_comparing_stamps_a_batch_of_other_offsets_passes_for_the_one_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def has(log: CommitLog, stamp: Stamp) -> bool:
        last = log.done(stamp.app_id)
        return last is not None and last >= stamp.batch

    monkeypatch.setattr(protocol, "_has", has)

    history = Crashed()
    history.drain()
    history.a_backup_is_made(1)
    history.records_come(1)
    history.drain()
    history.an_older_checkpoint_is_put_back(1)
    history.records_come(1)
    with pytest.raises(AssertionError, match="1 lost after an older checkpoint"):
        history.drain()
