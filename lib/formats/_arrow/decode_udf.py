"""Arrow UDFs that decode records and return the reasons of dead letters, for Avro and Protobuf."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructType

from ...arrow_kernels import arrow_udf
from ...errors import ArgumentError
from .._casts import nullable_type
from .cursors import Cursors

Tombstones: TypeAlias = Literal["dead", "row"]
NO_VALUE = "null value"
_EMPTY_VALUE = "empty value"
_TRAILING_BYTES = "bytes after the record"


ReadValues: TypeAlias = Callable[[Any], tuple[Any, Any]]
"""Returns the records of a batch as structs, null for invalid values, and the reasons as texts."""


class RecordFormat(ABC):
    """A format whose values an Arrow UDF decodes, in batches; base class of Avro and Protobuf."""

    schema: StructType
    tombstones: Tombstones
    required_columns: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def _read_function(self) -> ReadValues: ...

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        record = self._reader_column(0, nullable_type(self.schema))
        bad = F.col("record").isNull()
        if self.tombstones == "row":
            bad = bad & F.col("value").isNotNull()
        return raw.withColumn("record", record).withColumn("bad", bad)

    def explain_failures(self, dead_letters: DataFrame) -> DataFrame:
        """Add `reason`."""
        return dead_letters.withColumn("reason", self._reader_column(1, StringType()))

    def _reader_column(self, part: int, data_type: DataType) -> Column:
        """Return the records, or the reasons, that the reader returns."""
        read_values = self._read_function()

        def read(values: pa.Array) -> pa.Array:
            return read_values(values)[part]

        return arrow_udf(read, data_type, nondeterministic=True)(F.col("value"))


def to_struct_array(cursors: Cursors, fields: list[Any], struct_type: pa.StructType) -> Any:
    """Return structs of the fields, null for rows with a fault.

    Bytes after the last field are a fault.
    """
    cursors.mark_invalid(cursors.position != cursors.end, _TRAILING_BYTES)
    return pa.StructArray.from_arrays(
        fields, fields=list(struct_type), mask=pa.array(cursors.fault != 0)
    )


def error_texts(cursors: Cursors, values: Any) -> Any:
    """Return the reason of each value with a fault."""
    is_empty = pc.equal(pc.binary_length(values), 0).fill_null(False).to_numpy(zero_copy_only=False)
    cursors.fault[is_empty & (cursors.fault != 0)] = cursors.faults.code(_EMPTY_VALUE)
    return cursors.faults.texts(cursors.fault)


def read_schema_text(schema: str | Path, label: str) -> str:
    """Return the text of a schema, read from its file if it is a Path."""
    if not isinstance(schema, Path):
        return schema
    try:
        return schema.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise ArgumentError(
            f"invalid {label}: cannot read the file {schema} ({type(fault).__name__})",
            "a readable file, or the schema as text",
        ) from None
