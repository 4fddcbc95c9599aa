"""What the formats of changelogs share: an envelope that is read by any format becomes a change, or
has a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructType

from ..changes.change import DELETE, ROWS, TOMBSTONE, TRUNCATE, change_type
from ..columns import quoted
from ..errors import ArgumentError
from ..eventtime.guard import instant

Position = Literal["log", "source"]
_PARTS = ("code", "before", "after", "micros", "at")
_UNREAD, _VALUE, _KEY = (f"__tidegate_change_{name}" for name in ("unread", "value", "own"))
_UNAVAILABLE = "__debezium_unavailable_value"


class Format(Protocol):
    """How bytes become fields: `tidegate.sources.Format`."""

    @property
    def schema(self) -> StructType:
        """The record's fields."""

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record`, a struct of the fields, and `bad`, a boolean."""

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Add `reason`, a text."""


@dataclass(frozen=True)
class Parts:
    """What an envelope tells: the kind of change, the row before and after it, when and where in the log it was made.

    `micros` counts from 1970; `at` is the source's position. Each may be null.
    """

    code: Column
    before: Column
    after: Column
    micros: Column
    at: Column


@dataclass(frozen=True)
class Dialect:
    """One way to write changes: the envelope's fields, those of a record's key, and what is found where in them.

    `ops` gives the kind of change for each code; `none` holds codes of records that tell of no row.
    """

    envelope: StructType
    keys: StructType
    parts: Callable[[Column], Parts]
    key: Callable[[Column, str], Column]
    ops: Mapping[str, str]
    none: tuple[str, ...]


@dataclass(frozen=True)
class ChangeFormat:
    """A changelog's format; made by `debezium` and `maxwell`, where its rules stand."""

    columns: StructType
    keys: tuple[str, ...]
    dialect: Dialect
    using: Callable[[StructType], Format]
    position: Position

    @cached_property
    def schema(self) -> StructType:
        """The fields of a change."""
        return change_type(self.columns, self.keys)

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record` and `bad`."""
        bad = quoted(_UNREAD) | self._reason().isNotNull()
        opened = self._opened(raw)
        return opened.select(
            *map(quoted, raw.columns), self._change().alias("record"), bad.alias("bad")
        )

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Add `reason`; a `record` and `bad` of the rows are left out."""
        kept = [name for name in dead.columns if name not in ("record", "bad")]
        told = self._values.diagnose(self._opened(dead.select(*map(quoted, kept))))
        unread = quoted(_UNREAD) & quoted("value").isNotNull()
        return told.withColumn(
            "reason", F.when(unread, F.col("reason")).otherwise(self._reason())
        ).select(*map(quoted, kept), "reason")

    @cached_property
    def _values(self) -> Format:
        return self.using(self.dialect.envelope)

    @cached_property
    def _keyed(self) -> Format:
        return self.using(self.dialect.keys)

    def _opened(self, raw: DataFrame) -> DataFrame:
        """Add the envelope's parts, whether it could not be read, and the record's own key where
        that is needed."""
        read = self._values.decode(raw)
        parts, unread = (
            self.dialect.parts(F.col("record")),
            F.col("bad") & F.col("value").isNotNull(),
        )
        opened = read.select(
            *map(quoted, raw.columns),
            *[getattr(parts, name).alias(_part(name)) for name in _PARTS],
            F.coalesce(unread, F.lit(True)).alias(_UNREAD),
        )
        needed = self._op().isin(DELETE, TOMBSTONE)
        asked = opened.withColumns({_VALUE: F.col("value"), "value": F.when(needed, F.col("key"))})
        found = self._keyed.decode(asked)
        own = F.struct(*[self.dialect.key(F.col("record"), name).alias(name) for name in self.keys])
        columns = [
            quoted(_VALUE).alias(name) if name == "value" else quoted(name)
            for name in opened.columns
        ]
        return found.select(*columns, F.when(~F.col("bad"), own).alias(_KEY))

    def _of(self, part: str) -> Column:
        return quoted(_part(part))

    def _op(self) -> Column:
        known = F.create_map(*[F.lit(text) for pair in self.dialect.ops.items() for text in pair])
        return F.when(F.col("value").isNull(), F.lit(TOMBSTONE)).otherwise(
            F.try_element_at(known, self._of("code"))
        )

    def _key_of(self, name: str) -> Column:
        return F.coalesce(
            *[
                source.getField(name)
                for source in (self._of("after"), self._of("before"), quoted(_KEY))
            ]
        )

    def _place(self) -> Column:
        if self.position == "log":
            return F.array(F.col("offset"))
        return F.when(F.col("value").isNotNull(), self._of("at"))

    def _change(self) -> Column:
        op, shape = self._op(), self.schema
        key = F.struct(*[self._key_of(name).alias(name) for name in self.keys])
        fields = {
            "op": F.coalesce(op, F.lit("")),
            "key": F.when(op != F.lit(TRUNCATE), key),
            "before": self._of("before"),
            "after": F.when(op.isin(*ROWS), self._of("after")),
            "position": self._place(),
            "event_time": F.when(op == F.lit(TOMBSTONE), F.col("timestamp")).otherwise(
                instant(self._of("micros"), "microseconds")
            ),
            "place": F.struct(*[F.col(name) for name in ("topic", "partition", "offset")]),
        }
        return F.struct(
            *[fields[field.name].cast(field.dataType).alias(field.name) for field in shape]
        )

    def _reason(self) -> Column:
        """Say why a record that could be read is no change; null where it is one. Also null for
        what is not read."""
        op, code, value = self._op(), self._of("code"), F.col("value")
        missing = F.concat_ws(
            ", ", *[F.when(self._key_of(name).isNull(), name) for name in self.keys]
        )
        left_out = F.concat_ws(", ", *self._left_out())
        reason = (
            F.when(value.isNull() & F.col("key").isNull(), "no key and no value")
            .when(value.isNull() & quoted(_KEY).isNull(), "tombstone whose key cannot be read")
            .when(quoted(_UNREAD), F.lit(None).cast("string"))
            .when(value.isNotNull() & code.isNull(), "no kind of change")
            .when(code.isin(*self.dialect.none), F.concat(F.lit("no change of a row: "), code))
            .when(
                op.isNull(), F.concat(F.lit("unknown kind of change: "), F.substring(code, 1, 40))
            )
            .when(op.isin(*ROWS) & self._of("after").isNull(), "no row after the change")
            .when(
                (op != F.lit(TRUNCATE)) & (missing != F.lit("")),
                F.concat(F.lit("no key: "), missing),
            )
            .when(
                op.isin(*ROWS) & (left_out != F.lit("")),
                F.concat(F.lit("value left out: "), left_out),
            )
        )
        if self.position == "log":
            return reason.when(
                op == F.lit(TRUNCATE), "truncate, whose offset tells nothing of other partitions"
            )
        return reason.when(
            (op != F.lit(TOMBSTONE)) & self._of("at").isNull(), "no position of the source"
        )

    def _left_out(self) -> list[Column]:
        """Name the columns of which Debezium has sent its placeholder, since the database did not
        log the value."""
        held = {StringType: F.lit(_UNAVAILABLE), BinaryType: F.lit(_UNAVAILABLE.encode())}
        return [
            F.when(self._of("after").getField(field.name) == held[type(field.dataType)], field.name)
            for field in self.columns
            if type(field.dataType) in held
        ] or [F.lit(None).cast("string")]


def _part(name: str) -> str:
    return f"__tidegate_change_{name}"


def checked(position: Position) -> Position:
    """Refuse another choice of what orders the changes."""
    if position not in ("log", "source"):
        raise ArgumentError(f"position is {position!r}.", '"log" or "source".')
    return position
