"""The expected current table and history of a changelog, in plain Python.

The table is computed change by change, and its history instant by instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

Position: TypeAlias = tuple[int, ...]
ENDS = ("delete", "tombstone", "truncate")


@dataclass(frozen=True)
class Change:
    """A change; `at` is in milliseconds, and `position` may be None for a tombstone."""

    op: str
    key: str | None
    value: str | None
    position: Position | None
    at: int


@dataclass(frozen=True)
class Version:
    """The value of a row from `start` to `end`, or without end if it is None."""

    key: str
    value: str | None
    start: int
    end: int | None


def current(log: Iterable[Change]) -> dict[str, str | None]:
    """Apply the changes one by one, in log order."""
    state: dict[str, tuple[Position, str | None, bool]] = {}
    floor: Position = ()
    for change in log:
        if change.key is None:
            assert change.position is not None
            floor = max(floor, change.position)
            for key, (position, _, _) in list(state.items()):
                if position < floor:
                    state[key] = (floor, None, False)
            continue
        known = state[change.key][0] if change.key in state else floor
        position = known if change.position is None else change.position
        if position >= known:
            state[change.key] = (position, change.value, change.op not in ENDS)
    return {key: value for key, (_, value, lives) in state.items() if lives}


def history(log: Sequence[Change]) -> list[Version]:
    """Compute the valid change at each instant, and merge consecutive instants of one change."""
    truncates = [change for change in log if change.key is None]
    versions = []
    for key in sorted({change.key for change in log if change.key is not None}):
        effective = _effective_changes([change for change in log if change.key == key])
        instants = sorted({change.at for change in [*effective, *truncates]})
        valid = [(at, _valid_change(effective, truncates, at)) for at in instants]
        runs = [
            (change, [at for at, _ in run])
            for change, run in groupby(valid, key=lambda pair: pair[1])
        ]
        ends = [ats[0] for _, ats in runs[1:]] + [None]
        versions += [
            Version(key, change.value, ats[0], end)
            for (change, ats), end in zip(runs, ends, strict=True)
            if change is not None and change.op not in ENDS
        ]
    return versions


def _valid_change(
    effective: Sequence[Change], truncates: Sequence[Change], at: int
) -> Change | None:
    """Return the change of a key that is valid at an instant."""
    before = [change for change in effective if change.at <= at]
    if not before:
        return None
    last = max(before, key=lambda change: (change.at, change.position, change.op == "tombstone"))
    cut = [
        t for t in truncates if last.at <= t.at <= at and (t.position or ()) > (last.position or ())
    ]
    return None if cut else last


def _effective_changes(changes: Sequence[Change]) -> list[Change]:
    """Return the changes of a key without duplicates and redundant tombstones.

    Each tombstone gets a position and a time.
    """
    placed: list[Change] = []
    known: Position = ()
    for change in changes:
        position = known if change.position is None else change.position
        known = max(known, position)
        placed.append(Change(change.op, change.key, change.value, position, change.at))
    plain = {
        change.position: index for index, change in enumerate(placed) if change.op != "tombstone"
    }
    once = [
        (change.position or (), change.op == "tombstone", index, change)
        for index, change in enumerate(placed)
        if (
            index > plain.get(change.position, -1)
            if change.op == "tombstone"
            else index == plain[change.position]
        )
    ]
    ordered = [change for *_, change in sorted(once, key=lambda entry: entry[:3])]
    effective = [
        change
        for before, change in zip([None, *ordered], ordered, strict=False)
        if not (change.op == "tombstone" and before is not None and before.op in ENDS)
    ]
    return [
        Change(
            c.op,
            c.key,
            c.value,
            c.position,
            min([c.at, *(later.at for later in ordered[ordered.index(c) + 1 :])]),
        )
        if c.op == "tombstone"
        else c
        for c in effective
    ]
