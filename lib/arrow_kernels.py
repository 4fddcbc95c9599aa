"""User-defined functions on Arrow arrays, and steps that their numpy kernels share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from .versions import is_spark_at_least

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

ROWS_PER_BATCH = 65_536
"""The number of rows of a batch that a kernel returns."""
_MAX_CODE = 2**31
"""Codes are renumbered above this value, so that their products stay below 2^63."""


def arrow_udf(
    function: Callable[..., Any], return_type: DataType | str, *, nondeterministic: bool = False
) -> Callable[..., Column]:
    """Return a Spark function of columns that calls a Python function of Arrow arrays.

    The annotations of the function decide whether it receives one array or an iterator of arrays.
    Spark sends only its argument columns to Python.

    nondeterministic: whether Spark must evaluate the function once for each row. Otherwise the
        optimizer may evaluate it again, or after a filter.
    """
    if is_spark_at_least("4.1"):
        # Spark's type stubs do not declare this function.
        declare_udf: Any = F.arrow_udf  # type: ignore[attr-defined]
    else:
        # It imports pandas, which workers of a newer Spark do not need.
        from .pandas_bridge import arrow_udf_of_pandas as declare_udf
    udf = declare_udf(function, return_type)
    column_function: Callable[..., Column] = udf.asNondeterministic() if nondeterministic else udf
    return column_function


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type, with timestamps in UTC.

    >>> from pyspark.sql.types import LongType
    >>> arrow_type(LongType())
    DataType(int64)
    """
    if is_spark_at_least("4.2"):
        return to_arrow_type(data_type, timezone="UTC")
    return to_arrow_type(data_type)


def key_codes(group: Ints, keys: Sequence[pa.Array]) -> Ints:
    """Return a code for each row: equal for rows of one group with equal keys, including nulls."""
    code = group
    for key in keys:
        encoded = key.dictionary_encode()
        key_code = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
        code = code * (len(encoded.dictionary) + 1) + key_code
        if code.max(initial=0) >= _MAX_CODE:
            code = np.unique(code, return_inverse=True)[1]
    return code


def take_rows(columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
    """Return the selected rows of columns."""
    return [column.take(pa.array(rows)) for column in columns]


def flatten_groups(lists: pa.ListArray) -> tuple[Ints, pa.Array]:
    """Return the elements of a list of lists for each group, and the group number of each."""
    parts = lists.flatten()
    group_of_part = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
    return np.repeat(group_of_part, parts.value_lengths().to_numpy()), parts.flatten()


def in_ranges(first: Ints, stop: Ints, length: int) -> Flags:
    """Return which of `length` positions are in one of the ranges, which may overlap."""
    # The running count of open ranges is positive inside a range.
    change = np.zeros(length + 1, dtype=np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, stop, -1)
    is_inside: Flags = np.cumsum(change)[:-1] > 0
    return is_inside
