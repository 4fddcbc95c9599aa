"""The page views job on a Spark standalone cluster, with tidegate by --py-files: it loses an
executor and a worker's Python, with speculation on, and counts each record once."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tidegate.runtime.process.installation import project_root
from tidegate.runtime.process.submit import QUICK, with_options
from tidegate.testing import Broker
from tidegate.testing.clicks import clicks
from tidegate.testing.cluster import SparkCluster
from tidegate.testing.process import until

from . import oracle
from .inside import LATENESS_MS, WINDOW_MS, Filling

pytestmark = [pytest.mark.broker, pytest.mark.cluster, pytest.mark.crash]

SEED, COUNT, BATCHES = 43, 6_000, 6
ACCOUNTING = 6
"""The code of a batch whose rows Spark has counted twice, since a lost executor's tasks ran again;
nothing of it was written."""
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
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


def killed(cluster: SparkCluster, word: str) -> None:
    """Kill the first of the processes whose command has a word."""
    until(lambda: bool(below(cluster, word)), within=60, what=f"a process of {word}")
    below(cluster, word)[0].kill()


@pytest.mark.timeout(600)
def test_a_lost_executor_a_killed_worker_and_speculation_count_each_record_once(
    shipped: Path, broker: Broker, topic: str, tmp_path: Path
) -> None:
    filling = Filling(broker, topic)
    filling.add(clicks(COUNT, seed=SEED, rate=10.0, pages=20))
    # Beside the script there is no tidegate: it comes by --py-files.
    script = Path(shutil.copy(project_root() / "jobs" / "page_views.py", tmp_path))
    config = project_root() / "conf" / "jobs" / "page_views.toml"
    root = tmp_path / "tables"
    options = {
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "input.max_rows": COUNT // BATCHES,
        "input.lateness": f"{LATENESS_MS} milliseconds",
        "window.size": f"{WINDOW_MS} milliseconds",
        "output.root": root,
    }
    arguments = ("--config", str(config), *with_options(options))

    def planned(batch: int) -> bool:
        return (root / "_checkpoints" / "page_views" / "offsets" / str(batch)).exists()

    with SparkCluster.start(workers=2) as cluster, ThreadPoolExecutor(1) as pool:

        def submitted() -> subprocess.CompletedProcess[str]:
            return cluster.submit(
                script, *arguments, py_files=[shipped], cwd=tmp_path, settings=SETTINGS
            )

        first: Future[subprocess.CompletedProcess[str]] = pool.submit(submitted)
        for batch, word in ((1, "CoarseGrainedExecutorBackend"), (3, "pyspark.daemon")):
            until(
                lambda at=batch: planned(at) or first.done(),  # type: ignore[misc]
                within=200,
                what=f"batch {batch}",
            )
            if not first.done():
                killed(cluster, word)
        done = first.result()
        for _ in range(2):
            print(f"exit code {done.returncode}: {done.stderr[-500:]}")
            if done.returncode == 0:
                break
            assert done.returncode == ACCOUNTING, done.stderr[-4000:]
            done = submitted()
        worked = {folder.parent.name for folder in cluster.dir.glob("worker-*/app-*")}
    assert done.returncode == 0, done.stderr[-4000:]
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
