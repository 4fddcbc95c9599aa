"""A soak test: a continuous job at a constant rate must not grow in memory, threads or files."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.chaos.measurements import Gauges, Use, committed, used
from tests.chaos.scenarios import Windows
from tests.chaos.storm import differences, idle
from tests.support.delta_tables import rows
from tests.support.spark_submit import SubmittedJob
from tidegate.testing import Broker
from tidegate.testing.child_process import wait_until

SPEED = 200.0
"""Records per second."""
_EVERY_SECONDS = 5.0
_LEVEL = 1.1
"""Usage is constant if the median of the last third is at most this multiple of the second's."""


class Steady(Windows):
    """Page views whose event time advances in real time."""

    rate = SPEED


def soak(seed: int, minutes: float, out: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Run page_views for some minutes, stop it with SIGTERM, and compare tables and usage."""
    with tempfile.TemporaryDirectory(prefix="tidegate-soak-") as scratch, Broker.start() as broker:
        world = Steady(broker, "soak", int(minutes * 60 * SPEED), seed)
        root = Path(scratch) / "tables"
        options = {
            **world.options(1),
            "trigger.kind": "continuous",
            "trigger.interval": f"{_EVERY_SECONDS:g} seconds",
        }
        job = SubmittedJob("page_views", root, Path(scratch) / "job.log", options)

        def read() -> int:
            return committed(root / "_checkpoints" / "page_views")

        process = job.started()
        taken: list[Use] = []
        try:
            with Gauges(read) as gauges:
                while world.sent < world.count:
                    due = gauges.now + _EVERY_SECONDS
                    world.send(int(SPEED * _EVERY_SECONDS))
                    process.require_alive()
                    taken.append(used(process.pid))
                    idle(max(0.0, due - gauges.now))
                    if len(taken) % 12 == 0:
                        say(f"{gauges.now:6.0f} s  {taken[-1]}")
                wait_until(
                    lambda: read() >= world.sent,
                    timeout=120,
                    event="the last record's batch",
                    process=process,
                )
        finally:
            process.stop(timeout=60)
        # Windows that the watermark of the last batch closed are emitted at the next start.
        ended = SubmittedJob("page_views", root, Path(scratch) / "end.log", world.options(1)).run()
        say(str(ended))
        result = {
            "minutes": minutes,
            "records": world.sent,
            "level": level(taken),
            "tables": differences(world, root, {"deltalake": rows}),
        }
    out.mkdir(parents=True, exist_ok=True)
    (out / f"soak-{seed}.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    return result


def problems(result: Mapping[str, Any]) -> list[str]:
    """Return the problems of a soak: growing use of resources, and lost or duplicated rows."""
    before, after = result["level"].values()
    grown = [
        f"{what} grew from {before[what]:,.0f} to {after[what]:,.0f}"
        for what in before
        if after[what] > _LEVEL * before[what]
    ]
    unequal = [
        f"{name}: {table['lost']} lost, {table['doubled']} doubled"
        for name, table in result["tables"].items()
        if table["lost"] or table["doubled"]
    ]
    return grown + unequal


def level(taken: Sequence[Use]) -> dict[str, Any]:
    """Return the medians of the second and the last third; equal medians mean no growth."""
    third = len(taken) // 3
    parts = {"second third": taken[third : 2 * third], "last third": taken[2 * third :]}
    return {
        name: {
            what: statistics.median(getattr(use, what) for use in uses)
            for what in ("memory", "threads", "files")
        }
        for name, uses in parts.items()
    }
