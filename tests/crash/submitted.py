"""jobs/page_views.py by spark-submit, in a process group of its own: run to its end, or killed at a point."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.runtime.paths import project_root
from lib.runtime.submit import QUICK, command, environment, with_options
from lib.testing.process import GuardedProcess, until

from .left import Left, Point, left, traces

_LONGEST_SECONDS = 300.0


@dataclass(frozen=True)
class PageViewsJob:
    """The job with its options, its tables below `root`, and one log of all its runs."""

    root: Path
    log: Path
    options: Mapping[str, object]

    def run(self) -> dict[str, Any]:
        """Run the job until it has drained its topic, and give its summary."""
        numbers = self.log.with_suffix(".json")
        process = self._start("--summary", str(numbers))
        try:
            until(lambda: not process.alive, within=_LONGEST_SECONDS, what="the job's end")
        finally:
            process.kill()
        assert numbers.exists(), f"the job failed; its last words:\n{process.tail(40)}"
        summary: dict[str, Any] = json.loads(numbers.read_text(encoding="utf-8"))
        return summary

    def killed(self, point: Point, skip: int = 0) -> Left:
        """Run the job, kill its whole group with SIGKILL the moment a batch reaches a point, and give what was left.

        So many batches are let past the point first.
        """
        before = traces(self.root, point)
        process = self._start()
        try:
            at_once(
                lambda: len(traces(self.root, point) - before) > skip or not process.alive, what=f"a batch {point!r}"
            )
            assert process.alive, f"the job ended before a batch was {point!r}; its last words:\n{process.tail(40)}"
        finally:
            process.kill()
        return left(self.root)

    def _start(self, *arguments: str) -> GuardedProcess:
        script = project_root() / "jobs" / "page_views.py"
        options = with_options({"output.root": self.root, **self.options})
        return GuardedProcess(
            command(script, *arguments, *options, conf={"spark.ui.enabled": "false"}, java=QUICK),
            self.log,
            name="the job",
            env=environment(),
        )


def at_once(check: Callable[[], bool], *, what: str) -> None:
    """Wait for something that lasts a few milliseconds only: looked for without a pause that counts."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not check():
        assert time.monotonic() < deadline, f"{what} did not come within {_LONGEST_SECONDS:g} seconds"
        time.sleep(0.0005)
