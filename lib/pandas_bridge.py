"""Functions of Arrow arrays for Spark 4.0, which has functions of pandas objects only.

Spark 4.0 converts each Arrow array to pandas before it calls a function, and the result back. Both
conversions change values, such as bigints with nulls. Python workers that run a function of this
module therefore attach the Arrow array to the pandas object, and use an attached array as the
result. Other functions of pandas objects are unaffected.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf
from pyspark.sql.pandas.serializers import ArrowStreamPandasUDFSerializer
from pyspark.sql.types import DataType, StructType

_ATTACHED = "tidegate_arrow_array"


def arrow_udf_of_pandas(function: Callable[..., Any], return_type: DataType | str) -> Any:
    """Return a Spark function that calls a function of Arrow arrays, as `F.arrow_udf` does.

    The annotations of the function decide whether it receives arrays or an iterator of them.
    """
    hints = get_type_hints(function)
    is_iterator = getattr(hints.get("return"), "__origin__", None) is Iterator
    kind = PandasUDFType.SCALAR_ITER if is_iterator else PandasUDFType.SCALAR
    if isinstance(return_type, str):
        return_type = DataType.fromDDL(return_type)
    call = _ArrowFunction(function, is_iterator, isinstance(return_type, StructType))
    declare_udf: Any = pandas_udf
    with warnings.catch_warnings():
        # PySpark prefers annotations with classes of pandas, which these functions do not have.
        warnings.simplefilter("ignore", UserWarning)
        return declare_udf(call, return_type, kind)


class _ArrowFunction:
    """A function of pandas objects that calls a function of Arrow arrays."""

    def __init__(self, function: Callable[..., Any], is_iterator: bool, is_struct: bool) -> None:
        self._function = function
        self._is_iterator = is_iterator
        self._is_struct = is_struct
        self.__name__ = getattr(function, "__name__", "arrow_function")

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A Python worker reads the functions of a task before its rows.
        self.__dict__.update(state)
        _attach_arrays()

    def __call__(self, *columns: Any) -> Any:
        if self._is_iterator:
            (batches,) = columns
            return map(self._result, self._function(map(_batch_arrays, batches)))
        return self._result(self._function(*map(_array, columns)))

    def _result(self, array: pa.Array) -> pd.Series[Any] | pd.DataFrame:
        if self._is_struct:
            frame = pd.DataFrame(index=pd.RangeIndex(len(array)))
            frame.attrs[_ATTACHED] = array
            return frame
        series = pd.Series(np.zeros(len(array), dtype=np.int8))
        series.attrs[_ATTACHED] = array
        return series


def _batch_arrays(batch: Any) -> Any:
    return tuple(map(_array, batch)) if isinstance(batch, tuple) else _array(batch)


def _array(column: Any) -> pa.Array:
    return column.attrs[_ATTACHED]


def _attach_arrays() -> None:
    """Make the serializer of this process attach Arrow arrays, and use attached ones."""
    serializer: Any = ArrowStreamPandasUDFSerializer
    if _ATTACHED in vars(serializer):
        return
    read, write, write_struct = (
        serializer.arrow_to_pandas,
        serializer._create_array,
        serializer._create_struct_array,
    )

    @wraps(read)
    def arrow_to_pandas(self: Any, arrow_column: Any) -> Any:
        column = read(self, arrow_column)
        column.attrs[_ATTACHED] = (
            arrow_column.combine_chunks()
            if isinstance(arrow_column, pa.ChunkedArray)
            else arrow_column
        )
        return column

    @wraps(write)
    def create_array(self: Any, series: Any, arrow_type: Any, *args: Any, **kwargs: Any) -> Any:
        array = series.attrs.get(_ATTACHED)
        if array is None or len(array) != len(series):
            return write(self, series, arrow_type, *args, **kwargs)
        return array if array.type == arrow_type else array.cast(arrow_type)

    @wraps(write_struct)
    def create_struct_array(self: Any, frame: Any, arrow_type: Any) -> Any:
        array = frame.attrs.get(_ATTACHED)
        if array is None or len(frame.columns):
            return write_struct(self, frame, arrow_type)
        return array if array.type == arrow_type else array.cast(arrow_type)

    serializer.arrow_to_pandas = arrow_to_pandas
    serializer._create_array = create_array
    serializer._create_struct_array = create_struct_array
    setattr(serializer, _ATTACHED, True)
