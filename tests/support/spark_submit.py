"""A job in a spark-submit process group, run to its end or killed, or in the test session."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.support.crash_leftovers import Left, Point, left, traces, written
from tests.support.spark_session import configured
from tidegate import Summary, run
from tidegate.jobs import BUILT_IN_JOBS
from tidegate.spark.jars import project_root
from tidegate.testing.child_process import (
    SHORT_RUN_OPTIONS,
    GuardedProcess,
    config_arguments,
    spark_submit_command,
    submit_environment,
    wait_until,
)

_LONGEST_SECONDS = 300.0


@dataclass(frozen=True)
class SubmittedJob:
    """A job of jobs/ with its options, its tables below `root`, and the log of all runs."""

    name: str
    root: Path
    log: Path
    options: Mapping[str, object]

    def run(self) -> dict[str, Any]:
        """Run the job until it has read its topics, and return its summary."""
        summary_file = self.log.with_suffix(".json")
        process = self.started("--summary", str(summary_file))
        try:
            wait_until(
                lambda: not process.is_alive, timeout=_LONGEST_SECONDS, event="the job's end"
            )
        finally:
            process.kill()
        assert summary_file.exists(), f"the job failed; end of its log:\n{process.tail(40)}"
        summary: dict[str, Any] = json.loads(summary_file.read_text(encoding="utf-8"))
        return summary

    def finished(self, spark: SparkSession) -> Summary:
        """Run the job until it has read its topics, in this session, which saves the start of a
        process; it resumes from what a previous process left."""
        built_in = BUILT_IN_JOBS[self.name]
        options = {**self.options, "output.root": self.root}
        return run(built_in.build(configured(built_in.model, options)), spark)

    def killed_when(self, there: Callable[[], bool], what: str, *arguments: str) -> None:
        """Run the job, and kill its process group with SIGKILL as soon as a condition is true."""
        process = self.started(*arguments)
        try:
            at_once(lambda: there() or not process.is_alive, what=what)
            assert process.is_alive, (
                f"the job ended before {what}; end of its log:\n{process.tail(40)}"
            )
        finally:
            process.kill()

    def killed_at(self, table: str, *arguments: str, skip: int = 0) -> None:
        """Kill the job as soon as the log of a table has its next commit, after `skip` others."""
        log = self.root / table / "_delta_log"
        before = written(log)
        self.killed_when(
            lambda: len(written(log) - before) > skip, f"a commit in {table}", *arguments
        )

    def killed(self, point: Point, skip: int = 0) -> Left:
        """Kill the job page_views when a batch reaches a point, after `skip` others, and return
        what it left."""
        before = traces(self.root, point)
        self.killed_when(
            lambda: len(traces(self.root, point) - before) > skip, f"a batch {point!r}"
        )
        return left(self.root)

    def started(self, *arguments: str) -> GuardedProcess:
        """Start the job and return its process."""
        script = project_root() / "jobs" / f"{self.name}.py"
        options = config_arguments({"output.root": self.root, **self.options})
        return GuardedProcess(
            spark_submit_command(
                script,
                *arguments,
                *options,
                conf={"spark.ui.enabled": "false"},
                jvm_options=SHORT_RUN_OPTIONS,
            ),
            self.log,
            name="the job",
            env=submit_environment(),
        )


def at_once(check: Callable[[], bool], *, what: str) -> None:
    """Wait for a condition that is true for a few milliseconds only, by polling."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not check():
        assert time.monotonic() < deadline, (
            f"{what} did not occur within {_LONGEST_SECONDS:g} seconds"
        )
        time.sleep(0.0005)
