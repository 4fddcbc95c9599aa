"""The searchable columns of documents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, DoubleType, IntegralType, StringType, TimestampType

from ...columns import require_column_names, require_columns
from ...errors import ArgumentError, ColumnTypeError
from .query_terms import FIELD_PATTERN

_COMPILER_VERSION = "2"
"""The version of the compiled form; it must change with the compiled form."""
_FIELD_TYPES = {
    "text": (StringType, "string"),
    "integer": (IntegralType, "bigint"),
    "double": (DoubleType, "double"),
    "time": (TimestampType, "timestamp"),
}


@dataclass(frozen=True)
class SearchFields:
    """The columns of documents that queries can search.

    The terms of a text are its longest sequences of letters, combining marks and digits (Unicode
    categories L, M and N of the JVM) in lower case. There is no stemming, no stop words and no
    accent folding: `é` differs from `e`, and from `e` with a combining accent; a final sigma equals
    a sigma. A null text has no terms; null and NaN are in no range.

    Args:
        text: string columns; required for queries with words without a field.
        integer: integer columns, compared exactly.
        double: double columns.
        time: timestamp columns.
        default: the text columns for words without a field; None for all text columns.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.

    >>> SearchFields(text=["title", "body"], double="price").default
    ('title', 'body')
    """

    plan_name: ClassVar[str] = "search_fields"
    _: KW_ONLY
    text: str | Sequence[str] = ()
    integer: str | Sequence[str] = ()
    double: str | Sequence[str] = ()
    time: str | Sequence[str] = ()
    default: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        for type_name in _FIELD_TYPES:
            names = require_column_names(getattr(self, type_name), type_name)
            object.__setattr__(self, type_name, tuple(names))
        default = self.text if self.default is None else self.default
        object.__setattr__(self, "default", tuple(require_column_names(default, "default")))
        field_names = require_column_names(list(self.all), "fields")
        invalid = [name for name in field_names if not FIELD_PATTERN.fullmatch(name)]
        if invalid or not field_names:
            raise ArgumentError(
                f"invalid fields: {', '.join(map(repr, invalid)) or 'none'}",
                "at least one field; names of letters, digits and _ that do not begin with a digit",
                "documents.withColumnRenamed(...)" if invalid else 'text=["title", "body"]',
            )
        unknown = [name for name in self.defaults if name not in self.text]
        if unknown:
            raise ArgumentError(
                f"invalid default: {', '.join(map(repr, unknown))}",
                f"text fields: {', '.join(self.text) or 'none exist'}",
            )

    @property
    def all(self) -> tuple[str, ...]:
        """The names of all fields."""
        return (*self.text, *self.integer, *self.double, *self.time)

    @property
    def defaults(self) -> tuple[str, ...]:
        """The text columns for words without a field."""
        return tuple(self.default or ())

    @property
    def fingerprint(self) -> str:
        """The fingerprint that compiled queries store, to detect queries for other fields."""
        fields = (self.text, self.integer, self.double, self.time, self.default)
        content = repr((_COMPILER_VERSION, *fields))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def field_type(self, name: str) -> str | None:
        """Return "text", "integer", "double" or "time"; None for an unknown field."""
        return next((kind for kind in _FIELD_TYPES if name in getattr(self, kind)), None)

    def require_documents(self, documents: DataFrame) -> None:
        """Raise ColumnError or ColumnTypeError unless documents have these columns and types."""
        require_columns(documents, self.all, "fields")
        for type_name, (expected, allowed) in _FIELD_TYPES.items():
            for name in getattr(self, type_name):
                column_type: DataType = documents.schema[name].dataType
                is_plain = not isinstance(column_type, StringType) or column_type == StringType()
                if not isinstance(column_type, expected) or not is_plain:
                    raise ColumnTypeError(
                        f"invalid type of column {name!r} in {type_name}: "
                        f"{column_type.simpleString()}",
                        allowed,
                        f'documents.withColumn({name!r}, F.col({name!r}).cast("{allowed}"))',
                    )
