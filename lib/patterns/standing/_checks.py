"""What a search is given, checked when it is called."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, TimestampType

from ...columns import require
from ...errors import ArgumentError, ColumnError, ColumnTypeError

VALID_FROM = "valid_from"
VALID_TO = "valid_to"


def require_absent(frame: DataFrame, taken: Sequence[str]) -> None:
    """Refuse columns that would be there twice."""
    have = {name.lower() for name in frame.columns}
    both = [name for name in taken if name in have]
    if both:
        raise ColumnError(f"the queries have {', '.join(both)}.", "names other than these.")


def refuse_clashes(documents: DataFrame, added: Sequence[str]) -> None:
    """Refuse columns that documents and queries both have."""
    have = {name.lower() for name in documents.columns}
    both = [name for name in added if name.lower() in have]
    if both:
        raise ColumnError(
            f"the documents and the queries both have {', '.join(both)}.",
            "columns that only one of them has, capitals or not.",
            f"withColumnRenamed({both[0]!r}, 'query_{both[0]}') on the queries.",
        )


def require_text(queries: DataFrame, query: str) -> None:
    """Refuse a column of queries that is no text."""
    require(queries, [query], "query")
    found = queries.schema[query].dataType
    if found != StringType():
        raise ColumnTypeError(f"query={query!r} is of type {found.simpleString()}.", "a text.")


def require_history(
    documents: DataFrame, queries: DataFrame, key: list[str], order: list[str], as_of: str | None
) -> None:
    """Refuse queries that are a stream, or that are no history where `as_of` needs one."""
    if queries.isStreaming:
        raise ArgumentError(
            "the queries are a stream.",
            "a table that is read as a batch.",
            "the sink tidegate.sinks.Matched, which keeps the queries by their changelog.",
        )
    if as_of is None:
        if order:
            raise ArgumentError(f"order is {order!r}, without as_of.", "as_of with it.")
        return
    require(documents, [as_of], "as_of")
    require(queries, [*key, *order, VALID_FROM], "on, order, the history")
    told = [(documents, as_of)]
    told += [(queries, name) for name in (VALID_FROM, VALID_TO) if name in queries.columns]
    for frame, name in told:
        found = frame.schema[name].dataType
        if not isinstance(found, TimestampType):
            raise ColumnTypeError(
                f"{name!r} is of type {found.simpleString()}.", "a timestamp (an instant)."
            )
