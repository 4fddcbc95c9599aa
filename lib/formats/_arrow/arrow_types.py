"""Arrow types of the columns that are passed to Spark."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from ...arrow_kernels import arrow_type
from ...errors import ColumnError
from .._casts import nested_types


def to_arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type; all fields are nullable."""
    if isinstance(data_type, StructType):
        return pa.struct([(field.name, to_arrow_type(field.dataType)) for field in data_type])
    if isinstance(data_type, ArrayType):
        return pa.list_(to_arrow_type(data_type.elementType))
    if isinstance(data_type, MapType):
        return pa.map_(to_arrow_type(data_type.keyType), to_arrow_type(data_type.valueType))
    return arrow_type(data_type)


def require_distinct_names(data_type: DataType, label: str) -> None:
    """Raise ColumnError for a struct without fields, or with duplicate names in any case."""
    for struct_type in nested_types(data_type):
        if isinstance(struct_type, StructType):
            lowered = [name.lower() for name in struct_type.fieldNames()]
            duplicates = sorted({name for name in lowered if lowered.count(name) > 1})
            if duplicates or not lowered:
                raise ColumnError(
                    f"duplicate fields in {label}: {', '.join(duplicates)}"
                    if duplicates
                    else f"no fields in {label}",
                    "at least one field, and names that differ by more than case",
                )
