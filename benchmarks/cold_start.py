"""Measure what a cold start takes, where it goes, and what is saved by what a JVM can be told.

python -m benchmarks.cold_start [--rows 2000000] [--rounds 3] [--only NAME]...

Tumbling windows in batches of a million clicks, by a process that has just started: by hand, and by
the library, whose JVM starts from an archive of classes, with Java's first compiler alone, with
both, or with neither. Each process runs the query three times, each time into a new table. The
archive is made for the run, as `tidegate classes` makes it."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tidegate.runtime.process.class_archive import sharing
from tidegate.runtime.process.submit import FIRST_COMPILER

from .cold_start_contestant import RUNS
from .harness import (
    PARTITIONS,
    Arena,
    Only,
    Output,
    Rounds,
    Run,
    Runs,
    arena,
    chosen,
    measured_by,
    report,
)
from .jvm_time import CLASSES, COMPILING, GENERATING, LOADING, SHARED
from .topic import fill

SECONDS = 200
"""From the first to the last click, by event time, so that windows close however few there are."""
HAND, PLAIN, ARCHIVED = "by hand", "as it is", "archived classes"
CONTESTANTS = {
    HAND: ("tumbling by hand", False, ""),
    PLAIN: ("tumbling", False, ""),
    ARCHIVED: ("tumbling", True, ""),
    "first compiler": ("tumbling", False, FIRST_COMPILER),
    f"{ARCHIVED}, first compiler": ("tumbling", True, FIRST_COMPILER),
}
"""By name: the query, whether its JVM starts from an archive, and other options of the JVM."""


def main(
    rows: Annotated[int, typer.Option(help="Messages in the topic.")] = 2_000_000,
    rounds: Rounds = 3,
    only: Only = None,
    output: Output = Path("benchmarks/results/cold_start.json"),
) -> None:
    """Measure, print two tables, and keep the figures as JSON."""
    names = chosen(CONTESTANTS, only)
    runs: Runs = defaultdict(list)
    with arena() as place:
        topic = place.broker.create_topic("clicks", PARTITIONS, retention_ms=-1)
        fill(place.broker.servers, topic, rows, PARTITIONS, rate=max(1, rows // SECONDS))
        archive = place.folder / "classes.jsa"
        subprocess.run(
            [sys.executable, "-m", "tidegate", "classes", "--to", str(archive)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for number in range(rounds):
            for name in names:
                found = _alone(place, name, topic, archive)
                runs[name].append(found)
                told = f"{found['session']:5.1f} s to a session, {found['seconds_0']:5.1f} s a run"
                place.console.print(f"  round {number + 1}  {name:34} {told}")
        place.console.print(_spent(runs))
        report(place.console, _times(runs), output, {"rows": rows, "runs": runs})


def _alone(place: Arena, name: str, topic: str, archive: Path) -> Run:
    """Run one contestant, in a process and a folder of its own."""
    query, archived, options = CONTESTANTS[name]
    java = " ".join(filter(None, [options, sharing(archive) if archived else ""]))
    folder = Path(tempfile.mkdtemp(prefix="cold-", dir=place.folder))
    line = [query, place.broker.servers, topic, str(folder), java]
    return measured_by("cold_start_contestant", line, folder, name)


def _times(runs: Runs) -> Table:
    """Return how long each took to get where."""
    starts = ["session s", "first commit s", "CPU s until then, first run's too"]
    made = Table(
        "contestant", *starts, *[f"run {n + 1} s" for n in range(RUNS)], "CPU s of the last"
    )
    for name, found in runs.items():
        made.add_row(
            name,
            _sum(found, "session"),
            _sum(found, "session", "first_commit_0"),
            _sum(found, "session_cpu", "cpu_0"),
            *[_sum(found, f"seconds_{number}") for number in range(RUNS)],
            _sum(found, f"cpu_{RUNS - 1}"),
        )
    return made


def _spent(runs: Runs) -> Table:
    """Return what each JVM spent its time on until the end of the first run."""
    names = [COMPILING, LOADING, GENERATING, CLASSES, SHARED]
    made = Table("contestant", *names, title="Until the end of the first run")
    for name, found in runs.items():
        made.add_row(name, *[_sum(found, f"session_{each}", f"{each}_0") for each in names])
    return made


def _sum(found: Sequence[Run], *keys: str) -> str:
    """Return the median over the rounds of the sum of some figures."""
    number = statistics.median(sum(run[key] for key in keys) for run in found)
    return f"{number:,.1f}"


if __name__ == "__main__":
    typer.run(main)
