"""Unions, arrays and maps of Avro: which rows have which branch, and the elements of all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from .._arrow.places import BROKEN, CUT, Numbers, Places, Read
from ._schema import Avro
from ._steps import Step, in_turn, step, stretch
from ._values import number, sized, truth

_CHOICES = 2**31
_FEW = 16
"""Rows that are too few to be worth a call of numpy for each element."""


def branches_of(all_of_them: Places, count: int) -> Iterator[tuple[int, Numbers]]:
    """Yield each branch of a union that is there, with the rows that have it."""
    branch = all_of_them.zigzag()
    all_of_them.fail((branch < 0) | (branch >= count), BROKEN)
    fine = all_of_them.fault == 0
    for each in range(count):
        rows = np.flatnonzero(fine & (branch == each))
        if len(rows):
            yield each, rows


def repeats(offsets: Any, keys: Any) -> Numbers:
    """Return the rows whose map has a key twice."""
    edges = offsets.to_numpy()
    rows = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    codes = pc.dictionary_encode(keys).indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs, counts = np.unique(rows * _CHOICES + codes, return_counts=True)
    return np.unique(pairs[counts > 1] // _CHOICES)


def blocks(all_of_them: Places, read: Read, over: Step) -> Iterator[tuple[Numbers, Any]]:
    """Read the elements of arrays or maps: the first of every row, then the second, and so on.

    Yields what was read, with the rows that had it. Where few rows are left, the elements of each
    are read at once.
    """
    left = np.zeros(len(all_of_them), np.int64)
    unended = np.flatnonzero(all_of_them.fault == 0)
    while len(unended):
        begun = unended[left[unended] == 0]
        if len(begun):
            part = all_of_them.take(begun)
            left[begun] = _count(part)
            all_of_them.put(begun, part)
        unended = unended[(left[unended] > 0) & (all_of_them.fault[unended] == 0)]
        if not len(unended):
            return
        part = all_of_them.take(unended)
        if len(unended) <= _FEW < left[unended].max():
            rows, elements = stretch(part, left[unended], over, read)
            yield unended[rows], elements
            left[unended] = 0
        else:
            yield unended, read(part)
            left[unended] -= 1
        all_of_them.put(unended, part)


def _count(places_of: Places) -> Numbers:
    """Return how many elements the next block has; a negative number has its bytes beside it."""
    count = places_of.zigzag()
    negative = np.flatnonzero(count < 0)
    if len(negative):
        part = places_of.take(negative)
        part.zigzag()
        places_of.put(negative, part)
        count = np.abs(count)
    # An element takes a byte at least. The smallest number of all has no counterpart above zero.
    places_of.fail((count > places_of.end - places_of.at) | (count < 0), CUT)
    return np.where(places_of.fault == 0, count, 0)


def passed(writer: Avro) -> Read:
    """Return what passes over values that nobody asks for, and finds their faults."""
    if writer.kind == "null":
        return lambda all_of_them: None
    if writer.kind == "union":
        return _passed_union([passed(branch) for branch in writer.branches])
    if writer.kind == "record":
        return _in_turn([passed(field.type) for field in writer.fields])
    if writer.kind == "array":
        return _passed_blocks(passed(writer.within), step(writer.within))
    if writer.kind == "map":
        over = in_turn([step(Avro("string")), step(writer.within)])
        return _passed_blocks(_in_turn([sized(Avro("string")), passed(writer.within)]), over)
    if writer.kind in ("string", "bytes", "fixed"):
        return sized(writer)
    if writer.kind == "boolean":
        return truth
    plain = replace(writer, logical="")
    return number(plain, plain, "")


def _in_turn(reads: list[Read]) -> Read:
    def read(all_of_them: Places) -> None:
        for one in reads:
            one(all_of_them)

    return read


def _passed_blocks(element: Read, over: Step) -> Read:
    def read(all_of_them: Places) -> None:
        for _ in blocks(all_of_them, element, over):
            pass

    return read


def _passed_union(reads: list[Read]) -> Read:
    def read(all_of_them: Places) -> None:
        for branch, rows in branches_of(all_of_them, len(reads)):
            part = all_of_them.take(rows)
            reads[branch](part)
            all_of_them.put(rows, part)

    return read
