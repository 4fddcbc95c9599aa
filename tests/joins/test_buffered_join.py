"""The match kernel without Spark: keys, ties, bounds, nulls and panes."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.interval_oracle import Bounds, Event, JoinedIds, bounds, events, expected_join
from tidegate.joins import _buffered_join as matching
from tidegate.joins._buffered_join import IntervalMatcher
from tidegate.joins._sides import SLICES, MatchType, Panes

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


def groups(rows: list[Event], panes: Panes, *, full: bool) -> pa.RecordBatch:
    """Return the rows in panes, as the transform groups them."""
    lists: dict[int, dict[str, dict[int, list[Event]]]] = {}
    for event in rows:
        start, at = event.micros // panes.slice * panes.slice, event.micros // panes.slice
        own_pane = start // panes.length * panes.length
        right_panes, left_panes = (
            overlapping_panes(start, panes),
            overlapping_panes(start, panes.swapped()),
        )
        panes_by_side = {
            "left": {own_pane} | (left_panes if full else set()),
            "right": right_panes | ({own_pane} if full else set()),
        }
        for pane in panes_by_side[event.side]:
            lists.setdefault(pane, {"left": {}, "right": {}})[event.side].setdefault(at, []).append(
                event
            )
    rows_type = pa.list_(
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
            rows_type,
        )
        for side in ("left", "right")
    ]
    return pa.RecordBatch.from_arrays([spans, *sides], names=["span", "left", "right"])


def overlapping_panes(start: int, panes: Panes) -> set[int]:
    """Return the panes whose left rows the right rows of a slice can match, in plain Python."""
    first = (start - panes.after) // panes.length * panes.length
    last = (start + panes.slice - 1 + panes.before) // panes.length * panes.length
    return set(range(first, last + 1, panes.length))


def joined_ids(kind: MatchType, batches: list[pa.RecordBatch]) -> Counter[JoinedIds]:
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
def test_matching_in_panes_equals_the_oracle(
    drawn: list[Event], drawn_bounds: Bounds, rows: int
) -> None:
    panes = Panes(*drawn_bounds)
    for kind in ("inner", "left", "full", "semi", "anti"):
        pane_groups = groups(drawn, panes, full=kind == "full")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(matching, "ROWS_PER_BATCH", rows)
            batches = list(IntervalMatcher(panes, 1, kind).match(pane_groups))
        assert joined_ids(kind, batches) == expected_join(drawn, drawn_bounds, [kind])


@pytest.mark.parametrize("max_codes", [2**31, 4])
def test_composite_keys_of_all_types_are_equal_if_all_columns_are_equal(
    max_codes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With a limit of 4, group codes are renumbered after each column, as for millions of keys.
    monkeypatch.setattr("tidegate.arrow_kernels._MAX_CODE", max_codes)
    keys = [(text, number) for text in ("a", "b", None) for number in ("a", "b", "c", None)]
    names = list(COLUMNS)
    for one, other in zip(names, names[1:] + names[:1], strict=True):
        struct = pa.struct(
            [("time", pa.timestamp("us")), (one, COLUMNS[one]), (other, COLUMNS[other])]
        )
        columns = [
            pa.scalar(0),
            *[column(name, [key[at] for key in keys]) for at, name in enumerate((one, other))],
        ]
        times = pa.array([0] * len(keys), pa.timestamp("us"))
        inner = pa.StructArray.from_arrays([times, *columns[1:]], fields=list(struct))
        lists = pa.ListArray.from_arrays([0, 1], pa.ListArray.from_arrays([0, len(keys)], inner))
        spans = pa.array(
            [{"start": 0, "end": 1}],
            pa.struct([("start", pa.timestamp("us")), ("end", pa.timestamp("us"))]),
        )
        both = pa.RecordBatch.from_arrays([spans, lists, lists], names=["span", "left", "right"])
        rows = sum(batch.num_rows for batch in IntervalMatcher(Panes(0, 0), 2, "inner").match(both))
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
def test_a_pane_closes_after_the_slices_of_all_possible_matches(
    drawn: Bounds, left: int, distance: int
) -> None:
    panes = Panes(*drawn)
    assert panes.length == SLICES * panes.slice >= max(map(abs, drawn))
    right = left - drawn.before + distance % (drawn.before + drawn.after + 1)
    own_pane = left // panes.length * panes.length
    assert own_pane in overlapping_panes(right // panes.slice * panes.slice, panes)
    for row, full in ((right, False), (left, True), (right, True)):
        assert row // panes.slice * panes.slice + panes.slice <= own_pane + panes.closing_delay(
            full=full
        )
    other = right // panes.length * panes.length
    assert left // panes.slice * panes.slice + panes.slice <= other + panes.closing_delay(full=True)
