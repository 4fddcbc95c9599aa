"""`tidegate size`: what a job needs, worked out from measured figures."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Annotated

import typer

from ..runtime.process.exit_codes import guarded
from ..runtime.sizing import MANY_FILES, MEASURED, Kind, Load, Need
from ..runtime.sizing import size as worked_out

What = Annotated[Kind, typer.Argument(help="What the job does.")]
Rate = Annotated[float, typer.Option(help="Events a second, of all inputs.")]
Keys = Annotated[int | None, typer.Option(help="Different keys at a time; all, unless given.")]
Size = Annotated[str, typer.Option(help="Of a window; a gap; how far apart joined rows may be.")]
Hop = Annotated[str | None, typer.Option(help="Of hopping windows.")]
Late = Annotated[str, typer.Option(help="The inputs' lateness.")]
Every = Annotated[str, typer.Option(help="From one batch to the next.")]
Free = Annotated[float, typer.Option(help="The share of the cores that is left for catching up.")]
Core = Annotated[int | None, typer.Option(help="Your own figure: events a second of one core.")]
Bytes = Annotated[
    int | None, typer.Option("--bytes", help="Your own figure: bytes of state of each.")
]
Machine = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]


def size(
    kind: What,
    rate: Rate,
    keys: Keys = None,
    size: Size = "1 minute",
    hop: Hop = None,
    lateness: Late = "10 seconds",
    every: Every = "10 seconds",
    free: Free = 0.5,
    a_core: Core = None,
    state: Bytes = None,
    as_json: Machine = False,
) -> None:
    """Work out what a job needs: cores, state, commits and files, and which limit comes first.

    The figures are those that were measured for this library: see docs/guides/sizing.md.
    """

    def work() -> None:
        load = Load(
            kind=kind,
            rate=rate,
            keys=keys,
            size=size,
            hop=hop,
            lateness=lateness,
            every=every,
            free=free,
        )
        figures = MEASURED[kind]
        if a_core is not None:
            figures = replace(figures, a_core=a_core)
        if state is not None:
            figures = replace(figures, bytes=state)
        need = worked_out(load, figures)
        typer.echo(json.dumps(asdict(need)) if as_json else told(need, figures.keeps, free))

    raise typer.Exit(guarded(work))


def told(need: Need, keeps: str, free: float) -> str:
    """Say what a job needs."""
    shares = ", ".join(f"{name} {share:.0%}" for name, share in need.shares.items())
    state = (
        f"{need.kept:,} {keeps}, {need.state / 1e9:,.1f} GB on disk, "
        f"{need.state / need.cores / 1e6:,.0f} MB for each core"
    )
    lines = [
        f"cores:   {need.cores:,}, of which {free:.0%} are left for catching up",
        f"state:   {state if need.kept else 'none'}",
        f"commits: {need.commits:,} a day",
        f"files:   at most {need.files:,} a day; {MANY_FILES:,} after "
        f"{MANY_FILES / need.files:,.1f} days without compaction",
        f"limits:  {shares} are used; the first is {need.first}",
    ]
    return "\n".join(lines)
