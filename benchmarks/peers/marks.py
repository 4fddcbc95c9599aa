"""The record of the runs of a contestant process: the start and end of each.

The module has no dependencies, because it also runs in the virtual environment of Flink."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.support.warm_up import run_until_steady


def run_and_record(
    run: Callable[[str], tuple[int, int]], label: str, runs: str, tolerance: str, folder: str
) -> None:
    """Run until warm, and write a line for each run to FOLDER/LABEL.runs.

    run: takes the name of a run, LABEL-NUMBER; returns its start and end in milliseconds.
    runs, tolerance: arguments of the command line.
    """
    path = Path(folder) / f"{label}.runs"

    def once(number: int) -> float:
        started_at, ended = run(f"{label}-{number}")
        with path.open("a", encoding="utf-8") as marks:
            marks.write(f"{started_at} {ended}\n")
        return ended - started_at

    run_until_steady(once, int(runs), float(tolerance))
