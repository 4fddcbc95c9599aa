"""Thousands of histories of one job: what happens is drawn, and then the tables are compared."""

from __future__ import annotations

import copy
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tidegate.errors import CheckpointError, ReplayMismatchError, SourceError, TidegateError

from .world import PARTS, STEPS, Checkpoint, Commit, Config, Guards, Run, World

REFUSALS = (CheckpointError, ReplayMismatchError, SourceError)
CRASHES = (
    "records_come",
    "a_driver_starts",
    "a_driver_goes_on",
    "all_drivers_are_killed",
    "an_answer_is_lost",
    "another_driver_runs_in_between",
    "the_job_is_drained",
)
_ENOUGH = 60
"""More steps than any run takes until the topic is drained."""


class History(RuleBasedStateMachine):
    """One job's life, in which one thing happens after another.

    A driver that never goes on was killed; one that goes on after another has begun is a zombie.

    guards: what is tested. acts: what may happen, by the names of methods. leaves: whether the
    sink leaves a batch that its last table has.
    """

    guards: Callable[[], Guards]
    acts: tuple[str, ...] = CRASHES
    leaves = False

    def __init__(self) -> None:
        super().__init__()
        self.world = World(records=2)
        self.config = Config()
        self.drivers: list[Iterator[str]] = []
        self.other: Checkpoint | None = None
        self.backups: dict[str, list[object]] = {part: [] for part in PARTS}
        self.happened: list[str] = []
        self.refused = False
        self.refusal: TidegateError | None = None

    @rule(
        act=st.runner().flatmap(lambda history: st.sampled_from(history.acts)),
        number=st.integers(1, 9),
    )
    def happens(self, act: str, number: int) -> None:
        """Let one thing happen; after a refusal nothing does."""
        if not self.refused:
            getattr(self, act)(number)

    def records_come(self, number: int) -> None:
        self.world.records += number

    def a_driver_starts(self, steps: int) -> None:
        self.drivers.append(self.start())
        self.step(-1, steps)

    def a_driver_goes_on(self, number: int) -> None:
        if self.drivers:
            self.step(number % len(self.drivers), number)

    def all_drivers_are_killed(self, number: int) -> None:
        self.drivers.clear()

    def an_answer_is_lost(self, number: int) -> None:
        self.world.answers_lost = 1

    def another_driver_runs_in_between(self, number: int) -> None:
        """Between a driver's look at a table and its commit another one runs to the end."""

        def meanwhile() -> None:
            self.drivers.append(self.start())
            self.step(-1, _ENOUGH)

        self.world.meanwhile = meanwhile

    def the_job_is_drained(self, number: int) -> None:
        self.drain()

    def the_checkpoint_is_copied(self, number: int) -> None:
        self.other = copy.deepcopy(self.world.checkpoint)

    def the_copy_runs(self, number: int) -> None:
        """Drivers of the checkpoint itself go on afterwards."""
        if self.other is not None:
            self.happened.append("a copy of the checkpoint ran")
            mine, self.world.checkpoint = self.world.checkpoint, self.other
            with suppress(TidegateError):
                for _ in islice(self.start(), number):
                    pass
            self.other, self.world.checkpoint = self.world.checkpoint, mine

    def a_backup_is_made(self, number: int) -> None:
        for part, copies in self.backups.items():
            copies.append(self.world.copy_of(part))

    def a_part_is_put_back(self, number: int) -> None:
        part = PARTS[number % len(PARTS)]
        if self.backups[part]:
            self.foreign(f"an older {part}")
            self.world.put(part, self.backups[part][number % len(self.backups[part])])

    def an_older_checkpoint_is_put_back(self, number: int) -> None:
        self.a_part_is_put_back(0)

    def a_table_is_restored(self, number: int) -> None:
        """By Delta's own RESTORE, which leaves the numbers as they are."""
        name = self.config.table(STEPS[number % len(STEPS)])
        table = self.world.tables.get(name)
        if table is not None and len(table.commits) > 1:
            self.foreign(f"a RESTORE of {name}")
            back = number % (len(table.commits) - 1)
            table.commits.append(Commit(self.world.name("commit"), restores=back))

    def a_table_is_deleted(self, number: int) -> None:
        """Also under a driver that runs."""
        name = self.config.table(STEPS[number % len(STEPS)])
        if self.world.tables.pop(name, None) is not None:
            self.happened.append(f"{name} deleted")

    def the_checkpoint_is_deleted(self, number: int) -> None:
        if self.world.checkpoint is not None:
            self.foreign("the checkpoint deleted")
            self.world.checkpoint = None

    def the_identity_is_deleted(self, number: int) -> None:
        if self.world.checkpoint is not None and self.world.checkpoint.identities:
            self.foreign("the identity files deleted")
            self.world.checkpoint.identities.clear()

    def offsets_are_changed(self, number: int) -> None:
        self._change("offsets", number)

    def a_commit_is_changed(self, number: int) -> None:
        self._change("commits", number)

    def a_file_of_the_logs_is_removed(self, number: int) -> None:
        files = self._log("offsets" if number % 2 else "commits")
        if files:
            newest = max(files)
            self.foreign(f"the newest of the {'offsets' if number % 2 else 'commits'} removed")
            del files[newest]

    def the_topic_is_made_again(self, number: int) -> None:
        self.foreign(f"the topic made again with {number} records")
        self.world.topic, self.world.records = self.world.topic + 1, number

    def the_job_is_renamed(self, number: int) -> None:
        self.foreign("the job renamed")
        self.config = replace(self.config, job=f"{self.config.job}{number}")

    def the_target_is_renamed(self, number: int) -> None:
        self.foreign("the target renamed")
        self.config = replace(self.config, target=f"append{number}")

    def the_schema_is_changed(self, number: int) -> None:
        """Which records are dead letters changes; what runs goes on with the old one."""
        self.happened.append("the schema changed")
        self.config = replace(self.config, plan=self.config.plan + number)

    def _log(self, name: str) -> dict[int, bytes]:
        files = self.world.checkpoint
        return {} if files is None else getattr(files, name)

    def _noted(self) -> Collection[int]:
        """Return the commits that the newest identity knows."""
        files = self.world.checkpoint
        whole = [each for _, each in sorted(files.identities.items()) if each] if files else []
        return whole[-1].commits if whole else ()

    def _change(self, name: str, number: int) -> None:
        """Change a digit of a file that is noted, or of a plan that follows from one that is."""
        files = self._log(name)
        noted = [at for at in files if name == "offsets" or at in self._noted()]
        if noted:
            at = sorted(noted)[-1 - number % min(2, len(noted))]
            changed = _other_digit(files[at], number)
            if changed != files[at]:
                self.foreign(f"{name}/{at} changed")
                files[at] = changed

    def start(self) -> Iterator[str]:
        return Run(self.world, self.config, type(self).guards(), self.leaves).steps()

    def foreign(self, what: str) -> None:
        """Note something that no crash does; what runs then is killed."""
        self.drivers.clear()
        self.happened.append(what)

    def step(self, driver: int, steps: int) -> None:
        """Let a driver go on; one that is refused has died, and `refusal` says of what."""
        mine = self.drivers[driver]
        try:
            for _ in range(steps):
                next(mine)
        except (TidegateError, StopIteration) as end:
            self.refusal = end if isinstance(end, TidegateError) else None
            self.drivers = [each for each in self.drivers if each is not mine]

    def drain(self) -> None:
        """Start anew, run to the end, and compare."""
        self.drivers.clear()
        self.world.answers_lost, self.world.meanwhile = 0, None
        before = self.world.rows()
        refusal = self.run_to_the_end()
        if refusal is None:
            self.compare()
        else:
            assert self.happened, f"refused without a reason: {refusal}"
            assert self.world.rows() == before, f"refused after it wrote: {refusal}"
            self.refused = True

    def run_to_the_end(self) -> TidegateError | None:
        """Start anew, and return the refusal where there is one."""
        try:
            for _ in self.start():
                pass
        except REFUSALS as refusal:
            return refusal
        return None

    def compare(self) -> None:
        """Require each record in one table, once, and none in the late table."""
        tables = self.world.rows()
        # A target of another name is a table that nobody reads any more.
        tables = {name: tables.get(self.config.table(name), Counter()) for name in STEPS}
        wanted = Counter(f"{self.world.topic}.{n}" for n in range(self.world.records))
        found = sum(tables.values(), Counter[str]())
        faults = {
            "written by an older driver": len(self.world.outdated),
            "lost": (wanted - found).total(),
            "doubled": (found - wanted).total(),
            "wrongly late": tables.get("late", Counter[str]()).total(),
        }
        told = ", ".join(f"{number} {name}" for name, number in faults.items() if number)
        assert not told, f"{told} after {', '.join(self.happened) or 'crashes alone'}"

    def teardown(self) -> None:
        if not self.refused:
            self.drain()


def _other_digit(content: bytes, number: int) -> bytes:
    """Change the last digit of one of the numbers that count in a file of the logs."""
    pattern = rb'("batchWatermarkMs": |"nextBatchWatermarkMs":|"0":)(\d+)'
    found = list(re.finditer(pattern, content))
    chosen = found[number % len(found)]
    value = b"%d" % (int(chosen[2]) + 1 + number % 2)
    return content[: chosen.start(2)] + value + content[chosen.end(2) :]


def explore(machine: type[History], histories: int) -> None:
    """Let hypothesis draw so many histories, and make a failing one short."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=8,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )


def play(machine: type[History], seeds: range, steps: int = 8) -> None:
    """Play the histories of some seeds, each in a twentieth of the time that a drawn one takes."""
    for seed in seeds:
        chance = random.Random(seed)
        drawn = [(chance.choice(machine.acts), chance.randint(1, 9)) for _ in range(steps)]
        history = machine()
        try:
            for act, number in drawn:
                history.happens(act, number)
            history.teardown()
        except BaseException as error:
            error.add_note(f"seed {seed}: {drawn}")
            raise
