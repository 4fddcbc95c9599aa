"""What formats share that read batches by themselves: records, and the reasons for none.

The values of a batch go through one reader. Whether a value is good is known in the same pass, and
the reason is asked for of bad rows alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...arrow_function import arrow_function
from ...errors import ArgumentError
from .._fitting import nullable
from .places import Places

Tombstones: TypeAlias = Literal["dead", "row"]
NO_VALUE = "null value"
_EMPTY = "empty value"
_AFTER = "bytes after the record"


class Reader(Protocol):
    """Reads the values of a batch."""

    def read(self, values: Any) -> tuple[Any, Any]:
        """Return the records as structs, null where there is none, and the reasons as texts."""


def decoded(
    raw: DataFrame, reader: Reader, schema: StructType, tombstones: Tombstones
) -> DataFrame:
    """Add `record` and `bad`."""

    def records(values: pa.Array) -> pa.Array:
        found, _ = reader.read(values)
        return found

    record = arrow_function(records, nullable(schema), stays=True)(F.col("value"))
    bad = F.col("record").isNull()
    if tombstones == "row":
        bad = bad & F.col("value").isNotNull()
    return raw.withColumn("record", record).withColumn("bad", bad)


def diagnosed(dead: DataFrame, reader: Reader) -> DataFrame:
    """Add `reason`."""

    def told(values: pa.Array) -> pa.Array:
        _, found = reader.read(values)
        return found

    return dead.withColumn("reason", arrow_function(told, "string", stays=True)(F.col("value")))


def finished(found: Places, fields: list[Any], kind: pa.StructType) -> Any:
    """Return the records of fields that were read, null where a fault was found.

    What is left of a value after its last field is a fault as well.
    """
    found.fail(found.at != found.end, _AFTER)
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pa.array(found.fault != 0))


def reasons(found: Places, values: Any) -> Any:
    """Return the fault of each value as a text."""
    empty = pc.equal(pc.binary_length(values), 0).fill_null(False).to_numpy(zero_copy_only=False)
    found.fault[empty & (found.fault != 0)] = found.faults.number(_EMPTY)
    return found.faults.texts(found.fault)


def text_of(given: str | Path, what: str) -> str:
    """Return a schema's text, which may stand in a file."""
    if not isinstance(given, Path):
        return given
    try:
        return given.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise ArgumentError(
            f"{what} is the file {given}, which cannot be read: {type(fault).__name__}."
        ) from None


def require_tombstones(tombstones: str) -> None:
    """Refuse another choice than "dead" and "row"."""
    if tombstones not in ("dead", "row"):
        raise ArgumentError(f"tombstones is {tombstones!r}.", '"dead" or "row".')
