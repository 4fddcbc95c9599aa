"""A contestant's process: run, watched, and its rows compared with those expected."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

from tidegate.testing import Broker
from tidegate.testing.process import GuardedProcess, until

from ..contest import SAMPLE_SECONDS, cpu_seconds, resident_mib
from ..harness import LONGEST_SECONDS, PARTITIONS, Run
from ..steady import MOST
from .answers import QUERIES, difference, in_form, of_table
from .contestants import Contestant
from .topics import rows_of


class Watch:
    """What a process and all that it starts take, sampled while it runs."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._at: list[float] = []
        self._cpu: list[float] = []
        self._mib: list[float] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def cpu(self, began: float, ended: float) -> float:
        """Return the CPU seconds between two instants, in seconds since 1970."""
        (before, after) = np.interp([began, ended], self._at, self._cpu)
        return float(after - before)

    @property
    def peak_mib(self) -> float:
        """The largest resident memory."""
        return max(self._mib)

    def _sample(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            used = cpu_seconds(self._pid)
            # A process that has ended has no CPU time any more.
            if not self._cpu or used >= self._cpu[-1]:
                self._at.append(time.time())
                self._cpu.append(used)
                self._mib.append(resident_mib(self._pid))


def measured(
    broker: Broker,
    folder: Path,
    query: str,
    contestant: Contestant,
    *,
    label: str,
    expected: pd.DataFrame,
    runs: int = MOST,
) -> Run:
    """Run a query in a process, and return what its first and its last run took, of `runs` at most.

    label: names what the process leaves behind, which is removed.

    Raises SystemExit for a process that fails, and for rows that are not those expected."""
    outputs = [f"{label}-{number}" for number in range(runs)]
    if contestant.topic:
        for output in outputs:
            broker.create_topic(output, partitions=PARTITIONS, retention_ms=-1)
    try:
        found = _ran(broker, folder, query, contestant, label, runs)
        for output in outputs[: int(found["runs"])]:
            _check(broker, folder, query, contestant, output, expected)
        return found
    finally:
        for topic in broker.topics():
            if topic.startswith(label):
                broker.delete_topic(topic)
        for output in outputs:
            shutil.rmtree(folder / output, ignore_errors=True)


def _ran(
    broker: Broker, folder: Path, query: str, contestant: Contestant, label: str, runs: int
) -> Run:
    log, marks = folder / f"{label}.log", folder / f"{label}.runs"
    command = contestant.command(query, broker.servers, label, runs, str(folder))
    spawned = time.time()
    process = GuardedProcess(command, log, name=label, env=contestant.env)
    try:
        with Watch(process.pid) as watch:
            until(lambda: not process.alive, within=LONGEST_SECONDS, what=f"the end of {label}")
        if process.code:
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
    asked = QUERIES[query]
    if contestant.topic:
        # Rows that a query adds and never changes have no key of their own.
        keyed = contestant.updates and query not in ("join", "enrichment")
        rows = rows_of(broker.servers, output, keyed=keyed)
    else:
        rows = of_table(asked, folder / output / "table")
    sketched = contestant.sketches and query == "distinct"
    wrong = difference(in_form(asked, rows), expected, sketched=sketched)
    if wrong is not None:
        raise SystemExit(f"{output} gave {wrong}")
