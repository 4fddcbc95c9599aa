"""A real Spark standalone cluster on this machine: a master and workers from the installed pyspark.

>>> from tidegate.testing.cluster import SparkCluster
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

from ..errors import SetupError
from ..runtime.process.installation import conf, environment, jars
from .process import GuardedProcess, free_port, listening, until

_START_SECONDS = 90.0
_HOME = Path(pyspark.__path__[0])
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class SparkCluster:
    """A master and workers on the loopback, as a context manager; `start()` returns a ready one.

    Each is a JVM of its own, and executors are other processes than the driver, as on a real
    cluster: what a job forgot to ship to them is missed here too. They share this machine's disk.
    Nothing outlives the process that started it.

    Args:
        workers: how many workers.
        cores: how many cores each worker has.
        memory: the memory of each worker, as Spark writes it.
        dir: where the logs and the workers' folders lie; without it they are temporary.

    Raises:
        SetupError: where master or workers do not come up, with their last words.
    """

    def __init__(
        self, workers: int = 2, *, cores: int = 1, memory: str = "1g", dir: str | Path | None = None
    ) -> None:
        self.workers = workers
        self.cores = cores
        self.memory = memory
        self._temporary = dir is None
        folder = tempfile.mkdtemp(prefix="tidegate-spark-") if dir is None else dir
        self.dir = Path(folder).resolve()
        self.dir.mkdir(parents=True, exist_ok=True)
        self._port = free_port()
        self._page = free_port()
        self._processes: list[GuardedProcess] = []

    @classmethod
    def start(
        cls, workers: int = 2, *, cores: int = 1, memory: str = "1g", dir: str | Path | None = None
    ) -> SparkCluster:
        """Start a cluster and wait until all its workers have registered."""
        return cls(workers, cores=cores, memory=memory, dir=dir).__enter__()

    @property
    def master(self) -> str:
        """The address, as `spark-submit --master` takes it."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def pids(self) -> list[int]:
        """The processes of the master and of the workers."""
        return [each.pid for each in self._processes]

    def state(self) -> dict[str, Any]:
        """Return what the master's page says: `aliveworkers`, `activeapps` and so on."""
        # A proxy of the environment must not be asked for the loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self._page}/json/", timeout=10) as answer:
            state: dict[str, Any] = json.load(answer)
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
        """Run `spark-submit` of a script on the cluster, in client mode.

        All that the script says is in `stdout`, its errors too; what is in `stderr` is Spark's log.

        Args:
            script: the script.
            arguments: the script's.
            settings: Spark's settings, beside tidegate's own.
            py_files: modules to be sent to the executors.
            cwd: the folder that it runs in.
            timeout: after so many seconds the driver is killed.

        Raises:
            SetupError: for one of py_files that is missing.
            subprocess.TimeoutExpired: after `timeout` seconds.
        """
        command = spark_submit(
            self.master, settings=settings, py_files=py_files, properties=self._properties()
        )
        command += [str(script), *arguments]
        # The driver is a Python process below spark-submit's JVM: a group of its own lets both be
        # ended as one.
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
        """Stop workers and master, and remove their files if they are temporary."""
        while self._processes:
            self._processes.pop().kill()
        if self._temporary:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self) -> SparkCluster:
        if self._processes:
            return self
        try:
            ports = ["--port", str(self._port), "--webui-port", str(self._page)]
            master = self._launch("master", "org.apache.spark.deploy.master.Master", *ports)
            until(
                lambda: listening(self._page),
                within=_START_SECONDS,
                what="the master's start",
                process=master,
            )
            for number in range(self.workers):
                self._launch_worker(f"worker-{number}")
            until(
                self._complete,
                within=_START_SECONDS,
                what="the workers' registration",
                process=master,
            )
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch_worker(self, name: str) -> None:
        size = ["--cores", str(self.cores), "--memory", self.memory]
        places = ["--webui-port", "0", "--work-dir", str(self.dir / name)]
        main = "org.apache.spark.deploy.worker.Worker"
        self._launch(name, main, *size, *places, self.master)

    def _launch(self, name: str, main: str, *arguments: str) -> GuardedProcess:
        process = GuardedProcess(
            [str(_HOME / "bin" / "spark-class"), main, "--host", "127.0.0.1", *arguments],
            self.dir / f"{name}.log",
            name=f"Spark's {name}",
            env=_environment(SPARK_DAEMON_MEMORY="256m"),
            scratch=self.dir if self._temporary else None,
        )
        self._processes.append(process)
        return process

    def _complete(self) -> bool:
        for process in self._processes:
            process.require_alive()
        # The page's server listens before its pages are there, and then answers with an error or
        # the wrong page.
        with contextlib.suppress(urllib.error.URLError, json.JSONDecodeError):
            return bool(self.state()["aliveworkers"] == self.workers)
        return False

    def _properties(self) -> Path:
        path = self.dir / "spark-defaults.conf"
        path.write_text(conf("spark-defaults.conf"), encoding="utf-8")
        return path


def spark_submit(
    master: str,
    *,
    properties: Path,
    settings: Mapping[str, str] | None = None,
    py_files: Sequence[str | Path] = (),
) -> list[str]:
    """Return the command line of `spark-submit`, up to the script, as a user would type it."""
    for file in py_files:
        if not Path(file).exists():
            raise SetupError(f"{file}, named in py_files, is missing.")
    command = [str(_HOME / "bin" / "spark-submit"), "--master", master]
    command += ["--properties-file", str(properties)]
    command += ["--jars", ",".join(map(str, jars("spark")))]
    command += ["--py-files", ",".join(map(str, py_files))] if py_files else []
    for key, value in {**_QUIET, **(settings or {})}.items():
        command += ["--conf", f"{key}={value}"]
    return command


def _environment(**more: str) -> dict[str, str]:
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return environment(
        SPARK_HOME=str(_HOME), SPARK_LOCAL_IP="127.0.0.1", SPARK_NO_DAEMONIZE="1", **python, **more
    )
