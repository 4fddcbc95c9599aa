"""What a contestant's process leaves of its runs: when each began and ended.

It imports as little as `steady`, for Flink's own environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.steady import until_steady


def marked(
    run: Callable[[str], tuple[int, int]], label: str, runs: str, within: str, folder: str
) -> None:
    """Run until warm, and note the runs in FOLDER/LABEL.runs, a line for each.

    run: takes a run's name, LABEL-NUMBER, and tells when it began and ended, in milliseconds.
    runs, within: as the command line says them: how many at the most, and what share apart.
    """
    path = Path(folder) / f"{label}.runs"

    def once(number: int) -> float:
        began, ended = run(f"{label}-{number}")
        with path.open("a", encoding="utf-8") as marks:
            marks.write(f"{began} {ended}\n")
        return ended - began

    until_steady(once, int(runs), float(within))
