"""The expected current table and history of a changelog, in plain Python.

The table is computed change by change, and its history instant by instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

Position: TypeAlias = tuple[int, ...]
ENDS = ("delete", "tombstone", "truncate")


@dataclass(frozen=True)
class Change:
    """A change; `at` is in milliseconds, and `position` may be None.

    Snapshot rows and tombstones have no position.
    """

    op: str
    key: str | None
    value: str | None
    position: Position | None
    at: int


@dataclass(frozen=True)
class _State:
    """The row of a key, and the position and the time of its last change that has a position."""

    position: Position | None
    committed_at: int
    value: str | None
    lives: bool

    def is_replaced_by(self, change: Change) -> bool:
        """Return whether a later change in the log has an effect."""
        if change.position is None or self.position is None:
            return True
        is_repeated = change.position == self.position
        return change.position > self.position or (
            not is_repeated and change.at > self.committed_at
        )

    def after(self, change: Change) -> _State:
        lives = change.op not in ENDS
        value = change.value if lives else None
        if change.position is not None:
            return _State(change.position, change.at, value, lives)
        if change.op == "tombstone":
            return _State(None, 0, None, False)
        return _State(self.position, self.committed_at, value, lives)


@dataclass(frozen=True)
class Version:
    """The value of a row from `start` to `end`, or without end if it is None."""

    key: str
    value: str | None
    start: int
    end: int | None


def current(log: Iterable[Change]) -> dict[str, str | None]:
    """Apply the changes one by one, in log order."""
    states: dict[str, _State] = {}
    truncated: _State | None = None
    nothing = _State(None, 0, None, False)
    for change in log:
        if change.key is None:
            if truncated is None or truncated.is_replaced_by(change):
                truncated = (truncated or nothing).after(change)
            for key, state in states.items():
                if state.is_replaced_by(change):
                    states[key] = state.after(change)
            continue
        state = states.get(change.key, truncated or nothing)
        is_redundant = change.op == "tombstone" and change.key in states and not state.lives
        if state.is_replaced_by(change) and not is_redundant:
            states[change.key] = state.after(change)
    return {key: state.value for key, state in states.items() if state.lives}


@dataclass(frozen=True)
class _Logged:
    """A change with its index in the log, and its time."""

    change: Change
    at: int
    index: int

    def follows(self, other: _Logged) -> bool:
        """Return whether the change is after another one in the order of changes."""
        position, other_position = self.change.position, other.change.position
        is_later = self.index >= other.index
        if position is None or other_position is None:
            return is_later
        begins_again = position < other_position and self.at > other.at
        return position > other_position or (begins_again and is_later)


def history(log: Sequence[Change]) -> list[Version]:
    """Compute the valid change at each instant, and merge consecutive instants of one change."""
    logged = [_Logged(change, change.at, index) for index, change in enumerate(log)]
    truncates = [each for each in logged if each.change.key is None]
    versions = []
    for key in sorted({change.key for change in log if change.key is not None}):
        effective = _effective_changes([each for each in logged if each.change.key == key])
        instants = sorted({each.at for each in [*effective, *truncates]})
        valid = [(at, _valid_change(effective, truncates, at)) for at in instants]
        runs = [
            (None if each is None else each.change, [at for at, _ in run])
            for each, run in groupby(valid, key=lambda pair: pair[1])
        ]
        ends = [ats[0] for _, ats in runs[1:]] + [None]
        versions += [
            Version(key, change.value, ats[0], end)
            for (change, ats), end in zip(runs, ends, strict=True)
            if change is not None and change.op not in ENDS
        ]
    return versions


def _valid_change(
    effective: Sequence[_Logged], truncates: Sequence[_Logged], at: int
) -> _Logged | None:
    """Return the change of a key that is valid at an instant."""
    before = [each for each in effective if each.at <= at]
    if not before:
        return None
    latest = max(each.at for each in before)
    at_once = [each for each in before if each.at == latest]
    by_log = all(each.change.position is not None for each in at_once)
    last = max(at_once, key=lambda each: (each.change.position or ()) if by_log else (each.index,))
    cut = [t for t in truncates if last.at <= t.at <= at and t.follows(last)]
    return None if cut else last


def _effective_changes(changes: Sequence[_Logged]) -> list[_Logged]:
    """Return the changes of a key without repeats and redundant tombstones.

    The time of a tombstone or a row of a snapshot is at most that of the next change.
    """
    once: list[_Logged] = []
    known: set[Position] = set()
    previous = None
    for each in changes:
        position, op = each.change.position, each.change.op
        is_redundant = op == "tombstone" and previous in ENDS
        if position not in known and not is_redundant:
            once.append(each)
        known |= set() if position is None else {position}
        previous = op
    effective = []
    for index, each in enumerate(once):
        if each.change.op in ("tombstone", "snapshot"):
            time = min([each.at, *(later.at for later in once[index + 1 :])])
            each = replace(each, at=time)
        effective.append(each)
    return effective
