"""The tables of the docs: what each contestant measured, and which of the ratios wanted are met."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from ..harness import Run, Runs, ratio
from .contestants import contestants

STREAM, BACKLOG, HAND = "tidegate, stream", "tidegate, backlog", "by hand"
FLINK, STREAMS = "Flink", "Kafka Streams"
WANTED: Mapping[tuple[str, str], tuple[str, float]] = {
    ("tumbling", BACKLOG): (FLINK, 2.5),
    ("hopping", BACKLOG): (FLINK, 2.0),
    ("session", BACKLOG): (FLINK, 4.0),
    ("distinct", BACKLOG): (FLINK, 2.5),
    ("join", BACKLOG): (STREAMS, 2.0),
    ("enrichment", BACKLOG): (STREAMS, 3.5),
    ("tumbling", STREAM): (FLINK, 1.5),
    ("hopping", STREAM): (FLINK, 1.2),
    ("session", STREAM): (FLINK, 1.5),
    ("distinct", STREAM): (FLINK, 1.2),
    ("join", STREAM): (FLINK, 1.5),
    ("enrichment", STREAM): (STREAMS, 2.0),
    ("sequence", STREAM): (FLINK, 1.0),
}
"""By query and way: a rival, and how many times its speed is wanted, warm."""


def printed(console: Console, found: Mapping[str, Runs], rows: int, output: Path) -> None:
    """Print the tables as they stand in the docs, and keep the figures as JSON."""
    guarantees = [f"- {name}: {one.guarantee}." for name, one in contestants().items()]
    for line in ["", *guarantees, "", *_figures(found, rows), "", *_targets(found)]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"rows": rows, "runs": found}, indent=2) + "\n", encoding="utf-8")


def _figures(found: Mapping[str, Runs], rows: int) -> Iterator[str]:
    """Return thousand messages a second, CPU seconds and memory, as medians over the rounds."""
    yield (
        "| query | contestant | warm, thousand/s | cold | cold, with start-up "
        "| CPU seconds, warm | cold | peak MiB |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for query, runs in found.items():
        for name, taken in runs.items():
            speeds = [rows / _median(taken, key) / 1e3 for key in ("seconds", "cold", "started")]
            cells = [f"{speed:,.0f}" for speed in speeds]
            cells += [f"{_median(taken, key):,.1f}" for key in ("cpu", "cold_cpu")]
            cells.append(f"{_median(taken, 'peak_mib'):,.0f}")
            yield f"| {query} | {name} | {' | '.join(cells)} |"


def _median(taken: Sequence[Run], key: str) -> float:
    return statistics.median(run[key] for run in taken)


def _targets(found: Mapping[str, Runs]) -> Iterator[str]:
    """Return the ratios of warm speeds that are wanted beside those that were measured."""
    yield "| query | way | beside | wanted | warm | cold | |"
    yield "|---|---|---|---|---|---|---|"
    for (query, way), wanted in WANTED.items():
        for rival, least in (wanted, (HAND, 1.0)):
            yield from _target(found.get(query, {}), query, way, rival, least)


def _target(runs: Runs, query: str, way: str, rival: str, least: float) -> Iterator[str]:
    if way not in runs or rival not in runs:
        return
    # A speed is to the rival's as the rival's time is to this one.
    (warm, cold) = (ratio(runs[rival], runs[way], key) for key in ("seconds", "cold"))
    verdict = "met" if float(warm.partition(" ")[0]) >= least else "missed"
    yield f"| {query} | {way} | {rival} | {least:.1f} | {warm} | {cold} | {verdict} |"
