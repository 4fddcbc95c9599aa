"""A contestant process: its run, its resource usage, and the check of its rows."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.peers.answers import QUERIES, difference, normalized, read_delta_rows
from benchmarks.peers.contestants import Contestant
from benchmarks.peers.topics import read_topic
from benchmarks.support.contestant_process import SAMPLE_SECONDS, cpu_seconds, resident_mib
from benchmarks.support.harness import LONGEST_SECONDS, PARTITIONS, Run
from benchmarks.support.warm_up import MAX_RUNS
from tidegate.testing import Broker
from tidegate.testing.child_process import GuardedProcess, wait_until


class ResourceMonitor:
    """Samples the resource usage of a process and its descendants."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._at: list[float] = []
        self._cpu: list[float] = []
        self._mib: list[float] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> ResourceMonitor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def cpu(self, started_at: float, ended_at: float) -> float:
        """Return the CPU seconds between two times, in seconds since 1970."""
        (before, after) = np.interp([started_at, ended_at], self._at, self._cpu)
        return float(after - before)

    @property
    def peak_mib(self) -> float:
        """The largest resident memory."""
        return max(self._mib)

    def _sample(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            used = cpu_seconds(self._pid)
            # A process that has ended reports no CPU time.
            if not self._cpu or used >= self._cpu[-1]:
                self._at.append(time.time())
                self._cpu.append(used)
                self._mib.append(resident_mib(self._pid))


def measure(
    broker: Broker,
    folder: Path,
    query: str,
    contestant: Contestant,
    *,
    label: str,
    expected: pd.DataFrame,
    runs: int = MAX_RUNS,
) -> Run:
    """Run a query in a process, and return the measurements of its first and last run.

    label: the prefix of topics and files, which are deleted at the end.
    runs: the maximum number of runs.

    Raises SystemExit if the process fails, or if rows differ from the expected ones."""
    outputs = [f"{label}-{number}" for number in range(runs)]
    if contestant.topic:
        for output in outputs:
            broker.create_topic(output, partitions=PARTITIONS, retention_ms=-1)
    try:
        results = _run_process(broker, folder, query, contestant, label, runs)
        for output in outputs[: int(results["runs"])]:
            _check(broker, folder, query, contestant, output, expected)
        return results
    finally:
        for topic in broker.topics():
            if topic.startswith(label):
                broker.delete_topic(topic)
        for output in outputs:
            shutil.rmtree(folder / output, ignore_errors=True)


def _run_process(
    broker: Broker, folder: Path, query: str, contestant: Contestant, label: str, runs: int
) -> Run:
    log, marks = folder / f"{label}.log", folder / f"{label}.runs"
    command = contestant.command(query, broker.bootstrap_servers, label, runs, str(folder))
    spawned = time.time()
    process = GuardedProcess(command, log, name=label, env=contestant.env)
    try:
        with ResourceMonitor(process.pid) as watch:
            wait_until(
                lambda: not process.is_alive, timeout=LONGEST_SECONDS, event=f"the end of {label}"
            )
        if process.exit_code:
            raise SystemExit(f"{label} failed:\n{process.tail(40)}")
    finally:
        process.kill()
    lines = marks.read_text(encoding="utf-8").splitlines()
    spans = [tuple(int(mark) / 1e3 for mark in line.split()) for line in lines]
    (first_began, first_ended) = spans[0]
    (last_began, last_ended) = spans[-1]
    return {
        "runs": float(len(spans)),
        "started": first_ended - spawned,
        "cold": first_ended - first_began,
        "seconds": last_ended - last_began,
        "cold_cpu": watch.cpu(first_began, first_ended),
        "cpu": watch.cpu(last_began, last_ended),
        "peak_mib": watch.peak_mib,
    }


def _check(
    broker: Broker,
    folder: Path,
    query: str,
    contestant: Contestant,
    output: str,
    expected: pd.DataFrame,
) -> None:
    aggregates = QUERIES[query]
    if contestant.topic:
        # Rows that a query only appends have no key.
        updated = contestant.updates and query not in ("join", "enrichment")
        keyed = updated or aggregates.is_table
        rows = read_topic(broker.bootstrap_servers, output, keyed=keyed)
    else:
        rows = read_delta_rows(aggregates, folder / output / "table")
    sketched = contestant.sketches and query == "distinct"
    wrong = difference(normalized(aggregates, rows), expected, sketched=sketched)
    if wrong is not None:
        raise SystemExit(f"wrong rows in {output}: {wrong}")
