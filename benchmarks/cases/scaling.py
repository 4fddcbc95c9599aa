"""Measure how time and memory of streams grow with the events and with the keys.

python -m benchmarks.cases.scaling [--rows 1000000] [--rounds 1] [--only NAME]...

The topics have 1, 2, 4 and 8 times `rows` events at the same event rate, so a larger topic covers
more time. Windows have 1, 4 and 16 times 1,000 pages and 100,000 users over `rows` events; the key
of the join is the impression, so its keys grow with the events. The target is a time in proportion
to the events, and constant memory. Each contestant warms up on a quarter of `rows`. The program
also draws a chart next to the JSON file."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmarks.contestants.join_queries import JOINS
from benchmarks.contestants.window_queries import CONTESTANTS
from benchmarks.support import impression_topic as impressions
from benchmarks.support.click_topic import fill
from benchmarks.support.harness import (
    PARTITIONS,
    Bench,
    Only,
    Output,
    Rounds,
    Run,
    report,
    select_contestants,
    start_bench,
)

SIZES = (1, 2, 4, 8)
KEYS = (1, 4, 16)
JOIN = "stream_stream, early"
SCALED = {"tumbling": CONTESTANTS["tumbling"], "session": CONTESTANTS["session"], JOIN: JOINS[JOIN]}
MEASURES = {"seconds": "seconds", "cpu": "CPU seconds", "peak_mib": "peak MiB"}


@dataclass(frozen=True, kw_only=True)
class ScalingRun:
    """The result of a contestant on a topic: medians over the rounds.

    events, keys: multiples of `rows`, and of the smallest number of keys.
    """

    name: str
    events: int
    keys: int
    seconds: float
    cpu: float
    peak_mib: float
    rows_out: float


def main(
    rows: Annotated[
        int, typer.Option(help="Number of messages in the smallest topic.")
    ] = 1_000_000,
    rounds: Rounds = 1,
    only: Only = None,
    output: Output = Path("benchmarks/results/scaling.json"),
) -> None:
    """Measure, print a table, write JSON, and draw a chart."""
    names = select_contestants(SCALED, only)
    with start_bench() as bench:
        fill_topics(bench, "warm", max(1, rows // 4), names=names)
        results = [run for size in SIZES for run in _measure(bench, names, rows, rounds, size, 1)]
        windows = [name for name in names if name != JOIN]
        results += [
            run
            for keys in KEYS[1:]
            for run in _measure(bench, windows, rows, rounds, SIZES[0], keys)
        ]
        summary = {"rows": rows, "runs": [asdict(run) for run in results]}
        report(bench.console, to_table(results, rows), output, summary)
        draw(results, rows, output.with_suffix(".png"))


def _measure(
    bench: Bench, names: Sequence[str], rows: int, rounds: int, size: int, keys: int
) -> Iterator[ScalingRun]:
    """Fill a topic, and measure each contestant on it."""
    if not names:
        return
    topic, messages = f"clicks-{size}-{keys}", rows * size
    bench.console.print(f"{messages:,} messages, {keys} times the keys")
    fill_topics(bench, topic, messages, names=names, keys=keys)
    for name in names:
        module = "contestants.join_queries" if name == JOIN else "contestants.window_queries"
        topics = ("warm", topic)
        runs = bench.run_rounds(module, [name], topics=topics, rounds=rounds, rows=messages)
        yield _median(name, size, keys, runs[name])


def fill_topics(
    bench: Bench, topic: str, messages: int, *, names: Sequence[str], keys: int = 1
) -> None:
    """Create the topics of one size."""
    if JOIN in names:
        parts = (f"{topic}-impressions", f"{topic}-clicks")
        for each in parts:
            bench.broker.create_topic(each, partitions=PARTITIONS, retention_ms=-1)
        impressions.fill(bench.broker.bootstrap_servers, parts, messages // 2, PARTITIONS)
    if set(names) - {JOIN}:
        bench.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
        fill(bench.broker.bootstrap_servers, topic, messages, PARTITIONS, keys=keys)


def _median(name: str, events: int, keys: int, runs: Sequence[Run]) -> ScalingRun:
    seconds, cpu, peak, out = (
        statistics.median(run[measure] for run in runs)
        for measure in ("seconds", "cpu", "peak_mib", "rows_out")
    )
    return ScalingRun(
        name=name,
        events=events,
        keys=keys,
        seconds=seconds,
        cpu=cpu,
        peak_mib=peak,
        rows_out=out,
    )


def to_table(results: Sequence[ScalingRun], rows: int) -> Table:
    """Return the results, with ratios to the smallest topic of each contestant."""
    first = {run.name: run for run in reversed(results)}
    ratios = ["seconds / smallest", "CPU / smallest", "memory / smallest"]
    columns = ["events", "keys", "thousand/s", "CPU s", "peak MiB", *ratios, "rows out"]
    table = Table("contestant", *columns, title="Scaling of streams")
    for run in results:
        least = first[run.name]
        table.add_row(
            run.name,
            f"{run.events * rows:,}",
            f"x {run.keys}",
            f"{run.events * rows / run.seconds / 1e3:,.1f}",
            f"{run.cpu:,.1f}",
            f"{run.peak_mib:,.0f}",
            f"{run.seconds / least.seconds:.2f}",
            f"{run.cpu / least.cpu:.2f}",
            f"{run.peak_mib / least.peak_mib:.2f}",
            f"{int(run.rows_out):,}",
        )
    return table


def draw(results: Sequence[ScalingRun], rows: int, file: Path) -> None:
    """Draw each measure by events, with a proportional line, and by keys."""
    # Matplotlib is slow to import, and contestant processes do not need it.
    from matplotlib import figure

    picture = figure.Figure(figsize=(11, 6.5), layout="constrained")
    grid = picture.subplots(2, len(MEASURES), squeeze=False)
    by_events = _lines([run for run in results if run.keys == 1], "events")
    by_keys = _lines([run for run in results if run.events == SIZES[0]], "keys")
    for column, (measure, label) in enumerate(MEASURES.items()):
        for row, (lines, of) in enumerate(((by_events, "events"), (by_keys, "keys"))):
            axes = grid[row, column]
            for name, runs in lines.items():
                at = [getattr(run, of) for run in runs]
                values = [getattr(run, measure) for run in runs]
                (line,) = axes.plot(at, values, marker="o", label=name)
                if of == "events" and measure != "peak_mib":
                    ideal = [values[0] * each / at[0] for each in at]
                    axes.plot(at, ideal, linestyle=":", color=line.get_color(), linewidth=0.8)
            axes.set_xlabel(f"times {rows:,} events" if of == "events" else "times the keys")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
    grid[0, 0].legend(fontsize=8)
    picture.savefig(file, dpi=110)


def _lines(results: Sequence[ScalingRun], of: str) -> Mapping[str, Sequence[ScalingRun]]:
    """Return the runs of each contestant with more than one, in order."""
    names = dict.fromkeys(run.name for run in results)
    lines = {
        name: sorted((run for run in results if run.name == name), key=lambda run: getattr(run, of))
        for name in names
    }
    return {name: runs for name, runs in lines.items() if len(runs) > 1}


if __name__ == "__main__":
    typer.run(main)
