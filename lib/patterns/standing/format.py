"""The changelog of standing queries: a record's key is a query's id, its value the query's text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...columns import schema_of
from ...errors import ColumnTypeError
from ._compiled import COMPILED, compiled, was_read
from .fields import SearchFields

_READ = "__tidegate_read"
_SCHEMA = (
    f"query_id string, query string, compiled {COMPILED}, event_time timestamp, deleted boolean, "
    "query_partition int, query_offset bigint"
)


def query_format(fields: SearchFields) -> QueryFormat:
    """Read a compacted topic of queries: key = id, value = text; no value takes the query away.

    | field | what it is |
    |---|---|
    | query_id | the record's key |
    | query, compiled | the text, and what `matches` takes in its place; null for a tombstone |
    | event_time | the record's own timestamp |
    | deleted | whether it is a tombstone |
    | query_partition, query_offset | the record's place: the order of changes |

    A record without a key, and a text that is no query of these fields, is a dead letter with the
    reason; of the text it tells the place. The query of that id stays as it was.

    Raises:
        ColumnTypeError: at the call.

    >>> query_format(SearchFields(text="body")).schema.names[:2]
    ['query_id', 'query']
    """
    if not isinstance(fields, SearchFields):
        raise ColumnTypeError(f"fields is {fields!r}.", "SearchFields.")
    return QueryFormat(fields)


@dataclass(frozen=True)
class QueryFormat:
    """Standing queries by their id; made by `query_format`, where its rules stand."""

    fields: SearchFields
    needs: ClassVar[tuple[str, ...]] = ("key", "partition", "offset", "timestamp")

    @property
    def schema(self) -> StructType:
        """The fields of a query, and those that say when and where it changed."""
        return schema_of(_SCHEMA)

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        read = raw.withColumn(_READ, was_read(_valid("value"), self.fields))
        record = F.struct(
            _valid("key").alias("query_id"),
            _valid("value").alias("query"),
            compiled(F.col(_READ), self.fields).alias("compiled"),
            F.col("timestamp").alias("event_time"),
            F.col("value").isNull().alias("deleted"),
            F.col("partition").alias("query_partition"),
            F.col("offset").alias("query_offset"),
        )
        good = F.col("value").isNull() | F.col(_READ)["steps"].isNotNull()
        bad = _valid("key").isNull() | ~good
        return read.withColumns({"record": record, "bad": bad}).drop(_READ)

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Add `reason`."""
        reason = (
            F.when(F.col("key").isNull(), "no key")
            .when(_valid("key").isNull(), "key is no UTF-8")
            .when(_valid("value").isNull(), "value is no UTF-8")
            .otherwise(was_read(_valid("value"), self.fields)["fault"])
        )
        return dead.withColumn("reason", reason)


def _valid(name: str) -> Column:
    text = F.col(name).cast("string")
    return F.when(F.is_valid_utf8(text), text)
