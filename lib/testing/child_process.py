"""Child processes that never outlive their starter, and the spark-submit command of a job."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyspark

from ..errors import SetupError
from ..spark.jars import jar_settings, project_root
from ..spark.session import java_options

C1_COMPILER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Only Java's C1 compiler. The code cache keeps its default size, because Spark's generated code
overflows the fifth of it that C1 alone would get."""
SHORT_RUN_OPTIONS = f"{C1_COMPILER_OPTIONS} -XX:+UseSerialGC"
"""For runs of one or two minutes: half the compilation time, but slower code."""

# Blocks until the pipe from the starter closes, however that process ends; then kills the process
# group. Only the form with -s takes "--" in every shell. It retries the removal, because a dying
# process may still write into the folder.
_GUARD_SCRIPT = """
read _; kill -s KILL -- "-$1" 2>/dev/null
[ -z "$2" ] || for attempt in 1 2 3; do rm -rf -- "$2" 2>/dev/null && break; sleep 1; done
"""


class GuardedProcess:
    """A process that is killed when its starter ends, even by SIGKILL.

    The process has its own group, so that Ctrl-C in a terminal does not stop it before its users.

    Args:
        command: the command line.
        log: the file of its output.
        name: its name in errors.
        env: its environment; by default the starter's.
        scratch: a folder to remove if the starter dies without stopping the process.
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
            ["/bin/sh", "-c", _GUARD_SCRIPT, "guard", str(self.pid), str(scratch or "")],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code; None for a running process, negative after a signal."""
        return self._process.poll()

    def require_alive(self) -> None:
        """Raise SetupError with the last lines of the log if the process has ended."""
        if not self.is_alive:
            raise SetupError(
                f"{self.name} ended with code {self._process.returncode}; end of its log:\n"
                f"{self.tail()}"
            )

    def tail(self, lines: int = 15) -> str:
        """Return the last lines of the log, indented."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])

    def stop(self, timeout: float = 20) -> None:
        """Stop the process with SIGTERM, and with SIGKILL after `timeout` seconds."""
        self._send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """Kill the process and its group with SIGKILL, and wait until it has ended."""
        self._send_signal(signal.SIGKILL)
        self._process.wait()
        self._guard.kill()
        self._guard.communicate()

    def _send_signal(self, signal_number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal_number)


def wait_until(
    condition: Callable[[], bool],
    *,
    timeout: float,
    event: str,
    process: GuardedProcess | None = None,
) -> None:
    """Wait until `condition()` is true.

    Raises:
        SetupError: after `timeout` seconds, or as soon as `process` has ended.

    >>> wait_until(lambda: True, timeout=1, event="nothing")
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if process is not None:
            process.require_alive()
        if time.monotonic() > deadline:
            excerpt = f"; end of the log of {process.name}:\n{process.tail()}" if process else ""
            raise SetupError(f"{event} did not happen within {timeout:g} seconds{excerpt}")
        time.sleep(0.05)


def is_listening(port: int) -> bool:
    """Return whether a process listens on a port of the loopback interface."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """Return a port of the loopback interface that is currently free."""
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise SetupError("no free port on 127.0.0.1", str(error)) from error


def spark_submit_command(
    script: Path,
    *arguments: str,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    jvm_options: str = "",
) -> list[str]:
    """Return the command that runs a job with the project's settings, jars and log configuration.

    `jvm_options` are options of the driver's JVM.

    >>> spark_submit_command(Path("jobs/page_views.py"), "--show-config")[-2:]  # doctest: +SKIP
    ['jobs/page_views.py', '--show-config']
    """
    settings = {**jar_settings(master), **(conf or {})}
    sibling = Path(sys.executable).parent / "spark-submit"
    program = str(sibling) if sibling.exists() else shutil.which("spark-submit") or "spark-submit"
    return [
        *(program, "--master", master, "--name", script.stem),
        *("--properties-file", str(project_root() / "conf" / "spark-defaults.conf")),
        *("--driver-java-options", java_options(jvm_options)),
        *[part for key, value in settings.items() for part in ("--conf", f"{key}={value}")],
        *(str(script), *arguments),
    ]


def submit_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of that command: driver and workers use this interpreter."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        **(extra or {}),
    }


def config_arguments(options: Mapping[str, object]) -> Sequence[str]:
    """Return the `--set` arguments of keys and values.

    >>> list(config_arguments({"window.size": "1 minute"}))
    ['--set', 'window.size=1 minute']
    """
    return [part for key, value in options.items() for part in ("--set", f"{key}={value}")]
