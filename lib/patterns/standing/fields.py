"""Which columns of a document standing queries speak of, and as what."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, DoubleType, IntegralType, StringType, TimestampType

from ...columns import names, require
from ...errors import ArgumentError, ColumnTypeError
from .queries import FIELD

_FORM = "2"
"""What a query is compiled to; another number wherever that changes."""
_KINDS = {
    "text": (StringType, "text"),
    "whole": (IntegralType, "a whole number"),
    "fraction": (DoubleType, "a double"),
    "time": (TimestampType, "a timestamp (an instant)"),
}


@dataclass(frozen=True)
class SearchFields:
    """The columns of a document that queries name as fields.

    A term of a text is a run of letters, marks on letters and digits (Unicode's classes L, M and N,
    as the JVM knows them) of the text in lower case; all other characters part terms. There are no
    stems, no stop words and no folding of accents: `é` is not `e`, nor `e` with a combining accent;
    a final sigma is a sigma. Null is a text without terms, and a number or a time that is in no
    range; so is NaN.

    Args:
        text: texts. One of them at least, where a query is to have words without a field.
        whole: whole numbers, compared exactly.
        fraction: doubles.
        time: timestamps.
        default: the texts in which words without a field are looked for; None for all texts.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.

    >>> SearchFields(text=["title", "body"], fraction="price").default
    ('title', 'body')
    """

    _: KW_ONLY
    text: str | Sequence[str] = ()
    whole: str | Sequence[str] = ()
    fraction: str | Sequence[str] = ()
    time: str | Sequence[str] = ()
    default: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        for kind in _KINDS:
            object.__setattr__(self, kind, tuple(names(getattr(self, kind), kind)))
        chosen = self.text if self.default is None else names(self.default, "default")
        object.__setattr__(self, "default", tuple(chosen))
        have = names(list(self.all), "the fields")
        odd = [name for name in have if not FIELD.fullmatch(name)]
        if odd or not have:
            raise ArgumentError(
                f"the fields are {', '.join(map(repr, have)) or 'none'}.",
                "one at least; names of letters, digits and _ that begin with no digit.",
                "withColumnRenamed on the documents." if odd else 'text=["title", "body"]',
            )
        strange = [name for name in self.defaults if name not in self.text]
        if strange:
            raise ArgumentError(
                f"default names {', '.join(strange)}.",
                f"fields of text: {', '.join(self.text) or 'there are none'}.",
            )

    @property
    def all(self) -> tuple[str, ...]:
        """The names of all fields."""
        return (*self.text, *self.whole, *self.fraction, *self.time)

    @property
    def defaults(self) -> tuple[str, ...]:
        """The texts in which words without a field are looked for."""
        return tuple(self.default or ())

    @property
    def mark(self) -> str:
        """What compiled queries bear, so that those for other fields are not taken for these."""
        told = repr((_FORM, self.text, self.whole, self.fraction, self.time, self.default))
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def kind(self, name: str) -> str | None:
        """Return "text", "whole", "fraction" or "time"; None for what is no field."""
        return next((kind for kind in _KINDS if name in getattr(self, kind)), None)

    def require(self, documents: DataFrame) -> None:
        """Refuse documents without these columns, or with other types.

        Raises ColumnError, ColumnTypeError.
        """
        require(documents, self.all, "fields")
        for kind, (wanted, allowed) in _KINDS.items():
            for name in getattr(self, kind):
                found: DataType = documents.schema[name].dataType
                plain = not isinstance(found, StringType) or found == StringType()
                if not isinstance(found, wanted) or not plain:
                    raise ColumnTypeError(
                        f"{kind} names {name!r}, which is of type {found.simpleString()}.",
                        f"{allowed}.",
                        f"withColumn({name!r}, F.col({name!r}).cast(...)) on the documents.",
                    )
