"""Random histories of one job, and the comparison of its tables after each."""

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

from tests.support.commit_explorer import (
    OUTPUTS,
    PARTS,
    Checkpoint,
    Commit,
    Config,
    Guards,
    Run,
    World,
)
from tidegate.errors import CheckpointError, SourceError, TableMismatchError, TidegateError

REFUSALS = (CheckpointError, TableMismatchError, SourceError)
CRASHES = (
    "records_come",
    "a_driver_starts",
    "a_driver_continues",
    "all_drivers_are_killed",
    "an_answer_is_lost",
    "another_driver_runs_in_between",
    "the_job_is_drained",
)
_ENOUGH = 60
"""More events than any run has until the topic is drained."""


class History(RuleBasedStateMachine):
    """The history of one job, as a sequence of acts.

    A driver that never continues was killed; one that continues after another start is a zombie.

    guards: the checks under test. acts: the names of the methods to draw from.
    skips_written_batches: whether the sink skips a batch that its last table has.
    """

    guards: Callable[[], Guards]
    acts: tuple[str, ...] = CRASHES
    skips_written_batches = False

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
        """Perform one act, unless the job was refused."""
        if not self.refused:
            getattr(self, act)(number)

    def records_come(self, number: int) -> None:
        self.world.records += number

    def a_driver_starts(self, steps: int) -> None:
        self.drivers.append(self.start())
        self.step(-1, steps)

    def a_driver_continues(self, number: int) -> None:
        if self.drivers:
            self.step(number % len(self.drivers), number)

    def all_drivers_are_killed(self, number: int) -> None:
        self.drivers.clear()

    def an_answer_is_lost(self, number: int) -> None:
        self.world.answers_lost = 1

    def another_driver_runs_in_between(self, number: int) -> None:
        """Another driver runs to the end between the checks of a commit and the commit."""

        def meanwhile() -> None:
            self.drivers.append(self.start())
            self.step(-1, _ENOUGH)

        self.world.meanwhile = meanwhile

    def the_job_is_drained(self, number: int) -> None:
        self.drain()

    def the_checkpoint_is_copied(self, number: int) -> None:
        self.other = copy.deepcopy(self.world.checkpoint)

    def the_copy_runs(self, number: int) -> None:
        """The drivers of the checkpoint itself continue afterwards."""
        if self.other is not None:
            self.happened.append("a copy of the checkpoint ran")
            original, self.world.checkpoint = self.world.checkpoint, self.other
            with suppress(TidegateError):
                for _ in islice(self.start(), number):
                    pass
            self.other, self.world.checkpoint = self.world.checkpoint, original

    def a_backup_is_made(self, number: int) -> None:
        for part, copies in self.backups.items():
            copies.append(self.world.back_up(part))

    def a_part_is_restored(self, number: int) -> None:
        part = PARTS[number % len(PARTS)]
        if self.backups[part]:
            self.foreign(f"an older {part}")
            self.world.restore(part, self.backups[part][number % len(self.backups[part])])

    def an_older_checkpoint_is_restored(self, number: int) -> None:
        self.a_part_is_restored(0)

    def a_table_is_restored(self, number: int) -> None:
        """By Delta's RESTORE, which leaves the transaction versions."""
        name = self.config.table(OUTPUTS[number % len(OUTPUTS)])
        table = self.world.tables.get(name)
        if table is not None and len(table.commits) > 1:
            self.foreign(f"a RESTORE of {name}")
            restored = number % (len(table.commits) - 1)
            table.commits.append(Commit(self.world.new_name("commit"), restores=restored))

    def a_table_is_deleted(self, number: int) -> None:
        """Also while a driver is running."""
        name = self.config.table(OUTPUTS[number % len(OUTPUTS)])
        if self.world.tables.pop(name, None) is not None:
            self.happened.append(f"{name} deleted")

    def the_checkpoint_is_deleted(self, number: int) -> None:
        if self.world.checkpoint is not None:
            self.foreign("the checkpoint deleted")
            self.world.checkpoint = None

    def the_lineage_is_deleted(self, number: int) -> None:
        if self.world.checkpoint is not None and self.world.checkpoint.lineages:
            self.foreign("the lineage files deleted")
            self.world.checkpoint.lineages.clear()

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

    def the_topic_is_recreated(self, number: int) -> None:
        self.foreign(f"the topic recreated with {number} records")
        self.world.topic, self.world.records = self.world.topic + 1, number

    def the_job_is_renamed(self, number: int) -> None:
        self.foreign("the job renamed")
        self.config = replace(self.config, job=f"{self.config.job}{number}")

    def the_target_is_renamed(self, number: int) -> None:
        self.foreign("the target renamed")
        self.config = replace(self.config, target=f"append{number}")

    def the_schema_is_changed(self, number: int) -> None:
        """Other records become dead letters; running drivers keep the old schema."""
        self.happened.append("the schema changed")
        self.config = replace(self.config, schema=self.config.schema + number)

    def _log(self, name: str) -> dict[int, bytes]:
        files = self.world.checkpoint
        return {} if files is None else getattr(files, name)

    def _recorded_commits(self) -> Collection[int]:
        """Return the commits in the newest lineage."""
        files = self.world.checkpoint
        written = [each for _, each in sorted(files.lineages.items()) if each] if files else []
        return written[-1].commit_hashes if written else ()

    def _change(self, name: str, number: int) -> None:
        """Change a digit of a recorded file, or of the plan after it."""
        files = self._log(name)
        batches = [at for at in files if name == "offsets" or at in self._recorded_commits()]
        if batches:
            at = sorted(batches)[-1 - number % min(2, len(batches))]
            changed = _other_digit(files[at], number)
            if changed != files[at]:
                self.foreign(f"{name}/{at} changed")
                files[at] = changed

    def start(self) -> Iterator[str]:
        return Run(
            self.world, self.config, type(self).guards(), self.skips_written_batches
        ).events()

    def foreign(self, event: str) -> None:
        """Remember an event that is not a crash, and kill all drivers."""
        self.drivers.clear()
        self.happened.append(event)

    def step(self, driver: int, steps: int) -> None:
        """Continue a driver; a refused one has died, and `refusal` is its error."""
        current = self.drivers[driver]
        try:
            for _ in range(steps):
                next(current)
        except (TidegateError, StopIteration) as end:
            self.refusal = end if isinstance(end, TidegateError) else None
            self.drivers = [each for each in self.drivers if each is not current]

    def drain(self) -> None:
        """Start the job, run it to the end, and compare."""
        self.drivers.clear()
        self.world.answers_lost, self.world.meanwhile = 0, None
        rows_before = self.world.rows()
        refusal = self.run_to_the_end()
        if refusal is None:
            self.compare()
        else:
            assert self.happened, f"refused without a reason: {refusal}"
            assert self.world.rows() == rows_before, f"refused after it wrote: {refusal}"
            self.refused = True

    def run_to_the_end(self) -> TidegateError | None:
        """Start the job, and return its refusal or None."""
        try:
            for _ in self.start():
                pass
        except REFUSALS as refusal:
            return refusal
        return None

    def compare(self) -> None:
        """Require each record in one table, once, and none in the late table."""
        tables = self.world.rows()
        # After a rename of the target only the new one counts.
        tables = {name: tables.get(self.config.table(name), Counter()) for name in OUTPUTS}
        expected = Counter(f"{self.world.topic}.{n}" for n in range(self.world.records))
        actual = sum(tables.values(), Counter[str]())
        faults = {
            "written by an older driver": len(self.world.outdated),
            "lost": (expected - actual).total(),
            "doubled": (actual - expected).total(),
            "wrongly late": tables.get("late", Counter[str]()).total(),
        }
        summary = ", ".join(f"{number} {name}" for name, number in faults.items() if number)
        assert not summary, f"{summary} after {', '.join(self.happened) or 'crashes alone'}"

    def teardown(self) -> None:
        if not self.refused:
            self.drain()


def _other_digit(content: bytes, number: int) -> bytes:
    """Change one of the significant numbers in a file of the logs."""
    pattern = rb'("batchWatermarkMs": |"nextBatchWatermarkMs":|"0":)(\d+)'
    matches = list(re.finditer(pattern, content))
    chosen = matches[number % len(matches)]
    value = b"%d" % (int(chosen[2]) + 1 + number % 2)
    return content[: chosen.start(2)] + value + content[chosen.end(2) :]


def explore(machine: type[History], histories: int) -> None:
    """Draw histories with hypothesis, which shrinks a failing one."""
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


def play(machine: type[History], seeds: range, steps: int = 8) -> int:
    """Play the histories of some seeds; 20 times as fast as histories of hypothesis.

    Returns the number of histories whose job was not refused and whose tables were compared.
    """
    compared = 0
    for seed in seeds:
        chance = random.Random(seed)
        drawn = [(chance.choice(machine.acts), chance.randint(1, 9)) for _ in range(steps)]
        history = machine()
        try:
            for act, number in drawn:
                history.happens(act, number)
            history.teardown()
            compared += not history.refused
        except BaseException as error:
            error.add_note(f"seed {seed}: {drawn}")
            raise
    return compared
