"""Signals to a job and to the demo, as a user or a scheduler sends them."""

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

from tidegate.jobs.sample_clicks import clicks, send_clicks
from tidegate.spark.jars import project_root
from tidegate.testing import Broker
from tidegate.testing.child_process import (
    config_arguments,
    spark_submit_command,
    submit_environment,
    wait_until,
)

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.jobs]

JOBS = project_root() / "jobs"


def log_contains(log: Path, text: str) -> Callable[[], bool]:
    return lambda: text in log.read_text(encoding="utf-8")


def test_sigterm_stops_the_job_after_the_batch_with_exit_code_zero(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    send_clicks(broker.bootstrap_servers, topic, clicks(1_000), partitions=4)
    log, summary = tmp_path / "job.log", tmp_path / "summary.json"
    options = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "trigger.kind": "continuous",
        "output.root": tmp_path / "tables",
    }
    arguments = ("--summary", str(summary), *config_arguments(options))
    run = spark_submit_command(
        JOBS / "page_views.py", *arguments, conf={"spark.ui.enabled": "false"}
    )
    with log.open("w") as out:
        job = subprocess.Popen(
            run,
            env=submit_environment(),
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd=tmp_path,
        )
    try:
        wait_until(log_contains(log, "page_views batch 0 |"), timeout=200, event="the first batch")
        job.send_signal(signal.SIGTERM)
        assert job.wait(100) == 0, log.read_text(encoding="utf-8")
    finally:
        end(job)
    done = json.loads(summary.read_text(encoding="utf-8"))
    assert (done["stopped"], done["rows_in"]) == (True, 1_000)


def test_ctrl_c_stops_all_processes_of_the_demo_with_exit_code_130(tmp_path: Path) -> None:
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
        wait_until(lambda: "SparkSubmit" in commands(demo), timeout=100, event="the job's start")
        children = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 130, log.read_text(encoding="utf-8")
        ended, alive = psutil.wait_procs(children, timeout=30)
        assert (len(ended), alive) == (len(children), [])
    finally:
        end(demo)
        for child in children:
            if child.is_running():
                child.kill()
    assert "Traceback" not in log.read_text(encoding="utf-8")


def commands(process: subprocess.Popen[bytes]) -> str:
    """Return the command lines of a process's descendants; a process can end meanwhile."""
    command_line: list[str] = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            command_line += child.cmdline()
    return " ".join(command_line)


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
