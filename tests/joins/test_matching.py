"""Matching in numpy against the definition, without Spark: keys, ties, bounds, nulls, and the panes
around the rows."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.joins import _matching as matching
from tidegate.joins._matching import Kind, Matching
from tidegate.joins._panes import SLICES, Panes

from .intervals import Answer, Bounds, Event, bounds, events, joined

COLUMNS: dict[str, pa.DataType] = {
    "text": pa.string(),
    "number": pa.int64(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "decimal": pa.decimal128(10, 2),
    "binary": pa.binary(),
}
VALUES: dict[str, dict[str, Any]] = {
    "text": {"a": "a", "b": "", "c": "a\0"},
    "number": {"a": -1, "b": 2**62, "c": 0},
    "flag": {"a": True, "b": False, "c": True},
    "day": {"a": 0, "b": -1, "c": 1},
    "decimal": {"a": "1.00", "b": "-1.00", "c": "0.00"},
    "binary": {"a": b"a", "b": b"", "c": b"a\0"},
}


def groups(found: list[Event], panes: Panes, *, full: bool) -> pa.RecordBatch:
    """Put rows into panes as the transform does, with the key as it is and as a number."""
    lists: dict[int, dict[str, dict[int, list[Event]]]] = {}
    for event in found:
        start, at = event.micros // panes.slice * panes.slice, event.micros // panes.slice
        home = start // panes.length * panes.length
        met, meets = met_by(start, panes), met_by(start, panes.swapped())
        placed = {
            "left": {home} | (meets if full else set()),
            "right": met | ({home} if full else set()),
        }
        for pane in placed[event.side]:
            lists.setdefault(pane, {"left": {}, "right": {}})[event.side].setdefault(at, []).append(
                event
            )
    rows = pa.list_(
        pa.list_(
            pa.struct([("time", pa.timestamp("us")), ("key", pa.string()), ("id", pa.int32())])
        )
    )
    span = pa.struct([("start", pa.timestamp("us")), ("end", pa.timestamp("us"))])
    spans = pa.array([{"start": pane, "end": pane + 1} for pane in lists], type=span)
    sides = [
        pa.array(
            [
                [[(e.micros, e.key, e.id) for e in part] for part in pane[side].values()]
                for pane in lists.values()
            ],
            rows,
        )
        for side in ("left", "right")
    ]
    return pa.RecordBatch.from_arrays([spans, *sides], names=["span", "left", "right"])


def met_by(start: int, panes: Panes) -> set[int]:
    """Return the panes whose left rows a slice's right rows may match: the arithmetic of
    `Panes.met` in plain Python."""
    first = (start - panes.after) // panes.length * panes.length
    last = (start + panes.slice - 1 + panes.before) // panes.length * panes.length
    return set(range(first, last + 1, panes.length))


def answers(kind: Kind, batches: list[pa.RecordBatch]) -> Counter[Answer]:
    table = [
        row
        for batch in batches
        for row in zip(*[column.to_pylist() for column in batch.columns], strict=True)
    ]
    if kind in ("semi", "anti"):
        return Counter((kind, row[2], None) for row in table)
    return Counter((kind, row[3], row[4]) for row in table)


@settings(max_examples=150, deadline=None)
@given(drawn=events(), drawn_bounds=bounds(), rows=st.sampled_from([1, 7, 65_536]))
def test_matching_in_panes_is_the_join_by_definition(
    drawn: list[Event], drawn_bounds: Bounds, rows: int
) -> None:
    panes = Panes(*drawn_bounds)
    for kind in ("inner", "left", "full", "semi", "anti"):
        given_groups = groups(drawn, panes, full=kind == "full")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(matching, "ROWS_A_BATCH", rows)
            found = list(Matching(*drawn_bounds, panes.length, 1, kind).match(given_groups))
        assert answers(kind, found) == joined(drawn, drawn_bounds, [kind])


@pytest.mark.parametrize("most", [2**31, 4])
def test_keys_of_several_columns_and_all_types_are_equal_only_if_all_of_them_are(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With a bound of 4 the numbers of group and key are packed after each column, as they are for
    # millions of keys.
    monkeypatch.setattr(matching, "_MOST_PLACES", most)
    keys = [(text, number) for text in ("a", "b", None) for number in ("a", "b", "c", None)]
    names = list(COLUMNS)
    for one, other in zip(names, names[1:] + names[:1], strict=True):
        struct = pa.struct(
            [("time", pa.timestamp("us")), (one, COLUMNS[one]), (other, COLUMNS[other])]
        )
        made = [
            pa.scalar(0),
            *[column(name, [key[at] for key in keys]) for at, name in enumerate((one, other))],
        ]
        times = pa.array([0] * len(keys), pa.timestamp("us"))
        inner = pa.StructArray.from_arrays([times, *made[1:]], fields=list(struct))
        lists = pa.ListArray.from_arrays([0, 1], pa.ListArray.from_arrays([0, len(keys)], inner))
        spans = pa.array(
            [{"start": 0, "end": 1}],
            pa.struct([("start", pa.timestamp("us")), ("end", pa.timestamp("us"))]),
        )
        both = pa.RecordBatch.from_arrays([spans, lists, lists], names=["span", "left", "right"])
        rows = sum(batch.num_rows for batch in Matching(0, 0, 10, 2, "inner").match(both))
        values = [
            tuple(VALUES[name].get(cast(str, key[at])) for at, name in enumerate((one, other)))
            for key in keys
        ]
        assert rows == sum(a == b and None not in a for a in values for b in values)


def column(name: str, keys: list[str | None]) -> pa.Array:
    values = [None if key is None else VALUES[name][key] for key in keys]
    if name == "decimal":
        return pa.array(values, pa.string()).cast(COLUMNS[name])
    return pa.array(values, COLUMNS[name])


@settings(max_examples=200, deadline=None)
@given(bounds(), st.integers(-(10**9), 10**9), st.integers(-(10**8), 10**8))
def test_a_pane_is_whole_once_the_slices_of_all_that_its_rows_may_match_have_closed(
    drawn: Bounds, left: int, apart: int
) -> None:
    panes = Panes(*drawn)
    assert panes.length == SLICES * panes.slice >= max(map(abs, drawn))
    right = left - drawn.before + apart % (drawn.before + drawn.after + 1)
    home = left // panes.length * panes.length
    assert home in met_by(right // panes.slice * panes.slice, panes)
    for row, full in ((right, False), (left, True), (right, True)):
        assert row // panes.slice * panes.slice + panes.slice <= home + panes.until(full=full)
    other = right // panes.length * panes.length
    assert left // panes.slice * panes.slice + panes.slice <= other + panes.until(full=True)
