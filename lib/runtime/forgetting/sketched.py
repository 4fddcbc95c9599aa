"""Sketches in tables: what each kind keeps of the values that it was made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from ...sketches.stored import HEADER_BYTES, LABEL_BYTES, MAGIC
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
    "top": "a sketch of the most frequent values keeps these values. The scan finds a person's "
    "text among them; a number it finds in the answers alone.",
}
"""What a sketch keeps, by the first word of its label."""
_WAY = (
    "Where that counts as personal data: tidegate replay makes the tables anew, once the topic has "
    "lost the person's records."
)


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
