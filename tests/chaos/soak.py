"""A job that runs on while records come at one speed: its memory, threads and files stay level."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.testing import Broker
from tidegate.testing.process import until

from ..crash.submitted import SubmittedJob
from ..tables import rows
from .gauges import Gauges, Use, committed, used
from .storm import differences, idle
from .worlds import Windows

SPEED = 200.0
"""Records a second."""
_EVERY_SECONDS = 5.0
_LEVEL = 1.1
"""What is held is level where the last third's median is not above this share of the second's."""


class Steady(Windows):
    """Page views whose event time goes as fast as their sending."""

    rate = SPEED


def soak(seed: int, minutes: float, out: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Run page views for so many minutes, stop the job by SIGTERM, and compare tables and use."""
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
                until(
                    lambda: read() >= world.sent,
                    within=120,
                    what="the last record's batch",
                    process=process,
                )
        finally:
            process.stop(within=60)
        # What the watermark of the last batch closed comes out at the next start.
        ended = SubmittedJob("page_views", root, Path(scratch) / "end.log", world.options(1)).run()
        say(str(ended))
        told = {
            "minutes": minutes,
            "records": world.sent,
            "level": level(taken),
            "tables": differences(world, root, {"deltalake": rows}),
        }
    out.mkdir(parents=True, exist_ok=True)
    (out / f"soak-{seed}.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    return told


def problems(told: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a soak: what a process held more and more of, and rows that are
    lost or there twice."""
    before, after = told["level"].values()
    grown = [
        f"{what} grew from {before[what]:,.0f} to {after[what]:,.0f}"
        for what in before
        if after[what] > _LEVEL * before[what]
    ]
    unequal = [
        f"{name}: {table['lost']} lost, {table['doubled']} doubled"
        for name, table in told["tables"].items()
        if table["lost"] or table["doubled"]
    ]
    return grown + unequal


def level(taken: Sequence[Use]) -> dict[str, Any]:
    """Return the medians of the second and the last third: where they are equal nothing grows."""
    third = len(taken) // 3
    parts = {"second third": taken[third : 2 * third], "last third": taken[2 * third :]}
    return {
        name: {
            what: statistics.median(getattr(use, what) for use in uses)
            for what in ("memory", "threads", "files")
        }
        for name, uses in parts.items()
    }
