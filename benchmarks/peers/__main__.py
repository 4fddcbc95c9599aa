"""Measure the library beside Flink, Kafka Streams and queries by hand: one run, one machine.

make bench-peers, or: python -m benchmarks.peers [--rows 4000000] [--rounds 3] [--only NAME]...

Each contestant runs each query several times in a process of its own, until two runs in a row took
as long as each other to 5 %; the first run is cold, the last is warm. The contestants of a query
take turns in each round, and the rows of every run are compared with those that pandas makes of the
same topics."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

from bootstrap.machine import SetupError

from ..harness import Arena, Only, Output, Rounds, Runs, arena, chosen
from ..steady import MOST
from . import topics
from .answers import QUERIES, in_form
from .contestants import contestants
from .installing import install
from .measuring import measured
from .tables import printed


def main(
    rows: Annotated[int, typer.Option(help="Clicks; half as many impressions.")] = 4_000_000,
    rounds: Rounds = 3,
    runs: Annotated[int, typer.Option(help="Runs in one process at the most.")] = MOST,
    only: Only = None,
    output: Output = Path("benchmarks/results/peers.json"),
) -> None:
    """Measure, print the tables of the docs, and keep the figures as JSON."""
    everyone = [*QUERIES, *contestants()]
    names = chosen(everyone, only)
    queries = [name for name in QUERIES if name in names] or list(QUERIES)
    who = [name for name in contestants() if name in names] or list(contestants())
    try:
        install(flink="Flink" in who)
    except SetupError as error:
        print(f"peers: {error}", file=sys.stderr)
        raise SystemExit(error.code) from error
    with arena() as place:
        place.console.print(f"filling the topics: {rows:,} clicks, {rows // 2:,} impressions")
        topics.fill(place.broker, rows, place.folder / "tables")
        found = race(place, queries, who, rows=rows, rounds=rounds, runs=runs)
        printed(place.console, found, rows, output)


def race(
    place: Arena, queries: list[str], who: list[str], *, rows: int, rounds: int, runs: int
) -> dict[str, Runs]:
    """Let contestants take turns at each query, and return what each measured, by query."""
    found: dict[str, Runs] = {}
    servers = place.broker.servers
    for query in queries:
        expected = in_form(QUERIES[query], QUERIES[query].expected(servers))
        taken: Runs = defaultdict(list)
        for number in range(rounds):
            for name, contestant in contestants().items():
                if name not in who or query in contestant.without:
                    continue
                label = f"{query}-{name.replace(', ', '-').replace(' ', '-')}-{number}"
                one = measured(
                    place.broker,
                    place.folder,
                    query,
                    contestant,
                    label=label,
                    expected=expected,
                    runs=runs,
                )
                taken[name].append(one)
                speeds = [rows / one[key] / 1e3 for key in ("cold", "seconds")]
                cold, warm = (f"{speed:7,.1f}" for speed in speeds)
                told = f"cold {cold}  warm {warm} thousand/s, {one['runs']:.0f} runs"
                place.console.print(f"  round {number + 1}  {query:11} {name:18} {told}")
        found[query] = taken
    return found


if __name__ == "__main__":
    typer.run(main)
