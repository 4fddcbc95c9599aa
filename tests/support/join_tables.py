"""Two changing tables in plain Python, and their join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from hypothesis import strategies as st

JoinType = Literal["inner", "left", "full"]
JOIN_TYPES: tuple[JoinType, ...] = ("inner", "left", "full")

Row: TypeAlias = tuple[str | None, str]
"""Join key and value."""
Table: TypeAlias = Mapping[int, Row]
"""By primary key."""
JoinedRow: TypeAlias = tuple[str | None, int | None, str | None, int | None, str | None]
"""Join key; primary key and value of the left; of the right."""

KEYS = st.sampled_from(["a", "b", "c", None])
tables = st.dictionaries(st.integers(0, 5), st.tuples(KEYS, st.sampled_from("xyz")), max_size=6)


def expected_join(left: Table, right: Table, how: JoinType) -> Counter[JoinedRow]:
    """Return the join of right_id tables, by nested loops."""
    rows: Counter[JoinedRow] = Counter()
    matched_left, matched_right = set(), set()
    for left_id, (key, left_value) in left.items():
        for right_id, (right_key, right_value) in right.items():
            if key is not None and key == right_key:
                rows[key, left_id, left_value, right_id, right_value] += 1
                matched_left.add(left_id)
                matched_right.add(right_id)
    if how != "inner":
        rows.update(
            (key, left_id, left_value, None, None)
            for left_id, (key, left_value) in left.items()
            if left_id not in matched_left
        )
    if how == "full":
        rows.update(
            (key, None, None, right_id, right_value)
            for right_id, (key, right_value) in right.items()
            if right_id not in matched_right
        )
    return rows


def weighted_rows(before: Table, after: Table) -> Iterable[tuple[int, str | None, str, int]]:
    """Return the weighted rows of a change: primary key, join key, value, weight."""
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if old == new and old is not None:
            yield (key, *old, 0)
            continue
        if old is not None:
            yield (key, *old, -1)
        if new is not None:
            yield (key, *new, 1)
