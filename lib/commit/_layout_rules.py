"""Which properties of a table, and which columns, a layout may name."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    VariantType,
)

from ..durations import microseconds
from ..errors import ArgumentError, ColumnError, ColumnTypeError, TidegateError

_REMEMBERED = 30 * 86_400 * 1_000_000
"""For how long Delta keeps the commits of a log unless told otherwise, in microseconds."""
_LOG_KEPT = "delta.logRetentionDuration"
_REFUSED = {
    "delta.settransactionretentionduration": "the table would forget which batches it holds",
    "delta.coordinatedcommits.": "its commits would not be in its log's folder, with their stamps",
    "delta.feature.catalog": "its commits would not be in its log's folder, with their stamps",
    "delta.feature.": "Delta sets a table's protocol by its other properties",
    "delta.minreaderversion": "Delta sets a table's protocol by its other properties",
    "delta.minwriterversion": "Delta sets a table's protocol by its other properties",
    "delta.autooptimize.": "Delta would make commits of its own within those of the job",
}
"""Properties under which stamps do not hold, and those that are none of a table's own, by how
their names begin."""

_NESTED = (ArrayType, BinaryType, MapType, StructType, VariantType)
NOT_PARTED = (*_NESTED, DoubleType, FloatType)
NOT_CLUSTERED = (*_NESTED, BooleanType)


def as_text(value: object) -> str:
    """Return a property's value as Delta has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def require_property(name: object, value: object) -> None:
    """Refuse a property that Delta does not have, and one that would undo the stamps.

    Raises ArgumentError and ColumnTypeError.
    """
    if not isinstance(name, str) or not name.startswith("delta."):
        raise ArgumentError(
            f"properties has {name!r}.", "names of Delta's, which begin with 'delta.'."
        )
    if not isinstance(value, str | int):
        raise ColumnTypeError(
            f"properties has {name} = {value!r}.", "text, a whole number, True or False."
        )
    for refused, reason in _REFUSED.items():
        if name.lower().startswith(refused):
            raise ArgumentError(
                f"properties has {name}: {reason}.",
                "properties under which each batch is written exactly once.",
                f"no {name}.",
            )
    if name.lower() == _LOG_KEPT.lower():
        _require_remembered(str(value))


def _require_remembered(text: str) -> None:
    try:
        kept = microseconds(text.removeprefix("interval").strip(), _LOG_KEPT)
    except TidegateError:
        kept = 0
    if kept < _REMEMBERED:
        raise ArgumentError(
            f"properties has {_LOG_KEPT} = {text!r}: the stamps of batches are in the log, and a "
            "job that comes back later than that could not tell whether a batch is written.",
            "30 days or more, or Delta's default, which is 30 days.",
            '"interval 60 days"',
        )


def require_kind(
    schema: StructType, name: str, what: str, refused: tuple[type[DataType], ...]
) -> None:
    """Refuse a column, or a field of a struct, that is not there or of such a type."""
    kind: DataType = schema
    for part in [name] if what == "partition_by" else name.split("."):
        fields = kind.fields if isinstance(kind, StructType) else []
        known = {each.name.lower(): each.dataType for each in fields}
        if part.lower() not in known:
            raise ColumnError(
                f"{what} names {name!r}, and there is no {part!r}.",
                f"the columns are {', '.join(schema.fieldNames())}.",
            )
        kind = known[part.lower()]
    if isinstance(kind, refused):
        raise ColumnTypeError(
            f"{what} names {name!r}, which is of type {kind.simpleString()}.",
            "dates, timestamps, texts and whole numbers.",
        )
