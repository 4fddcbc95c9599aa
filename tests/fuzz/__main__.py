"""Fuzz all formats, envelopes, sketches and the configuration with random inputs.

No input may crash a reader; each must be valid, or be rejected with a reason.

python -m tests.fuzz [--inputs 1000000] [--seed 1] [--share 1/4] [--family json]

Inputs are drawn in chunks, each with its own seed. Share 1/4 is every fourth chunk, so that shares
can run in sequence or in parallel. Chunks that are already in --out are skipped, and the counts of
new chunks are added. The exit code is 1 if a check failed; the output names the failed chunks.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.fuzz.families import FAMILIES
from tidegate import set_log_level, spark_session
from tidegate.testing.fixtures import TEST_SESSION_SETTINGS


@dataclass(frozen=True)
class Chunk:
    """A number of inputs of one family, drawn with one seed."""

    family: str
    number: int
    seed: int
    count: int


def main() -> int:
    arguments = parse_arguments()
    share, shares = (int(part) for part in arguments.share.split("/"))
    selected = [
        chunk
        for chunk in all_chunks(arguments.inputs, arguments.seed)
        if arguments.family is None or chunk.family in arguments.family
    ]
    chunks = selected[share - 1 :: shares]
    spark = None
    if any(FAMILIES[chunk.family].needs_spark for chunk in chunks):
        spark = spark_session("fuzz", master="local[2]", conf=TEST_SESSION_SETTINGS)
        set_log_level(spark, "ERROR")
    failed = 0
    for chunk in chunks:
        key = f"{arguments.seed}/{chunk.family}/{chunk.number}"
        results = read_results(arguments.out)
        if key in results["portions"]:
            continue
        try:
            counts = FAMILIES[chunk.family].check(spark, chunk.seed, chunk.count)
        except Exception:
            failed += 1
            traceback.print_exc()
            print(f"{chunk}: failed", flush=True)
            continue
        counts.pop("checked", None)
        results["portions"][key] = dict(counts)
        write_results(arguments.out, results)
        print(f"{chunk.family} {chunk.number}: {dict(counts)}", flush=True)
    print(json.dumps(read_results(arguments.out)["sum"], indent=1), flush=True)
    return 1 if failed else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs of all families")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", default="1/1", help="the chunks to run, such as 2/4")
    parser.add_argument(
        "--family", choices=[*FAMILIES], action="append", help="a family to run; repeatable"
    )
    parser.add_argument("--out", type=Path, default=Path(".run/fuzz.json"))
    return parser.parse_args()


def all_chunks(inputs: int, seed: int) -> list[Chunk]:
    """Return all chunks, ordered so that all families progress evenly."""
    return sorted(
        _chunks_by_family(inputs, seed),
        key=lambda chunk: chunk.number * chunk.count / FAMILIES[chunk.family].share,
    )


def _chunks_by_family(inputs: int, seed: int) -> Iterator[Chunk]:
    for name, family in FAMILIES.items():
        total = inputs * family.share // 100
        for number, start in enumerate(range(0, total, family.chunk_size)):
            chunk_seed = crc32(f"{seed}/{name}/{number}".encode())
            yield Chunk(name, number, chunk_seed, min(family.chunk_size, total - start))


def read_results(file: Path) -> dict[str, Any]:
    if file.exists():
        return dict(json.loads(file.read_text(encoding="utf-8")))
    return {"sum": {}, "portions": {}}


def write_results(file: Path, results: dict[str, Any]) -> None:
    """Write the counts by chunk, with their sums by family."""
    sums: dict[str, Counter[str]] = {}
    for key, counts in results["portions"].items():
        sums.setdefault(key.split("/")[1], Counter()).update(counts)
    families = {name: {"inputs": counts.total(), **counts} for name, counts in sums.items()}
    total = sum(counts.total() for counts in sums.values())
    results["sum"] = {"inputs": total, "families": families}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
