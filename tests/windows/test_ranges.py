"""Aggregates over ranges in numpy equal Python's sum, min and max."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.aggregates import Operation
from tidegate.windows._sliding_kernel import aggregate_ranges

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bigint": (pa.int64(), st.integers(-(2**55), 2**55)),
    "decimal": (pa.decimal128(38, 2), st.integers(-(10**34), 10**34).map(lambda n: Decimal(n))),
    "text": (pa.string(), st.text(max_size=3)),
    "double": (pa.float64(), st.sampled_from([-1.5, 0.25, 3.0, math.inf, -math.inf])),
    "pair": (
        pa.struct([("time", pa.int64()), ("value", pa.int32())]),
        st.builds(
            lambda time, value: {"time": time, "value": value},
            st.integers(0, 3),
            st.none() | st.integers(-2, 2),
        ),
    ),
}


def reference(values: list[Any], operation: Operation) -> Any:
    present = [value for value in values if value is not None]
    if not present:
        return None
    if operation == "sum":
        with localcontext(prec=50):
            return sum(present)

    def order(value: Any) -> Any:
        if isinstance(value, dict):
            return (value["time"], value["value"] is not None, value["value"] or 0)
        return value.encode() if isinstance(value, str) else value

    return min(present, key=order) if operation == "min" else max(present, key=order)


@pytest.mark.parametrize(
    ("type_name", "operation"),
    [
        (type_name, op)
        for type_name in VALUES
        for op in ("sum", "min", "max")
        if op != "sum" or type_name not in ("text", "pair")
    ],
)
def test_aggregates_of_ranges_equal_python(type_name: str, operation: Operation) -> None:
    arrow, value = VALUES[type_name]

    @settings(deadline=None)
    @given(st.lists(st.none() | value, min_size=1, max_size=30), st.data())
    def check(values: list[Any], data: st.DataObject) -> None:
        edges = st.tuples(st.integers(0, len(values) - 1), st.integers(0, len(values) - 1)).map(
            sorted
        )
        ranges = data.draw(st.lists(edges, min_size=1, max_size=20))
        first = np.array([low for low, _ in ranges], dtype=np.int64)
        length = np.array([high - low + 1 for low, high in ranges], dtype=np.int64)
        result = aggregate_ranges(
            pa.array([None, *values], type=arrow).slice(1), first, length, operation
        ).to_pylist()
        expected = [reference(values[low : high + 1], operation) for low, high in ranges]
        assert result == expected or str(result) == str(expected)

    check()


def test_nan_is_the_maximum_and_affects_only_ranges_that_contain_it() -> None:
    values = pa.array([1.0, math.nan, 2.0, math.inf])
    first, length = np.array([0, 0, 2]), np.array([1, 2, 2])
    assert str(aggregate_ranges(values, first, length, "sum").to_pylist()) == "[1.0, nan, inf]"
    assert str(aggregate_ranges(values, first, length, "max").to_pylist()) == "[1.0, nan, inf]"
    assert aggregate_ranges(values, first, length, "min").to_pylist() == [1.0, 1.0, 2.0]
