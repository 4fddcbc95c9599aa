"""What was found of a replay, as a table for people."""

from __future__ import annotations

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from .found import Held


def shown(held: Held) -> Group:
    """Return the differences, rows of each, and some of the reasons."""
    found = held.found
    rows = Table("table", *(Column(name, justify="right") for name in ("job", "replay")), box=None)
    for step, (then, now) in held.rows.items():
        rows.add_row(step, f"{then:,}", f"{now:,}")
    up_to = "" if held.until is None else f" up to {held.until.isoformat()}"
    if held.since is not None:
        up_to = f" after {held.since.isoformat()}{up_to}"
    lines = [
        f"{held.target} beside {held.replayed}, results{up_to}: {found.rows:,} rows in the job's, "
        f"of these {found.missing:,} in it alone; {found.extra:,} in the replay's alone; "
        f"{found.different:,} different."
    ]
    if held.before:
        lines.append(
            f"Of before the replay's start, and not compared: {held.before:,} rows of the job's."
        )
    if sum(held.late):
        then, now = held.late
        lines.append(f"Late in the job alone: {then:,} rows; late in the replay alone: {now:,}.")
    rest = held.unexplained
    if rest is not None and rest.agree:
        lines.append("All differences are in windows of these rows.")
    elif rest is not None:
        lines.append(
            f"In other windows than those of these rows: {rest.missing:,} in the job's alone, "
            f"{rest.extra:,} in the replay's alone, {rest.different:,} different."
        )
    if held.columns:
        lines.append(f"Not compared, since one table alone has it: {', '.join(held.columns)}.")
    words = {"expected: ": "job's: ", "found: ": "replay's: "}
    for sample in found.samples:
        side = next(each for each in words if sample.startswith(each))
        lines.append(f"  {words[side]}{sample.removeprefix(side)}")
    return Group(rows, *map(Text, lines))
