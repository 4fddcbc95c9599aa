"""`tidegate sizing`: capacity planning of a job from measurements."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Annotated

import typer

from ..operations.sizing import (
    MAX_FILES_PER_DAY,
    MEASUREMENTS,
    JobKind,
    ResourceNeeds,
    Workload,
    estimate_resources,
)

Kind = Annotated[JobKind, typer.Argument(help="The kind of job.")]
Rate = Annotated[float, typer.Option(help="Events per second of all inputs.")]
Keys = Annotated[
    int | None, typer.Option(help="Distinct keys at a time.", show_default="one per event")
]
Size = Annotated[str, typer.Option(help="Window size, session gap, or time bound of a join.")]
Hop = Annotated[str | None, typer.Option(help="Hop of hopping windows.")]
WatermarkDelay = Annotated[str, typer.Option(help="Watermark delay of the inputs.")]
Every = Annotated[str, typer.Option(help="Trigger interval.")]
Headroom = Annotated[float, typer.Option(help="Share of the cores to reserve for catch-up.")]
EventsPerCore = Annotated[
    int | None, typer.Option(help="Your own measurement: events per second and core.")
]
BytesPerItem = Annotated[
    int | None, typer.Option(help="Your own measurement: state bytes per window or event.")
]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]


def sizing(
    kind: Kind,
    rate: Rate,
    keys: Keys = None,
    size: Size = "1 minute",
    hop: Hop = None,
    watermark_delay: WatermarkDelay = "10 seconds",
    every: Every = "10 seconds",
    headroom: Headroom = 0.5,
    events_per_core: EventsPerCore = None,
    bytes_per_item: BytesPerItem = None,
    as_json: JsonOutput = False,
) -> None:
    """Estimate the cores, state, commits and files of a job, and its first limit.

    The estimate uses measurements of this library: see docs/operate/sizing.md.
    """
    workload = Workload(
        job_kind=kind,
        rate=rate,
        keys=keys,
        size=size,
        hop=hop,
        watermark_delay=watermark_delay,
        every=every,
        spare_capacity=headroom,
    )
    measurements = MEASUREMENTS[kind]
    if events_per_core is not None:
        measurements = replace(measurements, events_per_core=events_per_core)
    if bytes_per_item is not None:
        measurements = replace(measurements, bytes_per_item=bytes_per_item)
    needs = estimate_resources(workload, measurements)
    typer.echo(
        json.dumps(asdict(needs))
        if as_json
        else describe_needs(needs, measurements.state_contents, headroom)
    )


def describe_needs(needs: ResourceNeeds, state_unit: str, headroom: float) -> str:
    """Return the estimate as text."""
    limits = ", ".join(f"{name} {share:.0%}" for name, share in needs.limit_usage.items())
    state = (
        f"{needs.state_items:,} {state_unit}, {needs.state_bytes / 1e9:,.1f} GB on disk, "
        f"{needs.state_bytes / needs.cores / 1e6:,.0f} MB per core"
    )
    lines = [
        f"cores:   {needs.cores:,}, {headroom:.0%} reserved for catch-up",
        f"state:   {state if needs.state_items else 'none'}",
        f"commits: {needs.commits_per_day:,} per day",
        f"files:   at most {needs.files_per_day:,} per day; {MAX_FILES_PER_DAY:,} after "
        f"{MAX_FILES_PER_DAY / needs.files_per_day:,.1f} days without compaction",
        f"limits:  used: {limits}; first limit: {needs.first_limit}",
    ]
    return "\n".join(lines)
