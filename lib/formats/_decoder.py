"""What the formats of changelogs share: an envelope becomes a change, or has a reason why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import ClassVar, Literal, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructType

from ..changes.change import DELETE, ROWS, TOMBSTONE, TRUNCATE, change_type
from ..columns import quoted
from ..errors import ArgumentError
from ..eventtime.guard import instant
from .format import Format

Position = Literal["log", "source"]
Rule: TypeAlias = tuple[Column, Column]
"""When a record is no change, and the reason that is given then."""

_PREFIX = "__tidegate_change_"
_PARTS = ("code", "before", "after", "micros", "at")
_UNREAD = f"{_PREFIX}unread"
_VALUE = f"{_PREFIX}value"
_KEY = f"{_PREFIX}own"
# What Debezium sends in place of a value that the database did not log.
_PLACEHOLDER = "__debezium_unavailable_value"


@dataclass(frozen=True)
class Parts:
    """What an envelope says of a change; each part may be null.

    code: the kind of change, as the envelope names it.
    before, after: the row before and after the change.
    micros: when the change was made, in microseconds since 1970.
    at: where in the source's log the change stands.
    """

    code: Column
    before: Column
    after: Column
    micros: Column
    at: Column


@dataclass(frozen=True)
class Dialect:
    """One way to write changes.

    envelope: the fields of a record's value.
    keys: the fields of a record's key.
    parts: takes the change out of the envelope.
    key: takes a column of the key out of a record's key.
    ops: the kind of change by its code.
    none: codes of records that are about no row.
    """

    envelope: StructType
    keys: StructType
    parts: Callable[[Column], Parts]
    key: Callable[[Column, str], Column]
    ops: Mapping[str, str]
    none: tuple[str, ...]


@dataclass(frozen=True)
class ChangeFormat:
    """The format of a changelog, which `debezium` and `maxwell` make and describe."""

    columns: StructType
    keys: tuple[str, ...]
    dialect: Dialect
    using: Callable[[StructType], Format]
    position: Position
    needs: ClassVar[tuple[str, ...]] = ("topic", "partition", "offset", "timestamp", "key")

    @cached_property
    def schema(self) -> StructType:
        """The fields of a change."""
        return change_type(self.columns, self.keys)

    def decode(self, raw: DataFrame) -> DataFrame:
        """Add `record`, the change, and `bad`, whether there is none."""
        bad = quoted(_UNREAD) | self._reason().isNotNull()
        change = self._change().alias("record")
        return self._opened(raw).select(*map(quoted, raw.columns), change, bad.alias("bad"))

    def diagnose(self, dead: DataFrame) -> DataFrame:
        """Add `reason`; the columns `record` and `bad` of the rows are left out."""
        kept = [name for name in dead.columns if name not in ("record", "bad")]
        opened = self._opened(dead.select(*map(quoted, kept)))
        unread = quoted(_UNREAD) & quoted("value").isNotNull()
        reason = F.when(unread, F.col("reason")).otherwise(self._reason())
        return self._values.diagnose(opened).select(*map(quoted, kept), reason.alias("reason"))

    @cached_property
    def _values(self) -> Format:
        return self.using(self.dialect.envelope)

    @cached_property
    def _keyed(self) -> Format:
        return self.using(self.dialect.keys)

    def _opened(self, raw: DataFrame) -> DataFrame:
        """Add the envelope's parts, whether it could not be read, and the record's own key."""
        read = self._values.decode(raw)
        parts = self.dialect.parts(F.col("record"))
        unread = F.col("bad") & F.col("value").isNotNull()
        opened = read.select(
            *map(quoted, raw.columns),
            *[getattr(parts, name).alias(_part(name)) for name in _PARTS],
            F.coalesce(unread, F.lit(True)).alias(_UNREAD),
        )
        return self._with_key(opened)

    def _with_key(self, opened: DataFrame) -> DataFrame:
        """Add the record's own key where it is needed, decoded as if it were the record's value."""
        needed = F.when(self._op().isin(DELETE, TOMBSTONE), F.col("key"))
        asked = opened.withColumns({_VALUE: F.col("value"), "value": needed})
        own = F.struct(*[self.dialect.key(F.col("record"), name).alias(name) for name in self.keys])
        columns = [
            quoted(_VALUE).alias(name) if name == "value" else quoted(name)
            for name in opened.columns
        ]
        return self._keyed.decode(asked).select(*columns, F.when(~F.col("bad"), own).alias(_KEY))

    def _of(self, part: str) -> Column:
        return quoted(_part(part))

    def _op(self) -> Column:
        known = F.create_map(*[F.lit(text) for pair in self.dialect.ops.items() for text in pair])
        op = F.try_element_at(known, self._of("code"))
        return F.when(F.col("value").isNull(), F.lit(TOMBSTONE)).otherwise(op)

    def _key_of(self, name: str) -> Column:
        """Return a column of the key: of the row after the change, before it, or of the record."""
        sources = [self._of("after"), self._of("before"), quoted(_KEY)]
        return F.coalesce(*[source.getField(name) for source in sources])

    def _place(self) -> Column:
        if self.position == "log":
            return F.array(F.col("offset"))
        return F.when(F.col("value").isNotNull(), self._of("at"))

    def _change(self) -> Column:
        op = self._op()
        key = F.struct(*[self._key_of(name).alias(name) for name in self.keys])
        made = instant(self._of("micros"), "microseconds")
        fields = {
            "op": F.coalesce(op, F.lit("")),
            "key": F.when(op != F.lit(TRUNCATE), key),
            "before": self._of("before"),
            "after": F.when(op.isin(*ROWS), self._of("after")),
            "position": self._place(),
            "event_time": F.when(op == F.lit(TOMBSTONE), F.col("timestamp")).otherwise(made),
            "place": F.struct("topic", "partition", "offset"),
        }
        return F.struct(
            *[fields[field.name].cast(field.dataType).alias(field.name) for field in self.schema]
        )

    def _reason(self) -> Column:
        """Return why a record is no change; null where it is one, and where it could not be read.

        The first rule that holds gives the reason.
        """
        rules = [*self._record_rules(), *self._row_rules(), self._position_rule()]
        return _first(rules)

    def _record_rules(self) -> Iterable[Rule]:
        code = self._of("code")
        is_tombstone = F.col("value").isNull()
        yield is_tombstone & F.col("key").isNull(), F.lit("no key and no value")
        yield is_tombstone & quoted(_KEY).isNull(), F.lit("tombstone whose key cannot be read")
        # The format of the envelope says why itself.
        yield quoted(_UNREAD), F.lit(None).cast("string")
        yield ~is_tombstone & code.isNull(), F.lit("no kind of change")
        yield code.isin(*self.dialect.none), _said("no change of a row: ", code)
        yield self._op().isNull(), _said("unknown kind of change: ", F.substring(code, 1, 40))

    def _row_rules(self) -> Iterable[Rule]:
        has_row = self._op().isin(*ROWS)
        missing = _listed((name, self._key_of(name).isNull()) for name in self.keys)
        left_out = _listed(self._placeholders())
        no_key = (self._op() != F.lit(TRUNCATE)) & (missing != F.lit(""))
        yield has_row & self._of("after").isNull(), F.lit("no row after the change")
        yield no_key, _said("no key: ", missing)
        yield has_row & (left_out != F.lit("")), _said("value left out: ", left_out)

    def _position_rule(self) -> Rule:
        if self.position == "log":
            is_truncate = self._op() == F.lit(TRUNCATE)
            said = "truncate, whose offset tells nothing of other partitions"
            return is_truncate, F.lit(said)
        nowhere = (self._op() != F.lit(TOMBSTONE)) & self._of("at").isNull()
        return nowhere, F.lit("no position of the source")

    def _placeholders(self) -> Iterable[tuple[str, Column]]:
        """Return the columns that may hold Debezium's placeholder, and whether they do."""
        texts = {StringType: F.lit(_PLACEHOLDER), BinaryType: F.lit(_PLACEHOLDER.encode())}
        for field in self.columns:
            placeholder = texts.get(type(field.dataType))
            if placeholder is not None:
                yield field.name, self._of("after").getField(field.name) == placeholder


def _first(rules: Sequence[Rule]) -> Column:
    """Return the reason of the first rule that holds; null where none does."""
    condition, reason = rules[0]
    return reduce(lambda chain, rule: chain.when(*rule), rules[1:], F.when(condition, reason))


def _said(text: str, value: Column) -> Column:
    return F.concat(F.lit(text), value)


def _listed(named: Iterable[tuple[str, Column]]) -> Column:
    """Return the names of those that hold, as text; empty where none does."""
    return F.concat_ws(", ", *[F.when(holds, name) for name, holds in named])


def _part(name: str) -> str:
    return f"{_PREFIX}{name}"


def checked(position: Position) -> Position:
    """Return the choice of what orders the changes, and refuse another one."""
    if position not in ("log", "source"):
        raise ArgumentError(f"position is {position!r}.", '"log" or "source".')
    return position
