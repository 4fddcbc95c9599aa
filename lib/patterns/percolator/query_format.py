"""The changelog format of standing queries: the record key is the query id, the value its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...columns import as_schema
from ...errors import ColumnTypeError
from ._compiler import COMPILED_DDL, compile_parsed, parse_text
from .search_fields import SearchFields

_PARSED = "__tidegate_parsed"
_SCHEMA = (
    f"query_id string, query string, compiled {COMPILED_DDL}, event_time timestamp, "
    "deleted boolean, query_partition int, query_offset bigint"
)


def query_format(fields: SearchFields) -> QueryFormat:
    """Return the format of a compacted topic of queries; a tombstone deletes the query.

    | field | content |
    |---|---|
    | query_id | the record key |
    | query, compiled | the text, and the compiled query for `percolate`; null for a tombstone |
    | event_time | the record timestamp |
    | deleted | whether the record is a tombstone |
    | query_partition, query_offset | the log position, which orders the changes |

    A record with a null key or an invalid query is a dead letter, whose reason includes the
    position of a syntax error. The stored query with that id does not change.

    Raises:
        ColumnTypeError: at the call.

    >>> query_format(SearchFields(text="body")).schema.names[:2]
    ['query_id', 'query']
    """
    if not isinstance(fields, SearchFields):
        raise ColumnTypeError(
            f"invalid fields: {fields!r}", "SearchFields", 'SearchFields(text="body")'
        )
    return QueryFormat(fields)


@dataclass(frozen=True)
class QueryFormat:
    """The format of a changelog of standing queries; see `query_format`."""

    plan_name: ClassVar[str] = "query_format"
    fields: SearchFields
    required_columns: ClassVar[tuple[str, ...]] = ("key", "partition", "offset", "timestamp")

    @property
    def schema(self) -> StructType:
        """The fields of a query, and the time and log position of its change."""
        return as_schema(_SCHEMA)

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        parsed = raw.withColumn(_PARSED, parse_text(_valid_utf8("value"), self.fields))
        record = F.struct(
            _valid_utf8("key").alias("query_id"),
            _valid_utf8("value").alias("query"),
            compile_parsed(F.col(_PARSED), self.fields).alias("compiled"),
            F.col("timestamp").alias("event_time"),
            F.col("value").isNull().alias("deleted"),
            F.col("partition").alias("query_partition"),
            F.col("offset").alias("query_offset"),
        )
        is_valid = F.col("value").isNull() | F.col(_PARSED)["steps"].isNotNull()
        bad = _valid_utf8("key").isNull() | ~is_valid
        return parsed.withColumns({"record": record, "bad": bad}).drop(_PARSED)

    def explain_failures(self, dead_letters: DataFrame) -> DataFrame:
        """Add `reason`."""
        reason = (
            F.when(F.col("key").isNull(), "no key")
            .when(_valid_utf8("key").isNull(), "invalid UTF-8 in key")
            .when(_valid_utf8("value").isNull(), "invalid UTF-8 in value")
            .otherwise(parse_text(_valid_utf8("value"), self.fields)["fault"])
        )
        return dead_letters.withColumn("reason", reason)


def _valid_utf8(name: str) -> Column:
    text = F.col(name).cast("string")
    return F.when(F.is_valid_utf8(text), text)
