"""JSON values that are alike but for what stands in their fields, cut out of their bytes by numpy.

Most producers write all records by one template: the same names in the same order, with the same
blanks. Then the places of the quotation marks tell where each field's value begins and ends, and a
column is cut out of all records at once, without a parser.

Read here is only what is surely read as `from_json` reads it: objects without another in them,
texts without escapes, numbers, true, false and null. All else is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ._arrow_fields import Field, NotPassedError, records_of, require
from ._template import Template, template_of

Numbers: TypeAlias = npt.NDArray[Any]
_ASKED = 3
"""The template is the one that most of so many values have."""
_SHARE = 8
"""Where fewer than one value in so many is alike, none is read here."""
_LONGEST = 50_000
"""Bytes of a value within which no name is longer than Spark's parser takes."""
_DIGITS = 300
"""Bytes of a number; Spark's parser takes some more."""
_WORD = 8
"""Bytes that are compared at once."""
_ASCII = 127
_NUMBER = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_BOOLEAN = "true|false"


def read_alike(values: pa.Array, fields: Sequence[Field]) -> tuple[Any, Numbers] | None:
    """Return the records of values that are alike, as structs, and of each value whether it is one.

    None where too few are alike, or where one that is has to be looked at by itself.
    """
    template = _template(values)
    if template is None:
        return None
    alike = _like(values, template)
    if len(alike.starts) * _SHARE < len(values):
        return None
    by_name = {field.name: field for field in fields}
    columns: dict[str, Any] = {}
    try:
        for at, slot in enumerate(template.slots):
            field = by_name.get(slot.name)
            if field is not None:
                columns[slot.name] = alike.column(at, field.parsed)
            elif not slot.quoted:
                alike.require_bare(at)
        return records_of(fields, columns, len(alike.starts)), alike.rows
    except (NotPassedError, pa.ArrowException):
        return None


def _template(values: pa.Array) -> Template | None:
    if not pa.types.is_binary(values.type):
        return None
    places = np.linspace(0, len(values) - 1, min(_ASKED, len(values)), dtype=np.int64)
    asked = (template_of(value) for value in values.take(pa.array(places)).to_pylist() if value)
    found = Counter(template for template in asked if template is not None)
    return found.most_common(1)[0][0] if found else None


@dataclass(frozen=True)
class _Alike:
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

    def only(self, some: Numbers) -> _Alike:
        """Return some of them alone."""
        if some.all():
            return self
        rows = self.rows.copy()
        rows[rows] = some
        kept = (each[some] for each in (self.starts, self.ends, self.marks))
        return _Alike(self.template, self.data, rows, *kept)

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
        fit: Numbers = self.ends - self.starts <= _LONGEST
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

    def column(self, at: int, kind: pa.DataType) -> Any:
        """Return a slot's values; refuse those that are none of the type."""
        quoted = self.template.slots[at].quoted
        require(quoted == pa.types.is_string(kind))
        if pa.types.is_integer(kind):
            self._require_whole(*self.slot(at))
            return pc.cast(self._cut(at), kind)
        if pa.types.is_floating(kind):
            return pc.cast(self._formed(at, _NUMBER), kind)
        if pa.types.is_boolean(kind):
            return pc.equal(self._formed(at, _BOOLEAN), "true")
        require(quoted)
        return self._cut(at)

    def require_bare(self, at: int) -> None:
        """Refuse what is no number, nor true or false."""
        self._formed(at, f"{_NUMBER}|{_BOOLEAN}")

    def _formed(self, at: int, form: str) -> Any:
        found = self._cut(at)
        require(pc.all(pc.match_substring_regex(found, f"^({form})$"), min_count=0).as_py())
        return found

    def _require_whole(self, first: Numbers, last: Numbers) -> None:
        """Refuse numbers that do not begin as a whole one does; whether it is one, a cast tells."""
        negative = self.data[first] == ord("-")
        digit = self.data[first + negative]
        zero = (digit == ord("0")) & (last - first == 1)
        require(bool((zero | (digit >= ord("1")) & (digit <= ord("9"))).all()))

    def _cut(self, at: int) -> Any:
        """Return what stands in a slot as texts."""
        first, last = self.slot(at)
        count = len(first)
        # What is between two of them is a text as well, which is left out.
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2] = first
        offsets[1::2] = last
        offsets[-1] = last[-1]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        both = pa.StringArray.from_buffers(2 * count, buffers[1], buffers[2])
        return both.take(pa.array(np.arange(0, 2 * count, 2)))


def _like(values: pa.Array, template: Template) -> _Alike:
    """Return those of the values that have the template."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)
    offsets = offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)
    inside = slice(offsets[0], offsets[-1])
    bounds = offsets - offsets[0]
    data = np.empty(bounds[-1] + _WORD, np.uint8)
    data[:-_WORD] = np.frombuffer(values.buffers()[2], np.uint8)[inside]
    data[-_WORD:] = 0

    rows, marks = _with_marks(data, bounds, b"".join(template.texts).count(b'"'))
    same = _Alike(template, data, rows, bounds[:-1][rows], bounds[1:][rows], marks)
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
