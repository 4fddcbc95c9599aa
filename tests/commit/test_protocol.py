"""The commit protocol over thousands of crashes, and the proof that each of its mechanisms is
needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tidegate.commit import protocol as commits
from tidegate.commit.protocol import Look
from tidegate.commit.stamp import Stamp
from tidegate.errors import ConflictError, ReplayMismatchError

from .model import FAULTS, Job, Table, holds, protocol

# A schedule: batches of some size, each with the faults that its commits meet, and now and then a
# foreign checkpoint.
BATCHES = st.tuples(st.integers(1, 4), st.lists(st.sampled_from(FAULTS), max_size=6))
SCHEDULES = st.lists(
    st.tuples(st.sampled_from(["run"] * 5 + ["older checkpoint"]), BATCHES), min_size=1, max_size=6
)
Schedule = list[tuple[Literal["run", "older checkpoint"], Any]]


def play(schedule: Schedule, **broken: Any) -> None:
    """Run a schedule; a batch whose plan is not the table's must be refused, and the job then
    ends."""
    job = Job(Table(), **broken)
    for kind, (size, faults) in schedule:
        if kind == "older checkpoint" and job.number > 0:
            before = job.table.rows()
            job.restore_older_plan(size)
            with pytest.raises(ReplayMismatchError):
                job.run(faults, size)
            assert job.table.rows() == before
            return
        job.run(faults, size)
        holds(job)


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


def test_without_comparing_stamps_other_rows_are_skipped_in_silence() -> None:
    def skips_what_is_done(log: Any, stamp: Stamp) -> str:
        last = log.done(stamp.app_id)
        return "skipped" if last is not None and last >= stamp.batch else protocol(log, stamp)

    with pytest.raises(pytest.fail.Exception, match=r"DID NOT RAISE .*ReplayMismatchError"):
        explore(500, write=skips_what_is_done)()


def test_without_transaction_numbers_a_crash_repeats_rows() -> None:
    def commits_again(log: Any, stamp: Stamp) -> str:
        try:
            log.commit(stamp)
        except ConflictError:
            return commits_again(log, stamp)
        return "written"

    with pytest.raises(AssertionError, match="'r0', 'r0'"):
        explore(500, write=commits_again, keeps_transactions=False)()


def test_without_transaction_numbers_the_look_at_the_log_stops_the_job() -> None:
    with pytest.raises(ReplayMismatchError, match="its number is not in the log"):
        explore(500, keeps_transactions=False)()


def test_with_one_application_id_for_all_steps_the_second_step_passes_for_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Stamp, "app_id", property(lambda stamp: f"{stamp.job}/{stamp.query}"))
    with pytest.raises(ReplayMismatchError, match="the table has batch 0 of j/one"):
        explore(500, query="one")()


def test_without_looking_again_a_lost_answer_is_taken_for_a_failure() -> None:
    def gives_up(log: Any, stamp: Stamp) -> str:
        if not commits._has(log, stamp):
            log.commit(stamp)
        return "written"

    play([("run", (1, ["lost answer"]))])
    with pytest.raises(ConflictError, match="ourselves"):
        play([("run", (1, ["lost answer"]))], write=gives_up)


def test_a_commit_that_the_log_does_not_show_is_not_taken_for_written() -> None:
    class Forgetful:
        def done(self, app_id: str) -> int | None:
            return None

        def stamp(self, app_id: str, number: int) -> Stamp | None:
            return None

        def commit(self, stamp: Stamp, look: Look | None = None) -> None:
            return None

    stamp = Stamp(job="j", query="q", run="r", batch=1, step="s", offsets="o", end={}, rows={})
    with pytest.raises(ReplayMismatchError, match="not in the log"):
        commits.once(Forgetful(), stamp)


def test_conflicts_without_end_are_given_up_after_a_while() -> None:
    pauses: list[float] = []

    class Busy:
        def done(self, app_id: str) -> int | None:
            return None

        def stamp(self, app_id: str, number: int) -> Stamp | None:
            return None

        def commit(self, stamp: Stamp, look: Look | None = None) -> None:
            raise ConflictError("busy")

    stamp = Stamp(job="j", query="q", run="r", batch=1, step="s", offsets="o", end={}, rows={})
    with pytest.raises(ConflictError):
        commits.once(Busy(), stamp, pause=pauses.append)
    assert len(pauses) == commits.ATTEMPTS - 1
    assert sum(pauses) < 5


def test_a_stamp_survives_its_own_text_and_nothing_else_is_one() -> None:
    stamp = Stamp(
        job="j",
        query="q",
        run="r",
        batch=1,
        step="s",
        offsets="o",
        end={"t": {0: 5}},
        rows={"out": 3},
    )
    assert Stamp.parse(stamp.text()) == stamp
    for foreign in (None, "", "{}", "[]", "text", '{"stamp":"tidegate/1"}', '{"stamp":"other"}'):
        assert Stamp.parse(foreign) is None
