"""Matching documents with standing queries, through an index of the queries by key.

Spark generates code for these expressions except for higher-order functions (`transform`,
`aggregate`), which it interprets at about a microsecond per field of each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, TimestampType

from ...columns import (
    quoted_column,
    require_column_names,
    require_columns,
    require_dataframe,
    require_instance,
    require_no_name_clash,
)
from ...errors import ArgumentError, ColumnTypeError
from ...joins.lookup_join import VALID_FROM, VALID_TO, is_valid_at, version_ends
from ._compiler import (
    AND,
    COMPILED_COLUMN,
    DOUBLE,
    INTEGER,
    MAX_TABLE_TESTS,
    NOT,
    OR,
    compile_parsed,
    parse_text,
)
from ._tokenizer import DOUBLES, INTEGERS, KEYS, TEXTS, with_document_keys
from .search_fields import SearchFields

FAULT = "fault"

_PARSED = "__tidegate_parsed"
_START = "__tidegate_start"
_END = "__tidegate_end"
_KEY = "__tidegate_key"

_MAX_FREQUENT_KEYS = 256
"""The number of most frequent document keys whose frequency rank is used."""

_MAX_COVERS = 5
"""The number of covers of a query, the most selective by text, that are ranked by frequency."""

_UNROLLED_KEYS = 4
"""The number of keys of a cover that generated code examines."""

_QUERY_KEY = "__tidegate_query_key"
_COVER = "__tidegate_cover"
_COVERS = "__tidegate_covers"
_REQUIRED_KEYS = [f"__tidegate_required_{number}" for number in range(1, _MAX_COVERS)]
_STEPS = "__tidegate_steps"
_TABLE = "__tidegate_table"
_FREQUENT_KEYS = "__tidegate_frequent_keys"


def compile_queries(queries: DataFrame, fields: SearchFields, *, query: str = "query") -> DataFrame:
    """Compile standing queries for repeated use by `percolate`, and report invalid queries.

    Args:
        queries: a batch with the query texts.
        fields: the fields of the documents.
        query: the column of the texts.

    Returns:
        The columns of the queries, `compiled`, and `fault`: the syntax error with its position, as
        one line. Exactly one of the two is null; both are null for a null text.

    Raises:
        ColumnError, ColumnTypeError: at the call.

    >>> fields = SearchFields(text="page", integer="ms")
    >>> texts = spark.createDataFrame([("a", "ms:>=5"), ("b", "ms:>=")], "id string, query string")
    >>> compile_queries(texts, fields).where("fault IS NOT NULL").head().fault
    'invalid query at character 6: the end is not a number; expected: a number, such as -1.5'
    """
    require_columns(queries, [query], "query")
    query_type = queries.schema[query].dataType
    if query_type != StringType():
        raise ColumnTypeError(
            f"invalid type of column {query!r}: {query_type.simpleString()}", "string"
        )
    require_no_name_clash(queries.columns, [COMPILED_COLUMN, FAULT], "queries")
    with_parsed = queries.withColumn(_PARSED, parse_text(quoted_column(query), fields))
    parsed = quoted_column(_PARSED)
    added = {COMPILED_COLUMN: compile_parsed(parsed, fields), FAULT: parsed["fault"]}
    return with_parsed.withColumns(added).drop(_PARSED)


def percolate(
    documents: DataFrame,
    queries: DataFrame,
    fields: SearchFields,
    *,
    query: str = "query",
    as_of: str | None = None,
    query_key: str | Sequence[str] = "query_id",
    order: str | Sequence[str] = (),
) -> DataFrame:
    """Match documents against standing queries: one result row per document and query.

    With `as_of`, the time of the documents, the queries are a history, as in `stream_table`: a
    document is matched with the version of each query that was valid at its time. A version is
    valid from `valid_from` (inclusive) until the next version of its `query_key`, or until
    `valid_to` if that is earlier; among versions that begin at one instant, the last by `order` is
    valid. Documents and versions with a null time match nothing. Without `as_of`, each row is a
    query and is matched with all documents.

    Method: an index avoids testing every query with every document. A query has covers: sets of
    keys, one of which a matching document must have (a required term, the first characters of a
    prefix, the bucket of a range, or one key of each branch of an OR). The query is indexed by its
    rarest cover, by the frequency of keys in these documents and then by length. Documents are
    exploded by key and joined with the index, and candidate pairs are tested with Spark
    expressions. Queries with up to six words, prefixes and ranges use generated code; longer
    queries are interpreted. A query without a required key is tested with every document: only NOT,
    a range with one bound, a prefix of one character, or an OR with such a branch.

    State: none. On a stream of documents, the queries are read again in each micro-batch, and key
    frequencies are unknown; the sink `tidegate.sinks.Percolator` maintains the queries from their
    changelog. The queries are broadcast, about a kilobyte each.

    Args:
        documents: a batch or a stream with the columns of `fields`.
        queries: a batch with the texts in `query`, or the result of `compile_queries`, whose rows
            with a null `compiled` match nothing.
        fields: the fields of the documents.
        query: the column of the texts.
        as_of: the time column of the documents, a timestamp.
        query_key: the key columns of the queries, for `as_of`.
        order: columns that order versions that begin at one instant.

    Returns:
        The columns of the documents, then those of the queries except the text, `compiled`, `fault`
        and `valid_to`. Other columns must not be in both. The row order is undefined.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call. An invalid query text fails the
            Spark job, unless the queries are from `compile_queries`.

    Source: the presearcher of Luwak (now Lucene Monitor) and Elasticsearch's percolator for
    required keys and their selection; bucket levels and selection by document frequency are
    additions.

    >>> fields = SearchFields(text="page", integer="ms")
    >>> texts = [("slow", "ms:>=7"), ("first", "page:0 AND NOT ms:[2 TO 6]")]
    >>> queries = spark.createDataFrame(texts, "query_id string, query string")
    >>> matches = percolate(clicks, queries, fields)
    >>> sorted((row.query_id, row.page, row.ms) for row in matches.collect())
    [('first', '/0', 0), ('slow', '/1', 7), ('slow', '/2', 8)]
    """
    key = require_column_names(query_key, "query_key")
    order = require_column_names(order, "order")
    require_instance(fields, "fields", SearchFields, 'SearchFields(text="page")')
    fields.require_documents(documents)
    require_dataframe(queries, "queries")
    compiled_queries = _with_compiled(queries, fields, query)
    excluded = (query, COMPILED_COLUMN, FAULT, VALID_TO)
    added = [name for name in queries.columns if name not in excluded]
    require_no_name_clash(documents.columns, added, "queries")
    _require_history(documents, compiled_queries, key, order, as_of)
    with_keys = with_document_keys(documents, fields)
    key_frequencies = None if documents.isStreaming else _frequent_keys(with_keys)
    if as_of is None:
        query_index = _build_index(compiled_queries, added, key_frequencies)
        is_valid = F.lit(True)
    else:
        bounds = {_START: F.col(VALID_FROM), _END: version_ends(compiled_queries, key, order)[1]}
        versions = compiled_queries.where(F.col(VALID_FROM).isNotNull()).withColumns(bounds)
        non_empty = versions.where(F.coalesce(F.col(_START) < F.col(_END), F.lit(True)))
        query_index = _build_index(non_empty, [*added, _START, _END], key_frequencies)
        is_valid = is_valid_at(as_of, _START, _END)
    result = _matching_pairs(with_keys.withColumn(_KEY, F.explode(KEYS)), query_index, is_valid)
    return result.select(*map(quoted_column, [*documents.columns, *added]))


def _require_history(
    documents: DataFrame, queries: DataFrame, key: list[str], order: list[str], as_of: str | None
) -> None:
    """Raise for a stream of queries, and with `as_of` for queries without validity columns."""
    if queries.isStreaming:
        raise ArgumentError(
            "invalid queries: a stream",
            "a batch",
            "the sink tidegate.sinks.Percolator, which maintains queries from their changelog",
        )
    if as_of is None:
        if order:
            raise ArgumentError(
                f"invalid order: {order!r}", "no order without as_of", 'as_of="event_time"'
            )
        return
    require_columns(documents, [as_of], "as_of")
    require_columns(queries, [*key, *order, VALID_FROM], "queries")
    valid_to = [(queries, VALID_TO)] if VALID_TO in queries.columns else []
    for frame, name in [(documents, as_of), (queries, VALID_FROM), *valid_to]:
        column_type = frame.schema[name].dataType
        if not isinstance(column_type, TimestampType):
            raise ColumnTypeError(
                f"invalid type of column {name!r}: {column_type.simpleString()}",
                "timestamp",
                f"withColumn({name!r}, F.to_timestamp({name!r}))",
            )


def _with_compiled(queries: DataFrame, fields: SearchFields, query: str) -> DataFrame:
    """Return the compiled queries; the query fails if they were compiled for other fields."""
    if COMPILED_COLUMN in queries.columns:
        mark = quoted_column(COMPILED_COLUMN)["mark"]
        message = (
            "invalid compiled query: compiled for other fields; run compile_queries with these "
            "fields, or use new tables"
        )
        accepted = F.when(mark == fields.fingerprint, quoted_column(COMPILED_COLUMN))
        checked = F.when(mark.isNotNull(), F.coalesce(accepted, F.raise_error(F.lit(message))))
        return queries.withColumn(COMPILED_COLUMN, checked)
    fault, compiled = quoted_column(FAULT), quoted_column(COMPILED_COLUMN)
    checked = F.when(fault.isNotNull(), F.raise_error(fault)).otherwise(compiled)
    return compile_queries(queries, fields, query=query).withColumn(COMPILED_COLUMN, checked)


def _frequent_keys(documents: DataFrame) -> DataFrame:
    """Return one row with the most frequent keys of the documents in ascending frequency."""
    counts = documents.select(F.explode(KEYS).alias(_KEY)).groupBy(_KEY).count()
    most_frequent = counts.orderBy(F.desc("count"), _KEY).limit(_MAX_FREQUENT_KEYS)
    sorted_counts = F.sort_array(F.collect_list(F.struct("count", _KEY)))
    return most_frequent.agg(sorted_counts[_KEY].alias(_FREQUENT_KEYS))


def _build_index(
    queries: DataFrame, columns: list[str], key_frequencies: DataFrame | None
) -> DataFrame:
    """Return a row for each lookup key of a query, with these columns of the query."""
    compiled_queries = queries.where(quoted_column(COMPILED_COLUMN).isNotNull())
    if key_frequencies is not None:
        compiled_queries = compiled_queries.crossJoin(F.broadcast(key_frequencies))
    compiled = quoted_column(COMPILED_COLUMN)
    weights = [
        _rank_cover(compiled["covers"], position, key_frequencies is not None)
        for position in range(_MAX_COVERS)
    ]
    ranked = compiled_queries.select(
        *map(quoted_column, columns),
        compiled["steps"].alias(_STEPS),
        compiled["table"].alias(_TABLE),
        F.sort_array(F.array(*weights)).alias(_COVERS),
    )
    # The rarest cover is the lookup key. Other covers with one key are required keys: documents
    # without them are not tested.
    rarest, *others = [F.get(_COVERS, F.lit(position))["cover"] for position in range(_MAX_COVERS)]
    lookup_columns = {_COVER: rarest}
    for name, cover in zip(_REQUIRED_KEYS, others, strict=True):
        lookup_columns[name] = F.when(F.size(cover) == 1, F.get(cover, F.lit(0)))
    lookup = ranked.withColumns(lookup_columns).drop(_COVERS)
    return lookup.withColumn(_QUERY_KEY, F.explode(_COVER))


def _rank_cover(covers: Column, position: int, has_frequencies: bool) -> Column:
    """Return a cover after fields that sort rare keys first and null covers last."""
    cover = F.get(covers, F.lit(position))
    frequency_rank = F.lit(0)
    if has_frequencies:
        keys = [F.get(cover, F.lit(number)) for number in range(_UNROLLED_KEYS)]
        ranks = [F.array_position(_FREQUENT_KEYS, key) for key in keys]
        frequency_rank = F.greatest(*[F.coalesce(rank, F.lit(0)) for rank in ranks])
    last_rank = F.lit(_MAX_FREQUENT_KEYS + 1)
    rank = F.when(cover.isNull(), last_rank).otherwise(frequency_rank).cast("int")
    return F.struct(rank.alias("rank"), F.lit(position), cover.alias("cover"))


def _matching_pairs(documents: DataFrame, query_index: DataFrame, is_valid: Column) -> DataFrame:
    """Return documents (exploded by key) with each valid query that they match."""
    has_key = quoted_column(_KEY) == quoted_column(_QUERY_KEY)
    candidates = documents.join(F.broadcast(query_index), has_key & is_valid)
    required_keys = map(quoted_column, _REQUIRED_KEYS)
    has_required_keys = reduce(and_, [key.isNull() | _has_key(key) for key in required_keys])
    # WHEN evaluates the expensive test only for pairs that pass the cheap one.
    is_match = F.when(_is_first_shared_key(), _is_match())
    return candidates.where(F.when(has_required_keys, is_match))


def _has_key(key: Column) -> Column:
    return F.array_contains(quoted_column(KEYS), key)


def _is_first_shared_key() -> Column:
    """Return whether the key is the first shared key, so that each pair is tested once."""
    keys = [F.get(_COVER, F.lit(position)) for position in range(_UNROLLED_KEYS)]
    others = F.element_at(F.filter(_COVER, _has_key), 1)
    first = F.coalesce(*[F.when(_has_key(key), key) for key in keys], others)
    return (F.size(_COVER) == 1) | (first == quoted_column(_KEY))


def _is_match() -> Column:
    """Return whether a document matches a query, by its truth table or its program."""
    bits = []
    for position in range(MAX_TABLE_TESTS):
        answer = F.coalesce(_test_result(F.get(_STEPS, F.lit(position))), F.lit(False))
        is_true = (F.size(_STEPS) > position) & answer
        bits.append(F.when(is_true, F.lit(1 << position)).otherwise(F.lit(0)))
    table_result = F.getbit(quoted_column(_TABLE), reduce(Column.__add__, bits)) == 1
    return F.when(quoted_column(_TABLE).isNotNull(), table_result).otherwise(_evaluate_program())


def _evaluate_program() -> Column:
    """Return the result of a postfix program, evaluated on a stack of bits."""

    def apply_step(stack: Column, step: Column) -> Column:
        answer = F.coalesce(_test_result(step), F.lit(False)).cast("bigint")
        below = F.shiftright(stack, 1)
        return (
            F.when(step["op"] == AND, below.bitwiseAND(stack.bitwiseOR(F.lit(-2))))
            .when(step["op"] == OR, below.bitwiseOR(stack.bitwiseAND(F.lit(1))))
            .when(step["op"] == NOT, stack.bitwiseXOR(F.lit(1)))
            .otherwise(F.shiftleft(stack, 1).bitwiseOR(answer))
            .cast("bigint")
        )

    return F.aggregate(quoted_column(_STEPS), F.lit(0).cast("bigint"), apply_step) == 1


def _test_result(step: Column) -> Column:
    integer = F.get(quoted_column(INTEGERS), step["field"])
    double = F.get(quoted_column(DOUBLES), step["field"])
    return (
        F.when(step["op"] == INTEGER, integer.between(step["least"], step["most"]))
        .when(step["op"] == DOUBLE, double.between(step["low"], step["high"]))
        .otherwise(F.contains(F.get(quoted_column(TEXTS), step["field"]), step["needle"]))
    )
