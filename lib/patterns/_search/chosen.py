"""Which matches come out, and when: where the next one may begin after one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .events import Events, Flags, Ints
from .nodes import Nodes
from .search import Found


@dataclass(frozen=True)
class Chosen:
    """What became of each beginning up to an instant.

    out: which of them come out, as a match or as a time-out. open: which are not decided yet.
    decided: from when that is certain, in microseconds.
    """

    out: Flags
    open: Flags
    decided: Ints


def to_next(found: Found, until: int, *, timeouts: bool) -> Chosen:
    """Choose every match, whatever other ones hold the same events."""
    known = found.decided < until
    return Chosen(known & _comes_out(found, timeouts=timeouts), ~known, found.decided)


def past_last(found: Found, events: Events, until: int, *, timeouts: bool) -> Chosen:
    """Choose matches that begin after the last event of the one chosen before, key by key.

    So a beginning waits for those before it, and is certain once all of them are that count.
    """
    known = found.decided < until
    code = events.code[found.begin]
    first = np.diff(code, prepend=code[:1] - 1) != 0
    reached = _reached(first, _followers(found, known, code))
    blocked = _from_first(first, reached & ~known)
    decided = _highest_so_far(first, np.where(reached, found.decided, found.decided.min(initial=0)))
    out = reached & known & _comes_out(found, timeouts=timeouts)
    return Chosen(out, blocked, np.where(reached, decided, found.decided))


def _comes_out(found: Found, *, timeouts: bool) -> Flags:
    return found.matched | found.waited if timeouts else found.matched


def _followers(found: Found, known: Flags, code: Ints) -> Ints:
    """Return which beginning is asked after each; one more than there are for none."""
    nowhere = len(found.begin)
    last = np.where(found.matched, found.nodes.row(Nodes.EVENT)[found.node], found.begin)
    follower = np.searchsorted(found.begin, last, side="right")
    inside = np.minimum(follower, nowhere - 1)
    same = (follower < nowhere) & (code[inside] == code)
    return np.where(known & same, follower, nowhere)


def _reached(first: Flags, follower: Ints) -> Flags:
    """Return which beginnings are asked, from each key's first on, in log n rounds."""
    reached = np.append(first, False)
    ahead = np.append(follower, len(follower))
    for _ in range(len(follower).bit_length()):
        reached[ahead[reached]] = True
        ahead = ahead[ahead]
    return reached[:-1]


def _from_first(first: Flags, marked: Flags) -> Flags:
    """Return what stands at or after a marked place of the same key."""
    count = np.cumsum(marked)
    begin = np.flatnonzero(first)
    before: Ints = np.repeat(count[begin] - marked[begin], np.diff(begin, append=len(first)))
    found: Flags = count > before
    return found


def _highest_so_far(first: Flags, values: Ints) -> Ints:
    instants, rank = np.unique(values, return_inverse=True)
    # Each key's ranks are above those of the keys before it.
    key = np.cumsum(first) * len(instants)
    highest: Ints = np.maximum.accumulate(key + rank) - key
    return instants[highest]
