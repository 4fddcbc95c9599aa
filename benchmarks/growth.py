"""Measure how time and memory of the stream way grow with the events, and with their keys.

python -m benchmarks.growth [--rows 1000000] [--rounds 1] [--only NAME]...

The events are 1, 2, 4 and 8 times `rows`, with as many events a second, so that a larger topic is a
longer time. The keys of windows are 1, 4 and 16 times 1,000 pages and 100,000 users, over `rows`
events; a join's key is one impression's, so that its keys grow with the events. Wanted is time that
is in proportion to the events, and memory that is not. Each contestant is warmed up on a quarter of
`rows`. Beside the JSON file a picture is drawn."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from . import impressions
from .contestants import CONTESTANTS
from .harness import PARTITIONS, Arena, Only, Output, Rounds, Run, arena, chosen, report
from .join_contestants import JOINS
from .topic import fill

SIZES = (1, 2, 4, 8)
KEYS = (1, 4, 16)
JOIN = "stream_stream, early"
GROWN = {"tumbling": CONTESTANTS["tumbling"], "session": CONTESTANTS["session"], JOIN: JOINS[JOIN]}
MEASURES = {"seconds": "seconds", "cpu": "CPU seconds", "peak_mib": "peak MiB"}


@dataclass(frozen=True, kw_only=True)
class Grown:
    """What one contestant took of a topic: medians over the rounds.

    events, keys: how many times `rows`, and how many times the fewest keys.
    """

    name: str
    events: int
    keys: int
    seconds: float
    cpu: float
    peak_mib: float
    rows_out: float


def main(
    rows: Annotated[int, typer.Option(help="Messages in the smallest topic.")] = 1_000_000,
    rounds: Rounds = 1,
    only: Only = None,
    output: Output = Path("benchmarks/results/growth.json"),
) -> None:
    """Measure, print a table, keep the figures as JSON, and draw them."""
    names = chosen(GROWN, only)
    with arena() as place:
        fill_topic(place, "warm", max(1, rows // 4), names=names)
        found = [run for size in SIZES for run in _measured(place, names, rows, rounds, size, 1)]
        windows = [name for name in names if name != JOIN]
        found += [
            run
            for keys in KEYS[1:]
            for run in _measured(place, windows, rows, rounds, SIZES[0], keys)
        ]
        told = {"rows": rows, "runs": [asdict(run) for run in found]}
        report(place.console, shown(found, rows), output, told)
        draw(found, rows, output.with_suffix(".png"))


def _measured(
    place: Arena, names: Sequence[str], rows: int, rounds: int, size: int, keys: int
) -> Iterator[Grown]:
    """Fill a topic, and measure each of the contestants on it."""
    if not names:
        return
    topic, messages = f"clicks-{size}-{keys}", rows * size
    place.console.print(f"{messages:,} messages, {keys} times the keys")
    fill_topic(place, topic, messages, names=names, keys=keys)
    for name in names:
        module = "join_contestants" if name == JOIN else "contestants"
        topics = ("warm", topic)
        runs = place.race(module, [name], topics=topics, rounds=rounds, rows=messages)
        yield _median(name, size, keys, runs[name])


def fill_topic(
    place: Arena, topic: str, messages: int, *, names: Sequence[str], keys: int = 1
) -> None:
    """Make the topics of one size that the contestants read."""
    if JOIN in names:
        parts = (f"{topic}-impressions", f"{topic}-clicks")
        for each in parts:
            place.broker.create_topic(each, partitions=PARTITIONS, retention_ms=-1)
        impressions.fill(place.broker.servers, parts, messages // 2, PARTITIONS)
    if set(names) - {JOIN}:
        place.broker.create_topic(topic, partitions=PARTITIONS, retention_ms=-1)
        fill(place.broker.servers, topic, messages, PARTITIONS, keys=keys)


def _median(name: str, events: int, keys: int, runs: Sequence[Run]) -> Grown:
    seconds, cpu, peak, out = (
        statistics.median(run[measure] for run in runs)
        for measure in ("seconds", "cpu", "peak_mib", "rows_out")
    )
    return Grown(
        name=name,
        events=events,
        keys=keys,
        seconds=seconds,
        cpu=cpu,
        peak_mib=peak,
        rows_out=out,
    )


def shown(found: Sequence[Grown], rows: int) -> Table:
    """Return the figures, each beside those of the same contestant's smallest topic."""
    first = {run.name: run for run in reversed(found)}
    beside = ["seconds / smallest", "CPU / smallest", "memory / smallest"]
    columns = ["events", "keys", "thousand/s", "CPU s", "peak MiB", *beside, "rows out"]
    made = Table("contestant", *columns, title="Growth of the stream way")
    for run in found:
        least = first[run.name]
        made.add_row(
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
    return made


def draw(found: Sequence[Grown], rows: int, file: Path) -> None:
    """Draw each measure by the events, with the line in proportion to them, and by the keys."""
    # Matplotlib is slow to import, and the contestants' processes need none.
    from matplotlib import figure

    picture = figure.Figure(figsize=(11, 6.5), layout="constrained")
    grid = picture.subplots(2, len(MEASURES), squeeze=False)
    by_events = _lines([run for run in found if run.keys == 1], "events")
    by_keys = _lines([run for run in found if run.events == SIZES[0]], "keys")
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


def _lines(found: Sequence[Grown], of: str) -> Mapping[str, Sequence[Grown]]:
    """Return the runs of each contestant that has several, in order."""
    names = dict.fromkeys(run.name for run in found)
    lines = {
        name: sorted((run for run in found if run.name == name), key=lambda run: getattr(run, of))
        for name in names
    }
    return {name: runs for name, runs in lines.items() if len(runs) > 1}


if __name__ == "__main__":
    typer.run(main)
