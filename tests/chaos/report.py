"""Reports of chaos runs: one file per run, reliability.json with all runs, and a plot."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.chaos.storm import Storm

NAME = "reliability.json"
_SUMS = ("records", "driver_kills", "broker_kills", "lost", "doubled")
_COLOURS = {"driver": "tab:red", "broker": "tab:blue", "broker, during sends": "tab:cyan"}


def run_report(name: str, seed: int, storm: Storm, tables: Mapping[str, Mapping[str, int]]) -> Any:
    """Return the report of a run as JSON."""
    met = [fault for fault in storm.faults if fault["met"]]
    drivers = sum(fault["kind"] == "driver" for fault in met)
    return {
        "job": name,
        "seed": seed,
        "records": storm.world.sent,
        "driver_kills": drivers,
        "broker_kills": len(met) - drivers,
        "lost": sum(each["lost"] for each in tables.values()),
        "doubled": sum(each["doubled"] for each in tables.values()),
        "seconds": storm.seconds,
        "ended_by_themselves": storm.ends,
        "tables": tables,
        "faults": storm.faults,
        "lag": _thinned(storm.lag),
        "python": platform.python_version(),
    }


def write(folder: Path, run: Mapping[str, Any]) -> None:
    """Write the report of a run, and update the summary of all runs in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"run-{run['job']}-{run['seed']}.json"
    file.write_text(json.dumps(run, indent=1), encoding="utf-8")
    gather(folder)


def gather(folder: Path) -> dict[str, Any]:
    """Write reliability.json with all runs of a folder and their totals, and plot them."""
    files = sorted(folder.glob("run-*.json"))
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    total = {name: sum(run[name] for run in runs) for name in _SUMS}
    gathered = {"total": total, "runs": runs}
    (folder / NAME).write_text(json.dumps(gathered, indent=1), encoding="utf-8")
    if runs:
        draw(runs, folder / "reliability.png")
    return gathered


def draw(runs: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Plot the lag of each run over time, with the faults as bands."""
    # Matplotlib is slow to import.
    from matplotlib import figure

    picture = figure.Figure(figsize=(11, 2.2 * len(runs) + 0.6), layout="constrained")
    for axes, run in zip(picture.subplots(len(runs), squeeze=False)[:, 0], runs, strict=True):
        for fault in run["faults"]:
            colour = _COLOURS[fault["kind"]] if fault["met"] else "lightgrey"
            axes.axvspan(fault["from"], fault["until"], color=colour, alpha=0.18, linewidth=0)
            axes.axvline(fault["until"], color=colour, linewidth=0.6)
        axes.plot(*zip(*run["lag"], strict=True), color="black", linewidth=0.9)
        axes.set_ylabel("records behind")
        axes.set_title(
            f"{run['job']}, seed {run['seed']}: {run['driver_kills']} kills of the driver (red), "
            f"{run['broker_kills']} of the broker (blue); {run['lost']} lost, "
            f"{run['doubled']} doubled",
            fontsize=9,
        )
    axes.set_xlabel("seconds")
    picture.savefig(file, dpi=110)


def _thinned(lag: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Remove points between equal neighbours."""
    thinned = list(lag[:1])
    for before, each, after in zip(lag, lag[1:], lag[2:], strict=False):
        if not before[1] == each[1] == after[1]:
            thinned.append(each)
    return [*thinned, *lag[-1:]] if len(lag) > 1 else thinned
