"""The page views job on a Spark standalone cluster, with tidegate by --py-files: it loses an
executor and a worker's Python, and counts each record once, in one run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.support import crash_oracle as oracle
from tests.support.job_under_test import LATENESS_MS, WINDOW_MS, Filling
from tests.support.spark_cluster import SparkCluster
from tidegate.jobs.sample_clicks import clicks
from tidegate.spark.jars import project_root
from tidegate.testing import Broker
from tidegate.testing.child_process import SHORT_RUN_OPTIONS, config_arguments, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.cluster, pytest.mark.crash]

SEED, COUNT, BATCHES, PARTITIONS = 43, 6_000, 6, 16
EXECUTOR = "CoarseGrainedExecutorBackend"
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": SHORT_RUN_OPTIONS,
    "spark.executor.extraJavaOptions": SHORT_RUN_OPTIONS,
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.minTaskRuntime": "0ms",
}


def below(cluster: SparkCluster, word: str) -> list[psutil.Process]:
    """Return the processes of a cluster's workers whose command has a word."""
    found = []
    for each in cluster._processes:
        for child in psutil.Process(each.pid).children(recursive=True):
            try:
                if any(word in part for part in child.cmdline()):
                    found.append(child)
            except psutil.Error:
                continue
    return found


def ended(local: Path, before: Collection[Path] = ()) -> dict[str, set[Path]]:
    """Return what tasks have left for others since then, by the folder of their executor."""
    found: dict[str, set[Path]] = {}
    for left in local.glob("spark-*/executor-*/blockmgr-*/*/shuffle_*.index"):
        if left not in before:
            found.setdefault(str(left.parents[2]), set()).add(left)
    return found


def executor(cluster: SparkCluster, folder: str) -> psutil.Process:
    """Return the executor that a folder is of."""
    (found,) = (
        each
        for each in below(cluster, EXECUTOR)
        if folder in each.environ().get("SPARK_EXECUTOR_DIRS", "")
    )
    return found


@pytest.mark.timeout(600)
@pytest.mark.draws("speculates", short=[False], long=[False, True])
def test_a_lost_executor_and_a_killed_worker_count_each_record_once(
    speculates: bool,
    shipped: Path,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local = tmp_path / "local"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(local))
    filling = Filling(broker, topic, PARTITIONS)
    filling.add(clicks(COUNT, seed=SEED, rate=10.0, pages=20))
    # tidegate is not next to the script: --py-files ships it.
    script = Path(shutil.copy(project_root() / "jobs" / "page_views.py", tmp_path))
    config = project_root() / "conf" / "jobs" / "page_views.toml"
    root = tmp_path / "tables"
    options = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "input.max_records_per_batch": COUNT // BATCHES,
        "input.watermark_delay": f"{LATENESS_MS} milliseconds",
        "window.size": f"{WINDOW_MS} milliseconds",
        "output.root": root,
    }
    arguments = ("--config", str(config), *config_arguments(options))

    with SparkCluster.start(workers=2) as cluster, ThreadPoolExecutor(1) as pool:
        run = pool.submit(
            cluster.submit,
            script,
            *arguments,
            py_files=[shipped],
            cwd=tmp_path,
            settings={**SETTINGS, **SPECULATION} if speculates else SETTINGS,
        )

        def reached(what: str, so: Callable[[], bool]) -> None:
            wait_until(lambda: so() or run.done(), timeout=200, event=what)

        planned = root / "_checkpoints" / "page_views" / "offsets"
        reached("batch 1", (planned / "1").exists)
        before = set().union(*ended(local).values())

        def busy() -> list[str]:
            """Return the executors with a finished task: those with more than one ended task."""
            return [name for name, left in ended(local, before).items() if len(left) > 1]

        reached("the end of two tasks", lambda: bool(busy()))
        # Most tasks have not run: the counts of the finished ones are counted twice.
        executor(cluster, busy()[0]).kill()
        reached("batch 3", (planned / "3").exists)
        reached("a worker's Python", lambda: bool(below(cluster, "pyspark.daemon")))
        below(cluster, "pyspark.daemon")[0].kill()
        done = run.result()
        worked = {folder.parent.name for folder in cluster.dir.glob("worker-*/app-*")}
    # What a Python driver logs is the output of spark-submit.
    assert done.returncode == 0, done.stdout[-4000:]
    # With speculation a task may have a copy, and then its lost result is not computed again.
    assert speculates or "counting them again" in done.stdout
    assert worked == {"worker-0", "worker-1"}

    ledger = filling.ledger
    closed = oracle.closed(oracle.windows(ledger, WINDOW_MS), oracle.watermark(ledger, LATENESS_MS))
    oracle.require_same(oracle.read_by_deltalake(root / "views"), closed, "windows")
    oracle.require_same(
        oracle.read_dead(root / "dead_letters"), oracle.dead(ledger, topic), "dead letters"
    )
    oracle.require_same(
        oracle.read_late(root / "late_rows"), oracle.late(ledger, topic), "late rows"
    )
