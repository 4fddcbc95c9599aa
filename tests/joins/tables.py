"""Two changing tables in plain Python, and the join of them as SQL has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from hypothesis import strategies as st

Kind = Literal["inner", "left", "full"]
KINDS: tuple[Kind, ...] = ("inner", "left", "full")

Row: TypeAlias = tuple[str | None, str]
"""Join key and value."""
Table: TypeAlias = Mapping[int, Row]
"""By primary key."""
Joined: TypeAlias = tuple[str | None, int | None, str | None, int | None, str | None]
"""Join key; primary key and value of the left; of the right."""

KEYS = st.sampled_from(["a", "b", "c", None])
tables = st.dictionaries(st.integers(0, 5), st.tuples(KEYS, st.sampled_from("xyz")), max_size=6)


def joined(left: Table, right: Table, how: Kind) -> Counter[Joined]:
    """Return the join of two tables, by nested loops."""
    found: Counter[Joined] = Counter()
    met_left, met_right = set(), set()
    for one, (key, mine) in left.items():
        for two, (other, theirs) in right.items():
            if key is not None and key == other:
                found[key, one, mine, two, theirs] += 1
                met_left.add(one)
                met_right.add(two)
    if how != "inner":
        found.update(
            (key, one, mine, None, None) for one, (key, mine) in left.items() if one not in met_left
        )
    if how == "full":
        found.update(
            (key, None, None, two, theirs)
            for two, (key, theirs) in right.items()
            if two not in met_right
        )
    return found


def weighted(before: Table, after: Table) -> Iterable[tuple[int, str | None, str, int]]:
    """Return the rows of a table that changes: primary key, join key, value and weight."""
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if old == new and old is not None:
            yield (key, *old, 0)
            continue
        if old is not None:
            yield (key, *old, -1)
        if new is not None:
            yield (key, *new, 1)
