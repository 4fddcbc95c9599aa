"""Draw inputs of all formats, envelopes, sketches and the configuration: none crashes a reader, and
each is a good row, or has a reason why it is none.

python -m tests.fuzz [--inputs 1000000] [--seed 1] [--share 1/4] [--family json]

Inputs are drawn in portions, each by a seed of its own. A share is every so many-th portion, so
that shares can be run one after another or beside one another; figures that are in --out already
are added to. It ends with 1 where an input was read wrongly, which is told with the portion.
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

from tidegate.runtime.process.session import quiet, spark_session
from tidegate.testing.fixtures import SMALL

from .families import FAMILIES


@dataclass(frozen=True)
class Portion:
    """So many inputs of a family, which a seed gives."""

    family: str
    number: int
    seed: int
    count: int


def portions(inputs: int, seed: int) -> list[Portion]:
    """Return all portions of a run, so that of each family as much is read at any time."""
    found = _drawn(inputs, seed)
    return sorted(found, key=lambda each: each.number * each.count / FAMILIES[each.family].share)


def _drawn(inputs: int, seed: int) -> Iterator[Portion]:
    for name, family in FAMILIES.items():
        whole = inputs * family.share // 100
        for number, at in enumerate(range(0, whole, family.portion)):
            own = crc32(f"{seed}/{name}/{number}".encode())
            yield Portion(name, number, own, min(family.portion, whole - at))


def main() -> int:
    """Run what the command line asks for."""
    given = parsed()
    this, shares = (int(part) for part in given.share.split("/"))
    asked = [
        each
        for each in portions(given.inputs, given.seed)
        if given.family is None or each.family in given.family
    ]
    mine = asked[this - 1 :: shares]
    spark = None
    if not all(FAMILIES[each.family].alone for each in mine):
        spark = spark_session("fuzz", master="local[2]", conf=SMALL)
        quiet(spark, "ERROR")
    failed = 0
    for portion in mine:
        key = f"{given.seed}/{portion.family}/{portion.number}"
        told = known(given.out)
        if key in told["portions"]:
            continue
        try:
            found = FAMILIES[portion.family].read(spark, portion.seed, portion.count)
        except Exception:
            failed += 1
            traceback.print_exc()
            print(f"{portion}: failed", flush=True)
            continue
        found.pop("told", None)
        told["portions"][key] = dict(found)
        write(given.out, told)
        print(f"{portion.family} {portion.number}: {dict(found)}", flush=True)
    print(json.dumps(known(given.out)["sum"], indent=1), flush=True)
    return 1 if failed else 0


def known(file: Path) -> dict[str, Any]:
    """Return the figures so far."""
    if file.exists():
        return dict(json.loads(file.read_text(encoding="utf-8")))
    return {"sum": {}, "portions": {}}


def write(file: Path, told: dict[str, Any]) -> None:
    """Write the figures, with their sums by family."""
    sums: dict[str, Counter[str]] = {}
    for key, found in told["portions"].items():
        sums.setdefault(key.split("/")[1], Counter()).update(found)
    each = {name: {"inputs": found.total(), **found} for name, found in sums.items()}
    whole = sum(found.total() for found in sums.values())
    told["sum"] = {"inputs": whole, "families": each}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(told, indent=1), encoding="utf-8")


def parsed() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all families")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", default="1/1", help="which part of the portions, as 2/4")
    parser.add_argument(
        "--family", choices=[*FAMILIES], action="append", help="one alone, or several"
    )
    parser.add_argument("--out", type=Path, default=Path(".run/fuzz.json"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
