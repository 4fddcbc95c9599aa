"""JSON values that are alike but for what stands in their fields, cut out of their bytes by numpy.

Most producers write all records by one template: the same names in the same order, with the same
blanks. Where it is known between which bytes a field's values stand, they are a column of texts
without a parser, and a column of numbers by a cast.

Read here is only what is surely read as `from_json` reads it: objects without another in them,
texts without escapes, numbers, true, false and null. All else is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ._alike import Alike, Numbers, like
from ._arrow_fields import BOOLEAN, NUMBER, Field, NotPassedError, records_of, require
from ._template import Slot, Template, template_of

_ASKED = 3
"""The template is the one that most of so many values have."""
_SHARE = 8
"""Where fewer than one value in so many is alike, none is read here."""
_BARE = f"^({NUMBER}|{BOOLEAN})$"
"""Values outside of quotation marks, of a field that is not read."""


def read_alike(values: pa.Array, fields: Sequence[Field]) -> tuple[Any, Numbers] | None:
    """Return the records of values that are alike, as structs, and of each value whether it is one.

    None where too few are alike, or where one that is has to be looked at by itself.
    """
    template = _template(values)
    if template is None:
        return None
    by_name = {field.name: field for field in fields}
    for alike in _tried(values, template, by_name):
        if len(alike.starts) * _SHARE < len(values):
            return None
        records = _records(alike, by_name)
        if records is not None:
            return records, alike.rows
    return None


def _template(values: pa.Array) -> Template | None:
    if not pa.types.is_binary(values.type):
        return None
    places = np.linspace(0, len(values) - 1, min(_ASKED, len(values)), dtype=np.int64)
    asked = (template_of(value) for value in values.take(pa.array(places)).to_pylist() if value)
    found = Counter(template for template in asked if template is not None)
    return found.most_common(1)[0][0] if found else None


def _tried(values: pa.Array, template: Template, fields: Mapping[str, Field]) -> Iterator[Alike]:
    """Yield the values that are alike, then those of them whose values are of their types' form.

    To look for the form takes as long as to read them.
    """
    alike = like(values, template)
    yield alike
    formed = np.ones(len(alike.starts), bool)
    for at, slot in enumerate(template.slots):
        form = _form(slot, fields.get(slot.name))
        if form is not None:
            formed &= _match(_texts(alike, at), form)
    yield alike.only(formed)


def _form(slot: Slot, field: Field | None) -> str | None:
    """Return the pattern of what stands in a slot; None where any text may."""
    if field is not None:
        return field.form
    return None if slot.quoted else _BARE


def _records(alike: Alike, fields: Mapping[str, Field]) -> Any:
    """Return the records of all that are alike; None where one of them is not read here."""
    columns: dict[str, Any] = {}
    try:
        for at, slot in enumerate(alike.template.slots):
            field = fields.get(slot.name)
            if field is not None:
                columns[slot.name] = _column(alike, at, field)
            elif not slot.quoted:
                require(bool(_match(_texts(alike, at), _BARE).all()))
        return records_of(list(fields.values()), columns, len(alike.starts))
    except (NotPassedError, pa.ArrowException):
        return None


def _column(alike: Alike, at: int, field: Field) -> Any:
    """Return a slot's values; refuse those that are none of the field's type."""
    kind = field.parsed
    require(alike.template.slots[at].quoted == pa.types.is_string(kind))
    found = _texts(alike, at)
    if pa.types.is_string(kind):
        return found
    if pa.types.is_integer(kind):
        # A pattern takes more than twice as long as the cast.
        require(bool(_begin_whole(alike, at).all()))
        return pc.cast(found, kind)
    # Of a type without a form no value stands outside of quotation marks.
    require(field.form is not None and bool(_match(found, field.form).all()))
    return pc.equal(found, "true") if pa.types.is_boolean(kind) else pc.cast(found, kind)


def _match(texts: Any, form: str) -> Numbers:
    matches: Numbers = pc.match_substring_regex(texts, form).to_numpy(zero_copy_only=False)
    return matches


def _begin_whole(alike: Alike, at: int) -> Numbers:
    """Return which of a slot's values begin as whole numbers do; a cast refuses what is none.

    But it would take one of base 16, which begins with a zero.
    """
    first, last = alike.slot(at)
    negative = alike.data[first] == ord("-")
    digit = alike.data[first + negative]
    zero = (digit == ord("0")) & (last - first == 1)
    whole: Numbers = zero | (digit >= ord("1")) & (digit <= ord("9"))
    return whole


def _texts(alike: Alike, at: int) -> Any:
    """Return what stands in a slot."""
    first, last = alike.slot(at)
    count = len(first)
    # What is between two values is a text as well, which is left out.
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = first
    bounds[1::2] = last
    bounds[-1] = last[-1]
    both = pa.StringArray.from_buffers(2 * count, pa.py_buffer(bounds), pa.py_buffer(alike.data))
    return both.take(pa.array(np.arange(0, 2 * count, 2)))
