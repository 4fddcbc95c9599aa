"""Documents run past standing queries: which queries each document matches."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ...columns import names, quoted
from ._checks import (
    VALID_FROM,
    VALID_TO,
    refuse_clashes,
    require_absent,
    require_history,
    require_text,
)
from ._compiled import COMPILED_COLUMN, compiled, was_read
from ._index import FRACTIONS, KEY, KEYS, TEXTS, WHOLES, common, index, met
from ._terms import fractions, hashed, keys, texts, wholes
from .fields import SearchFields

FAULT = "fault"

_OWN = "__tidegate_own"
_START = "__tidegate_start"
_END = "__tidegate_end"


def read_queries(queries: DataFrame, fields: SearchFields, *, query: str = "query") -> DataFrame:
    """Compile queries once for many searches, and tell those that cannot be read.

    Columns: those of the queries, `compiled`, and `fault`: why a text is no query, with the place,
    in one line. Of the two one is null; both are where there is no text.

    Raises ColumnError, ColumnTypeError.

    >>> fields = SearchFields(text="page", whole="ms")
    >>> texts = spark.createDataFrame([("a", "ms:>=5"), ("b", "ms:>=")], "id string, query string")
    >>> read_queries(texts, fields).where("fault IS NOT NULL").head().fault
    'the query, at character 6: its end is no number; allowed: a number, such as -1.5'
    """
    require_text(queries, query)
    require_absent(queries, [COMPILED_COLUMN, FAULT])
    found = queries.withColumn(_OWN, was_read(quoted(query), fields))
    read = {COMPILED_COLUMN: compiled(quoted(_OWN), fields), FAULT: quoted(_OWN)["fault"]}
    return found.withColumns(read).drop(_OWN)


def matches(
    documents: DataFrame,
    queries: DataFrame,
    fields: SearchFields,
    *,
    query: str = "query",
    as_of: str | None = None,
    on: str | Sequence[str] = "query_id",
    order: str | Sequence[str] = (),
) -> DataFrame:
    """Return each document with each query that it matches.

    With `as_of`, the documents' time, the queries are a history, as the table of `stream_table` is:
    a document meets the version of each query that was valid at its time. A version is valid from
    `valid_from` (inclusive) until the next of the same `on` begins, or to its `valid_to` where that
    is earlier; of those that begin at one instant the last by `order` counts. A document or a
    version without a time matches nothing. Without `as_of` each row is a query, and meets all
    documents, the past ones as well.

    Not every query is tested with every document. A query has keys of which its documents must have
    one: a term that it requires, the first characters of a prefix, the bucket of a range, of an OR
    one of each branch. Of those that an AND gives to choose from (five, the longest first) the
    rarest is taken: not among the 256 most common keys of these documents, or the least common of
    them, and then the longest. Documents are exploded by their keys and joined with the queries'
    keys; what meets, and has the other terms that are required, is tested whole, by Spark's
    expressions.
    Queries of up to six words, prefixes and ranges are tested by compiled code; longer ones are
    interpreted. A query that requires nothing that can be looked up is tested with each document:
    one of NOT alone, of a range open to one side, of a prefix of one character, or with such a
    branch of an OR.

    State: none. On a stream of documents the queries are read anew with each micro-batch, and how
    common keys are is not known; the sink `tidegate.sinks.Matched` keeps the queries by their
    changelog. The queries are sent to all executors, about a kilobyte each.

    Args:
        documents: a batch or a stream, with the columns of `fields`.
        queries: a batch with the texts in `query`; or what `read_queries` returned, of which rows
            without `compiled` match nothing.
        fields: what the queries speak of.
        query: the column of the texts.
        as_of: the documents' time column, a timestamp.
        on: the columns of the queries' key, for `as_of`.
        order: columns that order versions which began at one instant.

    Returns:
        The documents' columns, then the queries' but for the text, `compiled`, `fault` and
        `valid_to`. No other column may be in both. Row order is not defined.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call. A text that is no query stops
            Spark's job with its fault, unless the queries come from `read_queries`.

    Source: the presearcher of Luwak, today Lucene's Monitor, and Elasticsearch's percolator, for
    the keys that a query requires and the choice among them; the dyadic ladder of buckets and the
    choice by these documents' own counts are ours.

    >>> fields = SearchFields(text="page", whole="ms")
    >>> texts = [("slow", "ms:>=7"), ("first", "page:0 AND NOT ms:[2 TO 6]")]
    >>> queries = spark.createDataFrame(texts, "query_id string, query string")
    >>> found = matches(clicks, queries, fields)
    >>> sorted((row.query_id, row.page, row.ms) for row in found.collect())
    [('first', '/0', 0), ('slow', '/1', 7), ('slow', '/2', 8)]
    """
    key = names(on, "on") if as_of is not None else []
    fields.require(documents)
    ready = _ready(queries, fields, query)
    added = [
        name for name in queries.columns if name not in (query, COMPILED_COLUMN, FAULT, VALID_TO)
    ]
    refuse_clashes(documents, added)
    require_history(documents, ready, key, names(order, "order"), as_of)
    prepared = _prepared(documents, fields)
    counted = None if documents.isStreaming else common(prepared)
    versions = _valid(ready, key, names(order, "order"), as_of)
    times = [name for name in (_START, _END) if name in versions.columns]
    indexed = index(versions, [*added, *times], counted)
    valid = F.lit(True) if as_of is None else _covers(quoted(as_of))
    found = met(prepared.withColumn(KEY, F.explode(KEYS)), indexed, valid)
    return found.select(*map(quoted, [*documents.columns, *added]))


def _ready(queries: DataFrame, fields: SearchFields, query: str) -> DataFrame:
    """Return the queries compiled, with a check that they were for these fields."""
    if COMPILED_COLUMN in queries.columns:
        mark = quoted(COMPILED_COLUMN)["mark"]
        told = "compiled is for other fields: read_queries with these fields, or new tables."
        own = F.when(mark == fields.mark, quoted(COMPILED_COLUMN))
        sound = F.when(mark.isNotNull(), F.coalesce(own, F.raise_error(F.lit(told))))
        return queries.withColumn(COMPILED_COLUMN, sound)
    read = read_queries(queries, fields, query=query)
    refused = F.raise_error(quoted(FAULT))
    return read.withColumn(
        COMPILED_COLUMN,
        F.when(quoted(FAULT).isNotNull(), refused).otherwise(quoted(COMPILED_COLUMN)),
    )


def _prepared(documents: DataFrame, fields: SearchFields) -> DataFrame:
    read = documents.withColumns(
        {TEXTS: texts(fields), WHOLES: wholes(fields), FRACTIONS: fractions(fields)}
    )
    found = keys(fields, quoted(TEXTS), quoted(WHOLES), quoted(FRACTIONS))
    return read.withColumn(KEYS, F.array_distinct(F.transform(found, hashed)))


def _valid(queries: DataFrame, key: list[str], order: list[str], as_of: str | None) -> DataFrame:
    """Add from when to when a version is valid; those of no time at all are left out."""
    if as_of is None:
        return queries
    began = quoted(VALID_FROM)
    ended = F.lit(None).cast("timestamp")
    if VALID_TO in queries.columns:
        ended = quoted(VALID_TO)
    place = Window.partitionBy(*map(quoted, key)).orderBy(
        began, *map(quoted, order), ended.asc_nulls_last()
    )
    until = F.least(ended, F.lead(began).over(place))
    timed = queries.where(began.isNotNull()).withColumns({_START: began, _END: until})
    return timed.where(quoted(_END).isNull() | (quoted(_START) < quoted(_END)))


def _covers(time: Column) -> Column:
    """Return whether a version is valid at a time."""
    return (quoted(_START) <= time) & (quoted(_END).isNull() | (time < quoted(_END)))
