"""Kill a job's driver and its broker again and again, and compare its tables with the ledger.

python -m tests.chaos page_views --seed 1 [--records 20000] [--drivers 20] [--brokers 4]

`all` takes the jobs one after another. The figures of each run, reliability.json and a picture are
in --out."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from tidegate.runtime.process.session import quiet, spark_session
from tidegate.testing import Broker
from tidegate.testing.fixtures import SMALL

from ..tables import Reader, by_spark, rows
from . import report
from .soak import problems, soak
from .storm import differences, drawn, storm
from .worlds import WORLDS


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def main() -> int:
    """Run what the command line asks for; 1 where a record was lost or doubled, or where a soak's
    job held more and more."""
    given = parsed()
    if given.job == "gather":
        say(str(report.gather(given.out)["total"]))
        return 0
    if given.job == "soak":
        told = soak(given.seed, given.minutes, given.out, say)
        say(str(told))
        found = problems(told)
        for each in found:
            say(each)
        return 1 if found else 0
    names = list(WORLDS) if given.job == "all" else [given.job]
    runs = [weathered(name, given) for name in names]
    for run in runs:
        say(f"{run['job']}: {run['tables']}")
    return 1 if any(run["lost"] or run["doubled"] for run in runs) else 0


def weathered(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Let one job meet its storm, and write down what came of it."""
    faults = drawn(given.seed, given.drivers, given.brokers)
    with tempfile.TemporaryDirectory(prefix="tidegate-chaos-") as scratch, Broker.start() as broker:
        world = WORLDS[name](broker, f"chaos-{name}", given.records, given.seed)
        say(f"{name}, seed {given.seed}: {world.count:,} records, {len(faults)} faults")
        weather = storm(world, Path(scratch), len(faults))
        weather.play(faults, say)
        tables = differences(world, weather.job.root, readers())
    run = report.told(name, given.seed, weather, tables)
    report.write(given.out, run)
    return dict(run)


def readers() -> dict[str, Reader]:
    """Return the two engines that read the tables."""
    spark = spark_session("chaos", master="local[2]", conf=SMALL)
    quiet(spark, "ERROR")
    return {"deltalake": rows, "spark": by_spark(spark)}


def parsed() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("job", choices=[*WORLDS, "all", "soak", "gather"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=20_000, help="of one job")
    parser.add_argument("--drivers", type=int, default=20, help="kills of the driver, of one job")
    parser.add_argument("--brokers", type=int, default=4, help="kills of the broker, of one job")
    parser.add_argument("--minutes", type=float, default=30, help="of a soak")
    parser.add_argument("--out", type=Path, default=Path(".run/chaos"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
