"""A Spark standalone cluster on this machine: a master and workers of the installed pyspark.

>>> from tests.support.spark_cluster import SparkCluster
>>> with SparkCluster.start(workers=2) as cluster:                      # doctest: +SKIP
...     done = cluster.submit("jobs/page_views.py", "--config", "conf/jobs/page_views.toml")
...     assert done.returncode == 0, done.stdout
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark

from tidegate.errors import SetupError
from tidegate.spark.jars import jars, read_conf
from tidegate.testing.child_process import GuardedProcess, free_port, is_listening, wait_until

_START_SECONDS = 90.0
_SPARK_HOME = Path(pyspark.__path__[0])
_LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class SparkCluster:
    """A master and workers on the loopback interface, as a context manager.

    `start()` returns a running cluster. Each worker is a JVM, and executors are separate processes,
    so that a job that does not ship its dependencies fails as on a real cluster. All share this
    machine's disk. The cluster never outlives the process that started it.

    Args:
        workers: number of workers.
        cores: cores per worker.
        memory: memory per worker, in Spark's notation.
        dir: the folder of logs and work files; by default a temporary folder.

    Raises:
        SetupError: if the master or a worker does not start, with the end of its log.
    """

    def __init__(
        self, workers: int = 2, *, cores: int = 1, memory: str = "1g", dir: str | Path | None = None
    ) -> None:
        self.workers = workers
        self.cores = cores
        self.memory = memory
        self._is_temporary = dir is None
        folder = tempfile.mkdtemp(prefix="tidegate-spark-") if dir is None else dir
        self.dir = Path(folder).resolve()
        self.dir.mkdir(parents=True, exist_ok=True)
        self._port = free_port()
        self._web_ui_port = free_port()
        self._processes: list[GuardedProcess] = []

    @classmethod
    def start(
        cls, workers: int = 2, *, cores: int = 1, memory: str = "1g", dir: str | Path | None = None
    ) -> SparkCluster:
        """Start a cluster and wait until all its workers have registered."""
        return cls(workers, cores=cores, memory=memory, dir=dir).__enter__()

    @property
    def master(self) -> str:
        """The value of `spark-submit --master`."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def pids(self) -> list[int]:
        """The process ids of the master and the workers."""
        return [process.pid for process in self._processes]

    def state(self) -> dict[str, Any]:
        """Return the state of the master's web page: `aliveworkers`, `activeapps` and so on."""
        # Ignores proxies of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self._web_ui_port}/json/", timeout=10) as response:
            state: dict[str, Any] = json.load(response)
        return state

    def submit(
        self,
        script: str | Path,
        *arguments: str,
        settings: Mapping[str, str] | None = None,
        py_files: Sequence[str | Path] = (),
        cwd: str | Path | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """Run `spark-submit` for a script on the cluster, in client mode.

        `stdout` of the result has the script's output, including its errors; `stderr` has Spark's
        log.

        Args:
            script: the script.
            arguments: arguments of the script.
            settings: Spark settings in addition to tidegate's own.
            py_files: modules to ship to the executors.
            cwd: the working directory.
            timeout: seconds after which the driver is killed.

        Raises:
            SetupError: if one of py_files is missing.
            subprocess.TimeoutExpired: after `timeout` seconds.
        """
        command = spark_submit(
            self.master, settings=settings, py_files=py_files, properties=self._write_properties()
        )
        command += [str(script), *arguments]
        # The driver is a child of spark-submit's JVM; a process group allows killing both.
        with subprocess.Popen(
            command,
            cwd=cwd,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as driver:
            try:
                out, err = driver.communicate(timeout=timeout)
            except BaseException:
                os.killpg(driver.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(command, driver.returncode, out, err)

    def stop(self) -> None:
        """Stop workers and master, and remove temporary files."""
        while self._processes:
            self._processes.pop().kill()
        if self._is_temporary:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self) -> SparkCluster:
        if self._processes:
            return self
        try:
            ports = ["--port", str(self._port), "--webui-port", str(self._web_ui_port)]
            master = self._launch("master", "org.apache.spark.deploy.master.Master", *ports)
            wait_until(
                lambda: is_listening(self._web_ui_port),
                timeout=_START_SECONDS,
                event="the master's start",
                process=master,
            )
            for number in range(self.workers):
                self._launch_worker(f"worker-{number}")
            wait_until(
                self._has_all_workers,
                timeout=_START_SECONDS,
                event="the workers' registration",
                process=master,
            )
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch_worker(self, name: str) -> None:
        resources = ["--cores", str(self.cores), "--memory", self.memory]
        locations = ["--webui-port", "0", "--work-dir", str(self.dir / name)]
        main = "org.apache.spark.deploy.worker.Worker"
        self._launch(name, main, *resources, *locations, self.master)

    def _launch(self, name: str, main: str, *arguments: str) -> GuardedProcess:
        process = GuardedProcess(
            [str(_SPARK_HOME / "bin" / "spark-class"), main, "--host", "127.0.0.1", *arguments],
            self.dir / f"{name}.log",
            name=f"Spark's {name}",
            env=_environment(SPARK_DAEMON_MEMORY="256m"),
            scratch=self.dir if self._is_temporary else None,
        )
        self._processes.append(process)
        return process

    def _has_all_workers(self) -> bool:
        for process in self._processes:
            process.require_alive()
        # The web server listens before its pages are available, and then returns errors.
        with contextlib.suppress(urllib.error.URLError, json.JSONDecodeError):
            return bool(self.state()["aliveworkers"] == self.workers)
        return False

    def _write_properties(self) -> Path:
        path = self.dir / "spark-defaults.conf"
        path.write_text(read_conf("spark-defaults.conf"), encoding="utf-8")
        return path


def spark_submit(
    master: str,
    *,
    properties: Path,
    settings: Mapping[str, str] | None = None,
    py_files: Sequence[str | Path] = (),
) -> list[str]:
    """Return the command line of `spark-submit` up to the script."""
    for file in py_files:
        if not Path(file).exists():
            raise SetupError(f"missing file in py_files: {file}")
    command = [str(_SPARK_HOME / "bin" / "spark-submit"), "--master", master]
    command += ["--properties-file", str(properties)]
    command += ["--jars", ",".join(map(str, jars("spark")))]
    command += ["--py-files", ",".join(map(str, py_files))] if py_files else []
    for key, value in {**_LOCAL_SETTINGS, **(settings or {})}.items():
        command += ["--conf", f"{key}={value}"]
    return command


def _environment(**overrides: str) -> dict[str, str]:
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {
        **os.environ,
        "SPARK_HOME": str(_SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        **python,
        **overrides,
    }
