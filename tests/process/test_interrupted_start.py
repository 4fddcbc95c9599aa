"""A Ctrl-C during a start ends the command with one line, and leaves no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.spark.jars import project_root, read_conf
from tidegate.testing.child_process import wait_until


def has_imported(pid: int, _errors: str) -> bool:
    """Return whether a process has loaded a library of PyArrow, in the middle of the imports."""
    return "libarrow" in Path(f"/proc/{pid}/maps").read_text()


def has_started_java(pid: int, _errors: str) -> bool:
    return bool(children_of(pid))


def waits_for_kafka(_pid: int, errors: str) -> bool:
    return "no broker answers" in errors


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.jobs
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs the files of Linux")
@pytest.mark.parametrize("is_reached", [has_imported, has_started_java, waits_for_kafka])
def test_a_ctrl_c_during_the_start_ends_with_one_line_and_without_a_trace(
    tmp_path: Path, is_reached: Callable[[int, str], bool]
) -> None:
    file = tmp_path / "windows.toml"
    file.write_text(read_conf("jobs/windows.toml"), encoding="utf-8")
    settings = ("kafka.bootstrap_servers=127.0.0.1:1", f"output.root={tmp_path / 'tables'}")
    command = [sys.executable, "-m", "tidegate", "run", "windows", "--config", str(file)]
    error_file = tmp_path / "errors"
    with error_file.open("w") as errors:
        process = subprocess.Popen(
            [*command, *[part for each in settings for part in ("--set", each)]],
            env={**os.environ, "PYTHONPATH": str(project_root())},
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        wait_until(
            lambda: is_reached(process.pid, error_file.read_text()),
            timeout=90,
            event="this point of the start",
        )
        java = children_of(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == 128 + signal.SIGINT
    wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in java),
        timeout=60,
        event="the end of Java",
    )
    lines = error_file.read_text().splitlines()
    own_lines = [line for line in lines if "WARNING" not in line]
    assert own_lines == ["KeyboardInterrupt: stopped by Ctrl-C"]
