"""A program in a process of its own that is killed with SIGKILL at one of its steps."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path

from tidegate.spark.jars import project_root
from tidegate.testing.child_process import GuardedProcess, submit_environment, wait_until

_PROGRAM = """
import sys
from tests.support.killed_steps import Step
{step!r}.arm()
{program}
"""
COMMAND = "from tidegate.cli import main\nmain()"
"""The program of `tidegate`, whose arguments follow."""


@dataclass(frozen=True)
class Step:
    """The moment before or after a call of a function.

    function: "module:name" as the caller finds it, such as "tidegate.operations.erasure.purge:
    checkpoint_table" or "pathlib:Path.rename". call: the number of the call in the process.
    """

    function: str
    call: int = 1
    before: bool = False

    def __str__(self) -> str:
        """Return the step as the id of a test."""
        name = self.function.rpartition(":")[2]
        return f"{'before' if self.before else 'after'} {name} {self.call}"

    def arm(self) -> None:
        """Kill the group of this process when it reaches the step."""
        module, _, name = self.function.partition(":")
        *owners, attribute = name.split(".")
        owner = reduce(getattr, owners, import_module(module))
        original = getattr(owner, attribute)
        calls = 0

        def kill_at_step(*arguments: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            is_reached = calls == self.call
            if is_reached and self.before:
                os.killpg(0, signal.SIGKILL)
            result = original(*arguments, **named)
            if is_reached:
                os.killpg(0, signal.SIGKILL)
            return result

        # The function of a class method takes no class: it is bound already.
        is_static = isinstance(vars(owner).get(attribute), classmethod | staticmethod)
        setattr(owner, attribute, staticmethod(kill_at_step) if is_static else kill_at_step)


AFTER_TARGET = Step("tidegate.commit.driver_lease:DriverLease.record_batch", before=True)
"""The moment after the commit of the target, before that of Spark."""


def kill_at(
    step: Step,
    *arguments: str,
    log: Path,
    program: str = COMMAND,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a program with its arguments in a process that is killed at a step, and require that it
    was.

    env: variables of its environment besides the usual ones.
    """
    code = _PROGRAM.format(step=step, program=program)
    process = GuardedProcess(
        [sys.executable, "-c", code, *arguments],
        log,
        name=f"the process to kill {step}",
        env=submit_environment({"PYTHONPATH": str(project_root()), **(env or {})}),
    )
    try:
        wait_until(lambda: not process.is_alive, timeout=240, event=f"the kill {step}")
    finally:
        process.kill()
    assert process.exit_code == -signal.SIGKILL, f"not killed {step}:\n{process.tail(30)}"
