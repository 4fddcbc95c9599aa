"""The harness of the benchmarks: contestants in rounds, ratios to a baseline, and a report.

Each contestant runs in its own process, in rounds over the same topics, so that other load on the
machine affects all contestants equally. Ratios are medians over the rounds."""

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
from tidegate.testing.child_process import GuardedProcess, wait_until

PARTITIONS = 4
LONGEST_SECONDS = 1_800.0

Run = dict[str, float]
Runs = dict[str, list[Run]]

Rounds = Annotated[int, typer.Option(help="Number of runs of each contestant.")]
Only = Annotated[list[str] | None, typer.Option(help="Name of a contestant; repeatable.")]
Output = Annotated[Path, typer.Option(help="File of the results, JSON.")]


@dataclass(frozen=True)
class Bench:
    """The environment of a benchmark: a broker, a folder for output, and the console."""

    broker: Broker
    folder: Path
    console: Console

    def run_rounds(
        self,
        module: str,
        names: Sequence[str],
        *,
        topics: tuple[str, str],
        rounds: int,
        rows: int,
        messages: int | None = None,
    ) -> Runs:
        """Run the contestants of a module in rounds, and return the measurements of each.

        topics: the topic of the warm-up, and the measured topic.
        rows: the ROWS argument of the contestant process.
        messages: the number of messages in the measured topics; default: `rows`."""
        runs: Runs = defaultdict(list)
        for number in range(rounds):
            for name in names:
                results = self._run_contestant(module, name, topics, rows)
                runs[name].append(results)
                speed = (messages or rows) / results["seconds"] / 1e3
                self.console.print(f"  round {number + 1}  {name:24} {speed:9,.1f} thousand/s")
        return runs

    def _run_contestant(self, module: str, name: str, topics: tuple[str, str], rows: int) -> Run:
        """Run one contestant in its own process and folder."""
        folder = Path(tempfile.mkdtemp(prefix=f"{name.replace(' ', '-')}-", dir=self.folder))
        line = [name, self.broker.bootstrap_servers, *topics, str(rows), str(folder)]
        return run_module(module, line, folder, name)


def run_module(module: str, line: Sequence[str], folder: Path, name: str) -> Run:
    """Run a module with these arguments, and return the content of its measured.json."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *line]
    process = GuardedProcess(command, folder / "log", name=name)
    try:
        wait_until(
            lambda: not process.is_alive, timeout=LONGEST_SECONDS, event=f"the end of {name}"
        )
        result = folder / "measured.json"
        if not result.exists():
            raise SystemExit(f"{name} failed:\n{process.tail()}")
        results: Run = json.loads(result.read_text(encoding="utf-8"))
        return results
    finally:
        process.kill()


@contextmanager
def start_bench() -> Iterator[Bench]:
    """Start a broker, and create a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, Broker.start() as broker:
        yield Bench(broker, Path(folder), Console(width=140))


def select_contestants(contestants: Collection[str], only: Sequence[str] | None) -> list[str]:
    """Return the contestants in `only`, or all. Raise BadParameter for an unknown name."""
    unknown = sorted(set(only or ()) - set(contestants))
    if unknown:
        allowed = ", ".join(contestants)
        raise typer.BadParameter(
            f"unknown contestant: {', '.join(unknown)}; expected one of: {allowed}"
        )
    return [name for name in contestants if not only or name in only]


def ratio(results: Sequence[Run], baseline: Sequence[Run], key: str) -> str:
    """Return the median and the range of the ratios by round.

    >>> ratio([{"cpu": 2.0}, {"cpu": 3.0}], [{"cpu": 1.0}, {"cpu": 2.0}], "cpu")
    '1.75 (1.50-2.00)'
    """
    ratios = [run[key] / other[key] for run, other in zip(results, baseline, strict=False)]
    if not ratios:
        return "-"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def format_runs(
    results: Sequence[Run], baseline: Sequence[Run], messages: int, *, speed: bool = False
) -> list[str]:
    """Return the cells of a contestant: speed, ratios of time and CPU time, memory, and rows.

    speed: show the ratio of speeds instead of times."""
    seconds = statistics.median(run["seconds"] for run in results)
    peak = statistics.median(run["peak_mib"] for run in results)
    # A ratio of speeds is the inverse ratio of times.
    relative = ratio(baseline, results, "seconds") if speed else ratio(results, baseline, "seconds")
    return [
        f"{messages / seconds / 1e3:,.1f}",
        relative,
        ratio(results, baseline, "cpu"),
        f"{peak:,.0f}",
        f"{int(results[0]['rows_out']):,}",
    ]


def comparison_table(
    runs: Runs,
    messages: int,
    baselines: Mapping[str, str],
    *,
    title: str,
    speed: bool = False,
    counts: Sequence[str] = (),
) -> Table:
    """Return a table of medians, with the ratios of each contestant to its baseline.

    baselines: the baseline of each contestant.
    speed: show ratios of speeds instead of times.
    counts: further columns, by their names in the measurements."""
    names = set(baselines.values())
    baseline = names.pop() if len(names) == 1 else "its baseline"
    compared = "speed" if speed else "time"
    columns = [
        "thousand/s",
        f"{compared} / {baseline}",
        f"CPU / {baseline}",
        "peak MiB",
        "rows out",
    ]
    rows = Table("contestant", *columns, *counts, title=title)
    for name, results in runs.items():
        baseline_runs = runs.get(baselines[name], [])
        counted = [f"{int(results[0][key]):,}" for key in counts]
        rows.add_row(name, *format_runs(results, baseline_runs, messages, speed=speed), *counted)
    return rows


def report(console: Console, table: Table, output: Path, results: Mapping[str, Any]) -> None:
    """Print a table, and write the results as JSON."""
    console.print(table)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
