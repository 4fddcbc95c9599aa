"""The tables of the docs: measurements, and ratios compared with their targets."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.peers.contestants import contestants
from benchmarks.support.harness import Run, Runs, ratio

STREAM, BACKFILL, PYSPARK = "tidegate, stream", "tidegate, backfill", "plain PySpark"
FLINK, STREAMS = "Flink", "Kafka Streams"
TARGET_RATIOS: Mapping[tuple[str, str], tuple[str, float]] = {
    ("tumbling", BACKFILL): (FLINK, 2.5),
    ("hopping", BACKFILL): (FLINK, 2.0),
    ("session", BACKFILL): (FLINK, 4.0),
    ("distinct", BACKFILL): (FLINK, 2.5),
    ("join", BACKFILL): (STREAMS, 2.0),
    ("enrichment", BACKFILL): (STREAMS, 3.5),
    ("tumbling", STREAM): (FLINK, 1.5),
    ("hopping", STREAM): (FLINK, 1.2),
    ("session", STREAM): (FLINK, 1.5),
    ("distinct", STREAM): (FLINK, 1.2),
    ("join", STREAM): (FLINK, 1.5),
    ("enrichment", STREAM): (STREAMS, 2.0),
    ("sequence", STREAM): (FLINK, 1.0),
    ("changelog", STREAM): (FLINK, 1.0),
}
"""By query and way: the baseline, and the target ratio to its warm speed."""


def print_tables(console: Console, results: Mapping[str, Runs], rows: int, output: Path) -> None:
    """Print the tables of the docs, and write JSON."""
    guarantees = [f"- {name}: {one.guarantee}." for name, one in contestants().items()]
    for line in ["", *guarantees, "", *_measurements(results, rows), "", *_targets(results)]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        json.dumps({"rows": rows, "runs": results}, indent=2) + "\n", encoding="utf-8"
    )


def _measurements(results: Mapping[str, Runs], rows: int) -> Iterator[str]:
    """Return thousand messages a second, CPU seconds and memory: medians over the rounds."""
    yield (
        "| query | contestant | warm, thousand/s | cold | cold, with start-up "
        "| CPU seconds, warm | cold | peak MiB |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for query, runs in results.items():
        for name, rounds in runs.items():
            speeds = [rows / _median(rounds, key) / 1e3 for key in ("seconds", "cold", "started")]
            cells = [f"{speed:,.0f}" for speed in speeds]
            cells += [f"{_median(rounds, key):,.1f}" for key in ("cpu", "cold_cpu")]
            cells.append(f"{_median(rounds, 'peak_mib'):,.0f}")
            yield f"| {query} | {name} | {' | '.join(cells)} |"


def _median(rounds: Sequence[Run], key: str) -> float:
    return statistics.median(run[key] for run in rounds)


def _targets(results: Mapping[str, Runs]) -> Iterator[str]:
    """Return the target and the measured ratios of speeds."""
    yield "| query | way | baseline | target | warm | cold | |"
    yield "|---|---|---|---|---|---|---|"
    for (query, way), target_ratio in TARGET_RATIOS.items():
        for baseline, target in (target_ratio, (PYSPARK, 1.0)):
            yield from _target(results.get(query, {}), query, way, baseline, target)


def _target(runs: Runs, query: str, way: str, baseline: str, target: float) -> Iterator[str]:
    if way not in runs or baseline not in runs:
        return
    # A ratio of speeds is the inverse ratio of times.
    (warm, cold) = (ratio(runs[baseline], runs[way], key) for key in ("seconds", "cold"))
    verdict = "met" if float(warm.partition(" ")[0]) >= target else "missed"
    yield f"| {query} | {way} | {baseline} | {target:.1f} | {warm} | {cold} | {verdict} |"
