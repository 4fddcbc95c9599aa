"""Sketches in tables: what each kind keeps of the values that it was made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from struct import pack
from typing import Any

import pyarrow.compute as pc

from ...sketches.stored import HEADER_BYTES, LABEL_BYTES, MAGIC
from .person import Person
from .places import Root
from .report import Left

KEEPS: Mapping[str, str] = {
    "distinct": "a HyperLogLog keeps no value and no hash: of nobody can be said whether they "
    "were counted.",
    "theta": "a theta set keeps hashes of a part of its values, and no value: who knows a value "
    "may find it there.",
    "members": "a Bloom filter keeps bits, and no value: a guess at a value can be confirmed, "
    "with some errors.",
    "quantile": "a sketch of quantiles keeps a part of the numbers that it was made of, without "
    "whose they are.",
    "top": "a sketch of the most frequent values keeps these values. The scan finds a person "
    "among them by text of four letters or more, and by a number of eight digits or more.",
}
"""What a sketch keeps, by the first word of its label."""
_TOP = b"top "
_WAY = (
    "Where that counts as personal data: tidegate replay makes the tables anew, once the topic has "
    "lost the person's records."
)


TOP_LEFT = (
    "a sketch of the most frequent values has the person among them, and cannot forget one.",
    "tidegate replay makes the table anew, once the topic has lost the person's records; or delete "
    "the rows of these windows: --where TABLE:COLUMN=VALUE by a column that they have, such as the "
    "answer's own, views:users.value=alice.",
)
"""Why a person stays in a sketch, and what can be done."""
_WHOLE = (("<i", 32), ("<q", 64))
"""How a sketch of whole numbers spells one, and in how many bits."""


@dataclass(frozen=True)
class Sketch:
    """Sketches of one kind in a column of a table."""

    place: str
    column: str
    kind: str


def kinds(values: Any) -> Counter[str]:
    """Return how many sketches of each kind a plain column has."""
    if str(values.type) not in ("binary", "large_binary"):
        return Counter()
    own = values.filter(pc.starts_with(values, MAGIC.decode()))
    labels = pc.binary_slice(own, HEADER_BYTES - LABEL_BYTES, HEADER_BYTES)
    counted = pc.value_counts(labels).to_pylist() if len(own) else []
    found: Counter[str] = Counter()
    for each in counted:
        found[each["values"].split()[0].decode("ascii", "replace")] += each["counts"]
    return found


def among_top(values: Any, person: Person) -> int:
    """Return how many sketches of frequent numbers hold one of the person's numbers."""
    if str(values.type) not in ("binary", "large_binary"):
        return 0
    own = values.filter(pc.starts_with(values, f"{MAGIC.decode()}\x01"))
    tops = [each for each in own.to_pylist() if each[HEADER_BYTES - LABEL_BYTES :].startswith(_TOP)]
    spelt = [
        pack(form, int(each.value))
        for each in person.identifiers
        if each.distinct and each.value.isdecimal()
        for form, bits in _WHOLE
        if int(each.value) < 1 << (bits - 1)
    ]
    return sum(any(number in each[HEADER_BYTES:] for number in spelt) for each in tops)


def sketches_left(root: Root, found: Mapping[Sketch, int]) -> Iterable[Left]:
    """Tell of the sketches in tables what they keep."""
    for each, number in sorted(found.items(), key=lambda pair: repr(pair[0])):
        yield Left(
            path=root.of(each.place),
            where=f"{each.column}: {each.kind}",
            count=number,
            why=KEEPS.get(each.kind, "a sketch of another kind."),
            way=_WAY,
            counts=False,
        )
