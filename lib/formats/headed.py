"""Values behind a schema registry's header, whose schema is known otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..columns import quoted
from ..errors import ArgumentError
from ._schema_ids import NO_HEADER, WRONG_MAGIC
from .format import Format
from .json import JsonFormat

_WHOLE = "__tidegate_whole"
_BYTES = 5


def headed(form: JsonFormat) -> HeadedFormat:
    """Read JSON that a schema registry's client wrote: each value begins with a header.

    The header is a byte 0 and the id of a JSON Schema, four bytes. What follows is read by `form`,
    with its rules. The id is not looked up: the columns and their types are those of `form`,
    whatever the JSON Schema says.

    | value | reason |
    |---|---|
    | no value (a tombstone) | as `form` has it |
    | fewer than five bytes | "no schema header" |
    | a first byte that is not 0, such as the brace of JSON without a header | "wrong magic byte" |
    | a header and nothing after it; any other value | the reason of `form` |

    Raises:
        ArgumentError: at the call, for what is no `json_format`.

    Source: Confluent, "Wire format".

    >>> from tidegate.formats import json_format
    >>> headed(json_format("page STRING, ms BIGINT")).schema.names
    ['page', 'ms']
    """
    if not isinstance(form, JsonFormat):
        raise ArgumentError(
            f"form is {form!r}.",
            "a json_format.",
            "avro_format and protobuf_format take registry= and header= themselves.",
        )
    return HeadedFormat(form)


@dataclass(frozen=True)
class HeadedFormat:
    """A format of what stands after the header; made by `headed`, where its rules stand."""

    form: Format

    @property
    def schema(self) -> StructType:
        """The record's fields."""
        return self.form.schema

    @property
    def needs(self) -> Sequence[str]:
        """What the form reads."""
        return self.form.needs

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        decoded = self.form.decode(_opened(raw))
        bad = F.col("bad") | F.coalesce(_wrong(quoted(_WHOLE)).isNotNull(), F.lit(False))
        return _closed(decoded.withColumn("bad", bad), [*raw.columns, "record", "bad"])

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Add `reason`."""
        told = self.form.diagnose(_opened(dead))
        reason = F.coalesce(_wrong(quoted(_WHOLE)), F.col("reason"))
        return _closed(told.withColumn("reason", reason), [*dead.columns, "reason"])


def _opened(raw: DataFrame) -> DataFrame:
    """Put what stands after the header in place of the value."""
    value = F.col("value")
    rest = F.substring(value, _BYTES + 1, 2**31 - 1)
    return raw.withColumns({_WHOLE: value, "value": F.when(_wrong(value).isNull(), rest)})


def _closed(opened: DataFrame, columns: list[str]) -> DataFrame:
    return opened.select(
        *[quoted(_WHOLE if name == "value" else name).alias(name) for name in columns]
    )


def _wrong(value: Column) -> Column:
    """Return what is wrong with a value's header; null where nothing is, and for no value."""
    magic = F.substring(value, 1, 1)
    return F.when((F.octet_length(value) > 0) & (magic != F.lit(b"\0")), WRONG_MAGIC).when(
        F.octet_length(value) < _BYTES, NO_HEADER
    )
