"""Which of many JSON values are written by one template, and where their fields' values are.

The places of the quotation marks tell it: between these the template's texts begin, and whether a
text is there is asked of all values at once, eight bytes at a time.

Values with escapes, with control characters or with bytes that are no UTF-8 are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ._options import LONGEST
from ._template import Template

Numbers: TypeAlias = npt.NDArray[Any]
_DIGITS = 300
"""Bytes of a number; Spark's parser takes some more."""
_WORD = 8
"""Bytes that are compared at once."""
_ASCII = 127


@dataclass(frozen=True)
class Alike:
    """Those of many values that have a template.

    data: the bytes of all values, with room for a word behind them.
    rows: which values these are.
    starts, ends: where each begins and ends.
    marks: where its quotation marks are, a row each.
    """

    template: Template
    data: Numbers
    rows: Numbers
    starts: Numbers
    ends: Numbers
    marks: Numbers

    def only(self, some: Numbers) -> Alike:
        """Return some of them alone."""
        if some.all():
            return self
        rows = self.rows.copy()
        rows[rows] = some
        kept = (each[some] for each in (self.starts, self.ends, self.marks))
        return Alike(self.template, self.data, rows, *kept)

    @cached_property
    def texts(self) -> list[Numbers]:
        """Where each of the template's texts begins, if it is there."""
        found = [self.starts]
        before = 0
        for text, following in zip(self.template.texts, self.template.texts[1:], strict=False):
            before += text.count(b'"')
            found.append(self.marks[:, min(before, self.marks.shape[1] - 1)] - following.find(b'"'))
        found[-1] = self.ends - len(self.template.texts[-1])
        return found

    def slot(self, at: int) -> tuple[Numbers, Numbers]:
        """Return where a slot's value begins and ends."""
        return self.texts[at] + len(self.template.texts[at]), self.texts[at + 1]

    def fit(self) -> Numbers:
        """Return which of them have all of the texts, and something in each slot."""
        fit: Numbers = self.ends - self.starts <= LONGEST
        for text, begins in zip(self.template.texts, self.texts, strict=True):
            fit = fit & self._have(text, begins)
        for at, slot in enumerate(self.template.slots):
            first, last = self.slot(at)
            fit = fit & (first <= last)
            if not slot.quoted:
                # Where null stands in place of a number, another template holds.
                null = self.data[np.minimum(first, len(self.data) - 1)] == ord("n")
                fit = fit & (first < last) & (last - first <= _DIGITS) & ~null
        return fit

    def _have(self, text: bytes, begins: Numbers) -> Numbers:
        """Return where a text stands at its place, which may be outside of all values."""
        size = len(self.data) - _WORD + 1
        words = np.ndarray(size, "<u8", self.data, strides=(1,))
        have = np.ones(len(begins), bool)
        for at in range(0, len(text), _WORD):
            part = text[at : at + _WORD]
            found = words[np.clip(begins + at, 0, size - 1)]
            beyond = np.uint64(8 * (_WORD - len(part)))
            have &= found << beyond == np.uint64(int.from_bytes(part, "little")) << beyond
        return have


def like(values: pa.Array, template: Template) -> Alike:
    """Return those of the values that have the template."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)
    offsets = offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)
    inside = slice(offsets[0], offsets[-1])
    bounds = offsets - offsets[0]
    data = np.empty(bounds[-1] + _WORD, np.uint8)
    data[:-_WORD] = np.frombuffer(values.buffers()[2], np.uint8)[inside]
    data[-_WORD:] = 0

    rows, marks = _with_marks(data, bounds, b"".join(template.texts).count(b'"'))
    same = Alike(template, data, rows, bounds[:-1][rows], bounds[1:][rows], marks)
    plain = same.only(_are_plain(values, data[:-_WORD], bounds)[rows])
    return plain.only(plain.fit())


def _with_marks(data: Numbers, bounds: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Return which values have so many quotation marks, and where these are, a row a value."""
    places = np.flatnonzero(data == ord('"'))
    starts, ends = bounds[:-1], bounds[1:]
    if len(places) == count * len(starts):
        marks = places.reshape(-1, count)
        if (marks[:, 0] >= starts).all() and (marks[:, -1] < ends).all():
            return np.ones(len(starts), bool), marks
    of_each = np.diff(np.searchsorted(places, bounds))
    rows = of_each == count
    return rows, places[np.repeat(rows, of_each)].reshape(-1, count)


def _are_plain(values: pa.Array, data: Numbers, bounds: Numbers) -> Numbers:
    """Return which values are UTF-8 without control characters and escapes."""
    plain: Numbers = values.is_valid().to_numpy(zero_copy_only=False).copy()
    for odd in (data < ord(" "), data == ord("\\")):
        if odd.any():
            plain[_rows(np.flatnonzero(odd), bounds)] = False
    if data.max() > _ASCII:
        plain[_not_utf8(values)] = False
    return plain


def _not_utf8(values: pa.Array, at: int = 0) -> list[int]:
    """Return which values are not UTF-8, found by halves."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        if len(values) == 1:
            return [at]
        half = len(values) // 2
        return _not_utf8(values[:half], at) + _not_utf8(values[half:], at + half)
    return []


def _rows(places: Numbers, bounds: Numbers) -> Numbers:
    """Return in which values the places are."""
    found: Numbers = np.searchsorted(bounds, places, side="right") - 1
    return found
