"""Processes that a test starts and that never outlive it, and the one way to wait for something."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..errors import SetupError

# Blocks until the pipe from its starter closes, however that process ends; then ends what it
# guards. It tries more than once, for a process that is just dying may still write into the folder.
_GUARD = """
read _; kill -9 -- "-$1" 2>/dev/null
[ -z "$2" ] || for attempt in 1 2 3; do rm -rf -- "$2" 2>/dev/null && break; sleep 1; done
"""


class GuardedProcess:
    """A process that is killed when its starter ends, even where that ends by SIGKILL.

    The process is in a group of its own, which keeps Ctrl-C in a terminal from reaching it before
    its users have stopped.

    Args:
        command: the command line.
        log: the file that its output goes to.
        name: what to call it in errors.
        env: its environment; by default the starter's.
        scratch: a folder that is removed too, where the starter dies without stopping it.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        name: str,
        env: Mapping[str, str] | None = None,
        scratch: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=env,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(self.pid), str(scratch or "")],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    @property
    def code(self) -> int | None:
        """The exit code; None while the process runs, and below 0 after a signal."""
        return self._process.poll()

    def require_alive(self) -> None:
        """Raise a SetupError with the last lines of the log where the process has ended."""
        if not self.alive:
            raise SetupError(
                f"{self.name} ended with code {self._process.returncode}; its last "
                f"words:\n{self.tail()}"
            )

    def tail(self, lines: int = 15) -> str:
        """Return the last lines of the log, indented."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])

    def stop(self, within: float = 20) -> None:
        """End the process by SIGTERM, and by SIGKILL after `within` seconds."""
        self._send(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within)
        self.kill()

    def kill(self) -> None:
        """End the process and all of its group by SIGKILL, and wait until it has gone."""
        self._send(signal.SIGKILL)
        self._process.wait()
        self._guard.kill()
        self._guard.communicate()

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def until(
    check: Callable[[], bool], *, within: float, what: str, process: GuardedProcess | None = None
) -> None:
    """Wait until `check()` is true.

    Raises:
        SetupError: after `within` seconds, and as soon as `process` has ended.
    """
    deadline = time.monotonic() + within
    while not check():
        if process is not None:
            process.require_alive()
        if time.monotonic() > deadline:
            words = f"; the last words of {process.name}:\n{process.tail()}" if process else "."
            raise SetupError(f"{what} did not happen within {within:g} seconds{words}")
        time.sleep(0.05)


def listening(port: int) -> bool:
    """Return whether something takes connections on a port of the loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """Return a port of the loopback that nobody uses at this moment."""
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])
    except OSError as cause:
        raise SetupError(f"there is no free port on 127.0.0.1: {cause}.") from cause
