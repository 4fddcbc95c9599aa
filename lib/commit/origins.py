"""How a checkpoint's batches began, where that is not with the first offsets of its stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..offsets import EventTimes, Offsets
from .hashed import digest
from .plan_file import by_partition


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """How a new checkpoint goes on where a lost one ended.

    query: the query whose tables it goes on with, by which its commits are told.
    base: the number of its first batch in those tables.
    start: the offsets that it begins with.
    whole: results at this instant or before it are left out, since the state that they need is
        lost; in microseconds since 1970. None leaves nothing out.
    newest: where rows are late by the log, what was newest in each partition at the start.
    """

    query: str
    base: int
    start: Offsets
    whole: int | None = None
    newest: EventTimes | None = None


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """What a new checkpoint has read as one batch, before its stream begins.

    query: the query by which the commits of both are told.
    start, end: the offsets that the batch reads, end exclusive.
    again: the offsets at which the stream begins: rows from there on may matter to its results.
    until: results before this instant are the batch's, all others the stream's, in microseconds
        since 1970; None where no state is kept, and a row's result is where the row is.
    newest: where rows are late by the log, what was newest in each partition at `end`.
    """

    query: str
    start: Offsets
    end: Offsets
    again: Offsets
    until: int | None
    newest: EventTimes | None = None

    @property
    def digest(self) -> str:
        """A hash of what the batch reads, by which its commits are told from those of another."""
        found = asdict(self)
        # It follows from the others; and commits of before it was noted keep their hash.
        del found["newest"]
        return digest(found)

    @property
    def newest_again(self) -> EventTimes | None:
        """What was newest at `again`, as far as rows from there on can hang on it.

        In a partition of which rows are read again the first that results need is newer than all
        before it; what comes before that one is too old for them, late or not.
        """
        if self.newest is None:
            return None
        return {
            topic: {
                part: time
                for part, time in parts.items()
                if self.again[topic][part] == self.end[topic][part]
            }
            for topic, parts in self.newest.items()
        }

    @property
    def whole(self) -> int | None:
        """The last instant whose results are the batch's, in microseconds since 1970."""
        return None if self.until is None else self.until - 1


def resumed(found: Mapping[str, Any] | None) -> Resumed | None:
    """Return what a file says of a lost checkpoint."""
    if found is None:
        return None
    return Resumed(**{**found, **_places(found, "start", "newest")})


def backlog(found: Mapping[str, Any] | None) -> Backlog | None:
    """Return what a file says of a batch before the stream."""
    if found is None:
        return None
    return Backlog(**{**found, **_places(found, "start", "end", "again", "newest")})


def _places(found: Mapping[str, Any], *names: str) -> dict[str, dict[str, dict[int, int]]]:
    return {name: by_partition(found[name]) for name in names if found.get(name) is not None}
