"""The format of Kafka Connect's JsonConverter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql.types import StructType

from ...columns import require_choice
from .._arrow.decode_udf import ReadValues, RecordFormat, Tombstones
from ._reader import ConnectJsonReader
from ._values import Decimals, Encodings, Timestamps


@dataclass(frozen=True)
class ConnectJson:
    """Makes the format of JSON objects that Kafka Connect's JsonConverter writes.

    A value with a schema part, {"schema": ..., "payload": ...}, is decoded by it; otherwise the
    arguments say how values are encoded.

    decimals: "string" for decimals as text, "precise" for base64 of their bytes with the scale of
        the column, "double" for numbers. None accepts what can only be one of them.
    timestamps: the unit of timestamps that are numbers. None rejects them.
    placeholder: the text that stands for a value that was not sent; such a value is null.

    Raises ArgumentError.
    """

    plan_name: ClassVar[str] = "connect_json_values"
    decimals: Decimals | None = None
    timestamps: Timestamps | None = None
    placeholder: str | None = None

    def __post_init__(self) -> None:
        if self.decimals is not None:
            require_choice(self.decimals, "decimals", Decimals)
        if self.timestamps is not None:
            require_choice(self.timestamps, "timestamps", Timestamps)

    def __call__(self, schema: StructType) -> ConnectJsonFormat:
        """Return the format of objects with these fields."""
        encodings = Encodings(self.decimals, self.timestamps, self.placeholder)
        return ConnectJsonFormat(schema, encodings)


@dataclass(frozen=True)
class ConnectJsonFormat(RecordFormat):
    """The format that `ConnectJson` makes; see there for its rules."""

    plan_name: ClassVar[str] = "connect_json"
    schema: StructType
    encodings: Encodings
    tombstones: Tombstones = field(default="dead", init=False, compare=False, repr=False)
    marks_unavailable: ClassVar[bool] = True

    def _read_function(self) -> ReadValues:
        return ConnectJsonReader(self.schema, self.encodings).read
