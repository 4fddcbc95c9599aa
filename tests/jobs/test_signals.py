"""Signals to a whole job and to the demo, as a person or a scheduler sends them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tidegate.runtime.process.installation import project_root
from tidegate.runtime.process.submit import command, environment, with_options
from tidegate.testing import Broker
from tidegate.testing.clicks import clicks
from tidegate.testing.ledger import produce
from tidegate.testing.process import until

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.jobs]

JOBS = project_root() / "jobs"


def says(log: Path, text: str) -> Callable[[], bool]:
    return lambda: text in log.read_text(encoding="utf-8")


def test_sigterm_to_spark_submit_lets_the_batch_finish_and_ends_with_zero(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    produce(broker.servers, topic, clicks(1_000), partitions=4)
    log, summary = tmp_path / "job.log", tmp_path / "summary.json"
    options = {
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "trigger.kind": "continuous",
        "output.root": tmp_path / "tables",
    }
    arguments = ("--summary", str(summary), *with_options(options))
    run = command(JOBS / "page_views.py", *arguments, conf={"spark.ui.enabled": "false"})
    with log.open("w") as out:
        job = subprocess.Popen(
            run, env=environment(), stdout=out, stderr=out, start_new_session=True, cwd=tmp_path
        )
    try:
        until(says(log, "page_views batch 0 |"), within=200, what="the first batch")
        job.send_signal(signal.SIGTERM)
        assert job.wait(100) == 0, log.read_text(encoding="utf-8")
    finally:
        end(job)
    done = json.loads(summary.read_text(encoding="utf-8"))
    assert (done["stopped"], done["rows_in"]) == (True, 1_000)


def test_ctrl_c_in_the_demo_leaves_no_process_and_exits_with_130(tmp_path: Path) -> None:
    log, folder = tmp_path / "out", tmp_path / "demo"
    with log.open("w") as out:
        demo = subprocess.Popen(
            [sys.executable, str(JOBS / "demo.py"), "--count", "1000", "--folder", str(folder)],
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    children: list[psutil.Process] = []
    try:
        until(lambda: "SparkSubmit" in commands(demo), within=100, what="the job's start")
        children = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 130, log.read_text(encoding="utf-8")
        gone, alive = psutil.wait_procs(children, timeout=30)
        assert (len(gone), alive) == (len(children), [])
    finally:
        end(demo)
        for child in children:
            if child.is_running():
                child.kill()
    assert "Traceback" not in log.read_text(encoding="utf-8")


def commands(process: subprocess.Popen[bytes]) -> str:
    """Return the command lines of a process's children, and of theirs; one may end, or just begin,
    meanwhile."""
    told = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            told += child.cmdline()
    return " ".join(told)


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
