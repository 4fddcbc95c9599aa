"""Kill the driver and the broker of a job repeatedly, and compare its tables with the ledger.

python -m tests.chaos page_views --seed 1 [--records 20000] [--drivers 20] [--brokers 4]

`all` takes the jobs one after another. The figures of each run, reliability.json and a picture are
in --out."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.chaos import report
from tests.chaos.scenarios import WORLDS
from tests.chaos.soak import problems, soak
from tests.chaos.storm import differences, drawn, storm
from tests.support.delta_tables import Reader, by_spark, rows
from tidegate import set_log_level, spark_session
from tidegate.testing import Broker
from tidegate.testing.fixtures import TEST_SESSION_SETTINGS


def say(text: str) -> None:
    """Print a line immediately."""
    print(text, flush=True)


def main() -> int:
    """Run the selected job; return 1 for lost or duplicated rows, or growing use of resources."""
    options = parsed()
    if options.job == "gather":
        say(str(report.gather(options.out)["total"]))
        return 0
    if options.job == "soak":
        usage = soak(options.seed, options.minutes, options.out, say)
        say(str(usage))
        faults = problems(usage)
        for each in faults:
            say(each)
        return 1 if faults else 0
    names = list(WORLDS) if options.job == "all" else [options.job]
    runs = [run_storm(name, options) for name in names]
    for run in runs:
        say(f"{run['job']}: {run['tables']}")
    return 1 if any(run["lost"] or run["doubled"] for run in runs) else 0


def run_storm(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run the storm of one job, and write its report."""
    faults = drawn(options.seed, options.drivers, options.brokers)
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-chaos-") as scratch,
        Broker.start() as broker,
        closing(WORLDS[name](broker, f"chaos-{name}", options.records, options.seed)) as world,
    ):
        say(f"{name}, seed {options.seed}: {world.count:,} records, {len(faults)} faults")
        weather = storm(world, Path(scratch), len(faults))
        weather.play(faults, say)
        tables = differences(world, weather.job.root, readers())
    run = report.run_report(name, options.seed, weather, tables)
    report.write(options.out, run)
    return dict(run)


def readers() -> dict[str, Reader]:
    """Return the two readers of the tables."""
    spark = spark_session("chaos", master="local[2]", conf=TEST_SESSION_SETTINGS)
    set_log_level(spark, "ERROR")
    return {"deltalake": rows, "spark": by_spark(spark)}


def parsed() -> argparse.Namespace:
    """Return the options of the command line."""
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
