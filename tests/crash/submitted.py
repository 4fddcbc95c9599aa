"""A job by spark-submit, in a process group of its own, killed at a point or run to its end; the
same job in the tests' session."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidegate.runtime.config.job_config import Config
from tidegate.runtime.process.installation import project_root
from tidegate.runtime.process.submit import QUICK, command, environment, with_options
from tidegate.runtime.query.run import run
from tidegate.runtime.summary import Summary
from tidegate.testing.process import GuardedProcess, until

from ..configured import configured
from .left import Left, Point, left, traces, written

_LONGEST_SECONDS = 300.0


@dataclass(frozen=True)
class SubmittedJob:
    """A job of jobs/ with its options, its tables below `root`, and one log of all its runs."""

    name: str
    root: Path
    log: Path
    options: Mapping[str, object]

    def run(self) -> dict[str, Any]:
        """Run the job until it has drained its topics, and give its summary."""
        numbers = self.log.with_suffix(".json")
        process = self.started("--summary", str(numbers))
        try:
            until(lambda: not process.alive, within=_LONGEST_SECONDS, what="the job's end")
        finally:
            process.kill()
        assert numbers.exists(), f"the job failed; its last words:\n{process.tail(40)}"
        summary: dict[str, Any] = json.loads(numbers.read_text(encoding="utf-8"))
        return summary

    def finished(self, spark: SparkSession) -> Summary:
        """Run the job until it has drained its topics, in this session: what a process left is gone
        on with, without the time that another one takes to start."""
        module = import_module(f"jobs.{self.name}")
        (model,) = {
            each
            for each in vars(module).values()
            if isinstance(each, type) and issubclass(each, Config) and each.name == self.name
        }
        given = {**self.options, "output.root": self.root}
        return run(module.job(configured(model, given)), spark)

    def killed_when(self, there: Callable[[], bool], what: str, *arguments: str) -> None:
        """Run the job, and kill its whole group with SIGKILL the moment that something is there."""
        process = self.started(*arguments)
        try:
            at_once(lambda: there() or not process.alive, what=what)
            assert process.alive, (
                f"the job ended before {what}; its last words:\n{process.tail(40)}"
            )
        finally:
            process.kill()

    def killed_at(self, table: str, *arguments: str, skip: int = 0) -> None:
        """Kill the job the moment that its next commit is in the log of a table, or one some
        commits later."""
        log = self.root / table / "_delta_log"
        before = written(log)
        self.killed_when(
            lambda: len(written(log) - before) > skip, f"a commit in {table}", *arguments
        )

    def killed(self, point: Point, skip: int = 0) -> Left:
        """Kill the page views job the moment that a batch reaches a point, and give what was left.

        So many batches are let past the point first.
        """
        before = traces(self.root, point)
        self.killed_when(
            lambda: len(traces(self.root, point) - before) > skip, f"a batch {point!r}"
        )
        return left(self.root)

    def started(self, *arguments: str) -> GuardedProcess:
        """Start the job, and give its process."""
        script = project_root() / "jobs" / f"{self.name}.py"
        options = with_options({"output.root": self.root, **self.options})
        return GuardedProcess(
            command(script, *arguments, *options, conf={"spark.ui.enabled": "false"}, java=QUICK),
            self.log,
            name="the job",
            env=environment(),
        )


def at_once(check: Callable[[], bool], *, what: str) -> None:
    """Wait for something that lasts a few milliseconds only: looked for without a pause that
    counts."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not check():
        assert time.monotonic() < deadline, (
            f"{what} did not come within {_LONGEST_SECONDS:g} seconds"
        )
        time.sleep(0.0005)
