"""Arrow UDFs that decode records and return the reasons of dead letters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from ...arrow_kernels import arrow_udf
from ...errors import ArgumentError
from .._casts import nullable_type
from .arrow_types import to_arrow_type
from .cursors import Cursors, NumpyArray, combine_rows

Tombstones: TypeAlias = Literal["dead", "row"]
NO_VALUE = "null value"
_EMPTY_VALUE = "empty value"
_TRAILING_BYTES = "bytes after the record"


UNAVAILABLE = "__tidegate_unavailable"
"""The column with the paths of the values that were not sent."""
DECODED_KEY = "__tidegate_decoded_key"
"""The column with the decoded key of a record; null if it is invalid, or was not needed."""
_DECODED = "__tidegate_decoded"

ReadValues: TypeAlias = Callable[[Any], tuple[Any, ...]]
"""Returns the records of a batch as structs, null for invalid values, and the reasons as texts.

With `RecordFormat.marks_unavailable` also the paths of the values that were not sent.
"""
NeedsKey: TypeAlias = Callable[[Any], NumpyArray]
"""Returns a mask of the records for which the key of the Kafka record is needed."""


class RecordFormat(ABC):
    """A format whose values an Arrow UDF decodes, in batches; a base class.

    marks_unavailable: whether it finds values that were not sent, and adds UNAVAILABLE.
    """

    schema: StructType
    tombstones: Tombstones
    required_columns: ClassVar[tuple[str, ...]] = ()
    marks_unavailable: ClassVar[bool] = False

    @abstractmethod
    def _read_function(self) -> ReadValues: ...

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        read_values = self._read_function()

        def read(values: pa.Array) -> pa.Array:
            return self._decoded(read_values(values))

        decode = arrow_udf(read, self._decoded_type, nondeterministic=True)
        decoded = raw.withColumn(_DECODED, decode(F.col("value")))
        return decoded.withColumns(self._decoded_columns(F.col(_DECODED))).drop(_DECODED)

    def decode_with_keys(
        self, raw: DataFrame, key_format: RecordFormat, needs_key: NeedsKey
    ) -> DataFrame:
        """Add the columns of `decode` and DECODED_KEY, in one pass through Python."""
        read_values, read_keys = self._read_function(), key_format._read_function()
        key_type = nullable_type(key_format.schema)
        decoded_type = StructType(
            [StructField("value", self._decoded_type), StructField("key", key_type)]
        )
        arrow_key_type = to_arrow_type(key_type)

        def read(values: pa.Array, keys: pa.Array) -> pa.Array:
            parts = read_values(values)
            rows = np.flatnonzero(needs_key(parts[0]))
            found = []
            if len(rows):
                found.append((rows, read_keys(keys.take(pa.array(rows)))[0]))
            decoded_keys = combine_rows(found, len(values), arrow_key_type)
            return pa.StructArray.from_arrays(
                [self._decoded(parts), decoded_keys], ["value", "key"]
            )

        decode = arrow_udf(read, decoded_type, nondeterministic=True)
        decoded = raw.withColumn(_DECODED, decode(F.col("value"), F.col("key")))
        columns = self._decoded_columns(F.col(_DECODED)["value"])
        columns[DECODED_KEY] = F.col(_DECODED)["key"]
        return decoded.withColumns(columns).drop(_DECODED)

    def explain_failures(self, dead_letters: DataFrame) -> DataFrame:
        """Add `reason`."""
        read_values = self._read_function()

        def read(values: pa.Array) -> pa.Array:
            return read_values(values)[1]

        explain = arrow_udf(read, StringType(), nondeterministic=True)
        return dead_letters.withColumn("reason", explain(F.col("value")))

    @property
    def _decoded_type(self) -> DataType:
        record_type = nullable_type(self.schema)
        if not self.marks_unavailable:
            return record_type
        paths = StructField("unavailable", ArrayType(StringType()))
        return StructType([StructField("record", record_type), paths])

    def _decoded(self, parts: tuple[Any, ...]) -> Any:
        """Return what the reader has returned as an array of `_decoded_type`."""
        if not self.marks_unavailable:
            return parts[0]
        return pa.StructArray.from_arrays([parts[0], parts[2]], ["record", "unavailable"])

    def _decoded_columns(self, decoded: Column) -> dict[str, Column]:
        record = decoded["record"] if self.marks_unavailable else decoded
        bad = record.isNull()
        if self.tombstones == "row":
            bad = bad & F.col("value").isNotNull()
        columns = {"record": record, "bad": bad}
        return columns | ({UNAVAILABLE: decoded["unavailable"]} if self.marks_unavailable else {})


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
