"""JSON values with a declared schema."""

from __future__ import annotations

from typing import Literal

from pyspark.sql.types import StructType

from .formats import Format


def json_format(schema: str | StructType, *, tombstones: Literal["dead", "drop"] = "dead") -> Format:
    """Read each value as one JSON object of this schema."""
    raise NotImplementedError
