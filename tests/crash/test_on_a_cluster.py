"""The page views job on a Spark standalone cluster, with lib by --py-files: from the broker to
Delta."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tidegate.runtime.process.installation import project_root
from tidegate.runtime.process.submit import QUICK, with_options
from tidegate.testing import Broker
from tidegate.testing.clicks import clicks
from tidegate.testing.cluster import SparkCluster

from . import oracle
from .inside import LATENESS_MS, WINDOW_MS, Filling

pytestmark = [pytest.mark.broker, pytest.mark.cluster, pytest.mark.slow]

SEED, COUNT = 41, 3_000


def test_the_job_gives_the_windows_of_the_ledger(
    shipped: Path, broker: Broker, topic: str, tmp_path: Path
) -> None:
    filling = Filling(broker, topic)
    print(f"seed {SEED}")
    filling.add(clicks(COUNT, seed=SEED, rate=10.0, pages=20))
    # Beside the script there is no lib: it comes by --py-files.
    script = Path(shutil.copy(project_root() / "jobs" / "page_views.py", tmp_path))
    config = project_root() / "conf" / "jobs" / "page_views.toml"
    numbers, root = tmp_path / "summary.json", tmp_path / "tables"
    options = {
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "input.max_rows": COUNT // 3,
        "input.lateness": f"{LATENESS_MS} milliseconds",
        "window.size": f"{WINDOW_MS} milliseconds",
        "output.root": root,
    }
    arguments = ("--config", str(config), "--summary", str(numbers), *with_options(options))
    with SparkCluster.start(workers=2) as cluster:
        settings = {
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
        }
        done = cluster.submit(
            script, *arguments, py_files=[shipped], cwd=tmp_path, settings=settings
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        worked = sorted(folder.parent.name for folder in cluster.dir.glob("worker-*/app-*"))
        assert worked == ["worker-0", "worker-1"]
    summary = json.loads(numbers.read_text(encoding="utf-8"))
    print(summary)
    assert summary["rows_in"] == COUNT

    ledger = filling.ledger
    closed = oracle.closed(oracle.windows(ledger, WINDOW_MS), oracle.watermark(ledger, LATENESS_MS))
    oracle.require_same(oracle.read_by_deltalake(root / "views"), closed, "windows")
    oracle.require_same(
        oracle.read_dead(root / "dead_letters"), oracle.dead(ledger, topic), "dead letters"
    )
    oracle.require_same(
        oracle.read_late(root / "late_rows"), oracle.late(ledger, topic), "late rows"
    )
