"""Where the elements of one long array begin: found one by one, so that all can be read at once.

An array of one row has no other rows beside it whose elements could be read in the same call. Its
elements are only stepped over here; what they hold, and whether it is as it should be, is read
afterwards, as if each element were a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .._arrow.places import BROKEN, Numbers, Places, Read
from ._schema import Avro

Step: TypeAlias = Callable[[bytes, int], int]
"""Returns the place after a value; raises IndexError or ValueError where there is none."""

_MOST_BYTES = 10


def step(kind: Avro) -> Step:
    """Return what steps over a value."""
    if kind.kind == "null":
        return lambda data, at: at
    if kind.kind in ("boolean", "float", "double", "fixed"):
        size = {"boolean": 1, "float": 4, "double": 8}.get(kind.kind, kind.size)
        return lambda data, at: _inside(data, at + size)
    if kind.kind in ("string", "bytes"):
        return _over_length
    if kind.kind == "record":
        return in_turn([step(field.type) for field in kind.fields])
    if kind.kind == "union":
        return _over_union([step(branch) for branch in kind.branches])
    if kind.kind == "array":
        return _over_blocks(step(kind.within))
    if kind.kind == "map":
        return _over_blocks(in_turn([_over_length, step(kind.within)]))
    return lambda data, at: _number(data, at)[1]


def in_turn(steps: list[Step]) -> Step:
    """Return what steps over several values."""

    def over(data: bytes, at: int) -> int:
        for one in steps:
            at = one(data, at)
        return at

    return over


def _inside(data: bytes, at: int) -> int:
    if at > len(data):
        raise ValueError
    return at


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for after in range(at + 1, at + 1 + _MOST_BYTES):
        byte = data[after - 1]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), after
        shift += 7
    raise ValueError


def _over_length(data: bytes, at: int) -> int:
    length, after = _number(data, at)
    if length < 0:
        raise ValueError
    return _inside(data, after + length)


def _over_union(steps: list[Step]) -> Step:
    def over(data: bytes, at: int) -> int:
        branch, after = _number(data, at)
        if branch < 0:
            raise ValueError
        return steps[branch](data, after)

    return over


def _over_blocks(element: Step) -> Step:
    def over(data: bytes, at: int) -> int:
        while True:
            count, at = _number(data, at)
            if count == 0:
                return at
            if count < 0:
                _, at = _number(data, at)
            for _ in range(min(abs(count), len(data) + 1)):
                at = element(data, at)

    return over


def stretch(places: Places, left: Numbers, over: Step, read: Read) -> tuple[Numbers, object]:
    """Read so many elements of each of a few rows at once.

    Returns the number of the row of each element, and what was read.
    """
    rows = []
    starts = []
    ends = []
    for row, count in enumerate(left.tolist()):
        first = int(places.at[row])
        last = int(places.end[row])
        content = places.data[first:last].tobytes()
        edges = [first + edge for edge in _edges(content, count, over)]
        # What cannot be stepped over is read up to the end, and its fault is found.
        if len(edges) <= count:
            edges.append(last)
        rows.append(np.full(len(edges) - 1, row))
        starts.append(np.array(edges[:-1], np.int64))
        ends.append(np.array(edges[1:], np.int64))
    of_row = np.concatenate(rows)
    elements = Places(
        places.data,
        np.concatenate(starts),
        np.concatenate(ends),
        places.fault[of_row],
        places.faults,
    )
    to = elements.end.copy()
    found = read(elements)
    elements.fail(elements.at != to, BROKEN)
    _note(places, of_row, elements, to)
    return of_row, found


def _edges(data: bytes, count: int, over: Step) -> list[int]:
    """Return where each element begins, and where the last one ends that can be stepped over."""
    found = [0]
    try:
        for _ in range(count):
            found.append(over(data, found[-1]))
    except (IndexError, ValueError):
        pass
    return found


def _note(places: Places, of_row: Numbers, elements: Places, to: Numbers) -> None:
    """Move each row to the end of its elements; the first fault of these is the row's."""
    places.at[of_row] = to
    faulty = np.flatnonzero(elements.fault)
    rows, first = np.unique(of_row[faulty], return_index=True)
    places.fault[rows] = elements.fault[faulty[first]]
    places.at[rows] = places.end[rows]
