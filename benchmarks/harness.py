"""What all benchmarks of contestants share: processes in rounds, ratios to a rival, and a report.

Every contestant runs in a process of its own, in rounds over the same topics, so that what else the
machine does strikes all alike; the ratios are medians over the rounds."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tidegate.testing import Broker
from tidegate.testing.process import GuardedProcess, until

PARTITIONS = 4
LONGEST_SECONDS = 1_800.0

Run = dict[str, float]
Runs = dict[str, list[Run]]

Rounds = Annotated[int, typer.Option(help="How often each contestant runs.")]
Only = Annotated[
    list[str] | None, typer.Option(help="A contestant's name; several times for several.")
]
Output = Annotated[Path, typer.Option(help="Where the figures go.")]


@dataclass(frozen=True)
class Arena:
    """Where contestants meet: a broker with their topics, and a folder for what they write."""

    broker: Broker
    folder: Path
    console: Console

    def race(
        self,
        module: str,
        names: Sequence[str],
        *,
        topics: tuple[str, str],
        rounds: int,
        rows: int,
        messages: int | None = None,
    ) -> Runs:
        """Run the contestants of a module in rounds, and return what each measured.

        topics: the one to be warmed up on, and the one to be measured on.
        rows: what the topics were filled by, as the contestants' module takes it.
        messages: how many the measured topics hold; as many as `rows` unless given."""
        runs: Runs = defaultdict(list)
        for number in range(rounds):
            for name in names:
                found = self._alone(module, name, topics, rows)
                runs[name].append(found)
                speed = (messages or rows) / found["seconds"] / 1e3
                self.console.print(f"  round {number + 1}  {name:24} {speed:9,.1f} thousand/s")
        return runs

    def _alone(self, module: str, name: str, topics: tuple[str, str], rows: int) -> Run:
        """Run one contestant, in a process and a folder of its own."""
        folder = Path(tempfile.mkdtemp(prefix=f"{name.replace(' ', '-')}-", dir=self.folder))
        line = [name, self.broker.servers, *topics, str(rows), str(folder)]
        return measured_by(module, line, folder, name)


def measured_by(module: str, line: Sequence[str], folder: Path, name: str) -> Run:
    """Run a module with these arguments, and return what it has left in the folder."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *line]
    process = GuardedProcess(command, folder / "log", name=name)
    try:
        until(lambda: not process.alive, within=LONGEST_SECONDS, what=f"the end of {name}")
        result = folder / "measured.json"
        if not result.exists():
            raise SystemExit(f"{name} failed:\n{process.tail()}")
        found: Run = json.loads(result.read_text(encoding="utf-8"))
        return found
    finally:
        process.kill()


@contextmanager
def arena() -> Iterator[Arena]:
    """Start a broker, and make a folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, Broker.start() as broker:
        yield Arena(broker, Path(folder), Console(width=140))


def chosen(contestants: Collection[str], only: Sequence[str] | None) -> list[str]:
    """Return the contestants named by `only`, or all; refuse a name that none of them has."""
    unknown = sorted(set(only or ()) - set(contestants))
    if unknown:
        allowed = ", ".join(contestants)
        raise typer.BadParameter(f"{', '.join(unknown)}: the contestants are {allowed}")
    return [name for name in contestants if not only or name in only]


def ratio(found: Sequence[Run], rival: Sequence[Run], key: str) -> str:
    """Return the median of the ratios by round, and their range.

    >>> ratio([{"cpu": 2.0}, {"cpu": 3.0}], [{"cpu": 1.0}, {"cpu": 2.0}], "cpu")
    '1.75 (1.50-2.00)'
    """
    ratios = [run[key] / other[key] for run, other in zip(found, rival, strict=False)]
    if not ratios:
        return "-"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def figures(
    found: Sequence[Run], rival: Sequence[Run], messages: int, *, speed: bool = False
) -> list[str]:
    """Return a contestant's speed, time and CPU time beside the rival's, its memory and its rows.

    speed: compare speeds with the rival's in place of times."""
    seconds = statistics.median(run["seconds"] for run in found)
    peak = statistics.median(run["peak_mib"] for run in found)
    # A speed is to the rival's as the rival's time is to this one.
    beside = ratio(rival, found, "seconds") if speed else ratio(found, rival, "seconds")
    return [
        f"{messages / seconds / 1e3:,.1f}",
        beside,
        ratio(found, rival, "cpu"),
        f"{peak:,.0f}",
        f"{int(found[0]['rows_out']):,}",
    ]


def table(
    runs: Runs,
    messages: int,
    rivals: Mapping[str, str],
    *,
    title: str,
    speed: bool = False,
    counts: Sequence[str] = (),
) -> Table:
    """Return the medians, each contestant beside its rival of the same round.

    speed: compare speeds in place of times.
    counts: what else the contestants counted, by the name in their figures."""
    names = set(rivals.values())
    rival = names.pop() if len(names) == 1 else "its rival"
    compared = "speed" if speed else "time"
    columns = ["thousand/s", f"{compared} / {rival}", f"CPU / {rival}", "peak MiB", "rows out"]
    made = Table("contestant", *columns, *counts, title=title)
    for name, found in runs.items():
        beside = runs.get(rivals[name], [])
        counted = [f"{int(found[0][key]):,}" for key in counts]
        made.add_row(name, *figures(found, beside, messages, speed=speed), *counted)
    return made


def report(console: Console, made: Table, output: Path, found: Mapping[str, Any]) -> None:
    """Print a table, and keep the figures as JSON."""
    console.print(made)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
