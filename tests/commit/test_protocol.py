"""The commit protocol over thousands of crashes; without each mechanism a fault occurs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.commit_model import FAULTS, Job, Table, protocol, require_exactly_once
from tidegate.commit import protocol as commits
from tidegate.commit.batch import Stamp
from tidegate.commit.protocol import CommitHook
from tidegate.errors import ConflictError, TableMismatchError

# A schedule: batches with their sizes and the faults of their commits, and older checkpoints.
BATCHES = st.tuples(st.integers(1, 4), st.lists(st.sampled_from(FAULTS), max_size=6))
SCHEDULES = st.lists(
    st.tuples(st.sampled_from(["run"] * 5 + ["older checkpoint"]), BATCHES), min_size=1, max_size=6
)
Schedule = list[tuple[Literal["run", "older checkpoint"], Any]]


def play(schedule: Schedule, **broken: Any) -> None:
    """Run a schedule up to the first older checkpoint, which must be refused."""
    job = Job(Table(), **broken)
    for kind, (size, faults) in schedule:
        if kind == "older checkpoint" and job.number > 0:
            rows_before = job.table.rows()
            job.restore_older_plan(size)
            with pytest.raises(TableMismatchError):
                job.run(faults, size)
            assert job.table.rows() == rows_before
            return
        job.run(faults, size)
        require_exactly_once(job)


def explore(examples: int, **broken: Any) -> Callable[[], None]:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        derandomize=bool(broken),
        report_multiple_bugs=False,
    )
    @given(SCHEDULES)
    def schedules(schedule: Schedule) -> None:
        play(schedule, **broken)

    return schedules


@pytest.mark.slow
def test_no_schedule_of_crashes_loses_or_repeats_a_row() -> None:
    explore(3_000)()


def test_without_comparing_stamps_other_rows_are_silently_skipped() -> None:
    def skip_by_number(log: Any, stamp: Stamp) -> str:
        last_batch = log.last_batch(stamp.app_id)
        is_written = last_batch is not None and last_batch >= stamp.batch
        return "skipped" if is_written else protocol(log, stamp)

    with pytest.raises(pytest.fail.Exception, match=r"DID NOT RAISE .*TableMismatchError"):
        explore(500, write=skip_by_number)()


def test_without_transaction_numbers_a_crash_repeats_rows() -> None:
    def commit_until_answered(log: Any, stamp: Stamp) -> str:
        try:
            log.commit(stamp)
        except ConflictError:
            return commit_until_answered(log, stamp)
        return "written"

    with pytest.raises(AssertionError, match="'r0', 'r0'"):
        explore(500, write=commit_until_answered, keeps_transactions=False)()


def test_without_transaction_numbers_the_check_after_the_write_stops_the_job() -> None:
    with pytest.raises(TableMismatchError, match=r"has rows of batch 0 of .*, but not its number"):
        explore(500, keeps_transactions=False)()


def test_with_one_application_id_for_all_outputs_the_second_output_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Stamp, "app_id", property(lambda stamp: f"{stamp.job}/{stamp.query}"))
    with pytest.raises(TableMismatchError, match="the table has batch 0 of j/one"):
        explore(500, query="one")()


def test_without_a_retry_a_lost_answer_is_a_failure() -> None:
    def write_without_retry(log: Any, stamp: Stamp) -> str:
        if not commits._is_committed(log, stamp):
            log.commit(stamp)
        return "written"

    play([("run", (1, ["lost answer"]))])
    with pytest.raises(ConflictError, match="lost answer"):
        play([("run", (1, ["lost answer"]))], write=write_without_retry)


def test_a_commit_that_the_log_lacks_does_not_count_as_written() -> None:
    class ForgetfulLog:
        def last_batch(self, app_id: str) -> int | None:
            return None

        def find_stamp(self, app_id: str, batch: int) -> Stamp | None:
            return None

        def commit(self, stamp: Stamp, before_commit: CommitHook | None = None) -> None:
            return None

    stamp = Stamp(
        job="j", query="q", run="r", batch=1, output="s", offsets_hash="o", end={}, row_counts={}
    )
    with pytest.raises(TableMismatchError, match="not in the log"):
        commits.commit_exactly_once(ForgetfulLog(), stamp)


def test_endless_conflicts_fail_after_all_attempts() -> None:
    pauses: list[float] = []

    class BusyLog:
        def last_batch(self, app_id: str) -> int | None:
            return None

        def find_stamp(self, app_id: str, batch: int) -> Stamp | None:
            return None

        def commit(self, stamp: Stamp, before_commit: CommitHook | None = None) -> None:
            raise ConflictError("busy")

    stamp = Stamp(
        job="j", query="q", run="r", batch=1, output="s", offsets_hash="o", end={}, row_counts={}
    )
    with pytest.raises(ConflictError):
        commits.commit_exactly_once(BusyLog(), stamp, sleep=pauses.append)
    assert len(pauses) == commits.ATTEMPTS - 1
    assert sum(pauses) < 5


def test_a_stamp_is_read_as_it_was_written_and_other_metadata_is_ignored() -> None:
    stamp = Stamp(
        job="j",
        query="q",
        run="r",
        batch=1,
        output="s",
        offsets_hash="o",
        end={"t": {0: 5}},
        row_counts={"out": 3},
    )
    assert Stamp.from_json(stamp.to_json()) == stamp
    incomplete = '{"format":"tidegate commit/1"}'
    for other in (None, "", "{}", "[]", "text", incomplete, '{"format":"other"}'):
        assert Stamp.from_json(other) is None
