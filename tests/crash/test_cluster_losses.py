"""The page views job on a Spark standalone cluster, with tidegate by --py-files: it loses executors
and a worker's Python, with speculation on, and counts each record once, in one run."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.minTaskRuntime": "0ms",
}
EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class World:
    """A topic of clicks, and the job that reads them in batches on a cluster."""

    topic: str
    root: Path
    filling: Filling
    options: dict[str, object]
    shipped: Path

    def planned(self, batch: int) -> bool:
        """Return whether the checkpoint has a batch."""
        return (self.root / "_checkpoints" / "page_views" / "offsets" / str(batch)).exists()

    def submitted(
        self, cluster: SparkCluster, settings: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run the job to its end. Beside the script there is no tidegate: it comes by
        --py-files."""
        folder = self.root.parent
        script = Path(shutil.copy(project_root() / "jobs" / "page_views.py", folder))
        config = project_root() / "conf" / "jobs" / "page_views.toml"
        arguments = ("--config", str(config), *with_options(self.options))
        return cluster.submit(
            script, *arguments, py_files=[self.shipped], cwd=folder, settings=settings
        )

    def require_each_once(self) -> None:
        """Compare the tables with the oracle's."""
        ledger, topic = self.filling.ledger, self.topic
        watermark = oracle.watermark(ledger, LATENESS_MS)
        closed = oracle.closed(oracle.windows(ledger, WINDOW_MS), watermark)
        found = oracle.read_by_deltalake(self.root / "views")
        oracle.require_same(found, closed, "windows")
        dead = oracle.read_dead(self.root / "dead_letters")
        oracle.require_same(dead, oracle.dead(ledger, topic), "dead letters")
        late = oracle.read_late(self.root / "late_rows")
        oracle.require_same(late, oracle.late(ledger, topic), "late rows")


@pytest.fixture
def world(shipped: Path, broker: Broker, topic: str, tmp_path: Path) -> World:
    filling = Filling(broker, topic)
    filling.add(clicks(COUNT, seed=SEED, rate=10.0, pages=20))
    root = tmp_path / "tables"
    options = {
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "input.max_rows": COUNT // BATCHES,
        "input.lateness": f"{LATENESS_MS} milliseconds",
        "window.size": f"{WINDOW_MS} milliseconds",
        "output.root": root,
    }
    return World(topic, root, filling, options, shipped)


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
    world: World,
) -> None:
    with SparkCluster.start(workers=2) as cluster, ThreadPoolExecutor(1) as pool:
        run = pool.submit(world.submitted, cluster, {**SETTINGS, **SPECULATION})
        for batch, word in ((1, EXECUTOR), (3, "pyspark.daemon")):
            until(
                lambda at=batch: world.planned(at) or run.done(),  # type: ignore[misc]
                within=200,
                what=f"batch {batch}",
            )
            if not run.done():
                killed(cluster, word)
        done = run.result()
        worked = {folder.parent.name for folder in cluster.dir.glob("worker-*/app-*")}
    assert done.returncode == 0, done.stdout[-4000:]
    assert worked == {"worker-0", "worker-1"}
    world.require_each_once()


@pytest.mark.timeout(600)
def test_tasks_that_run_again_after_their_executor_was_lost_are_counted_once(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = tmp_path / "local"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(local))

    def written() -> set[Path]:
        """Return what tasks that have ended left for those after them, by executor."""
        return set(local.glob("spark-*/executor-*/blockmgr-*/*/shuffle_*.index"))

    with SparkCluster.start(workers=2) as cluster, ThreadPoolExecutor(1) as pool:
        run = pool.submit(world.submitted, cluster, SETTINGS)
        until(lambda: world.planned(1) or run.done(), within=200, what="batch 1")
        before = written()
        until(lambda: written() > before or run.done(), within=60, what="a task's end")
        left = next(iter(written() - before))
        owner = str(left).split("/blockmgr-")[0]
        for each in below(cluster, EXECUTOR):
            if owner in each.environ().get("SPARK_EXECUTOR_DIRS", ""):
                each.kill()
        done = run.result()
    assert done.returncode == 0, done.stdout[-4000:]
    # spark-submit hands on what a Python driver logs as its output.
    assert "they are counted once more" in done.stdout
    world.require_each_once()
