"""A guarded process ends with its starter, and so do the processes that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tidegate.spark.jars import project_root
from tidegate.testing.child_process import wait_until

STARTER = """
import sys
from pathlib import Path
from tidegate.testing.child_process import GuardedProcess

folder = Path(sys.argv[1])
GuardedProcess(
    ["/bin/sh", "-c", "echo $$ >> pids; sleep 600 & echo $! >> pids; wait"],
    folder / "log",
    name="sleep",
)
print("started", flush=True)
input()
"""


def test_a_guarded_process_and_its_children_end_with_a_starter_that_is_killed(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(project_root())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "started\n"
        pid_file = tmp_path / "pids"
        wait_until(
            lambda: pid_file.exists() and len(pid_file.read_text().split()) == 2,
            timeout=20,
            event="the start of both processes",
        )
        os.kill(starter.pid, signal.SIGKILL)
    pids = [int(pid) for pid in pid_file.read_text().split()]
    wait_until(
        lambda: not any(map(_is_running, pids)), timeout=20, event="the end of both processes"
    )


def _is_running(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return state.stdout.strip()[:1] not in ("", "Z")
