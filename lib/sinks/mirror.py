"""Rows kept in step in a store outside of Spark, each batch exactly once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, IntegralType

from ..columns import JSON_IN_UTC, names, quoted, require
from ..commit.batch import Batch
from ..commit.once import last_batch
from ..commit.outcome import Outcome
from ..commit.stamp import Stamp
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from ..frames import sole
from ..jvm import message
from ..stores.store import DELETED, POSITION, Applied, Store
from ._targets import require_target
from ._told import told_once

APPLIED = "store STRING, batch BIGINT, rows BIGINT"
_PLACE = "__tidegate_place"
_UNPLACED = "a row of no place"


@dataclass(frozen=True)
class Mirror:
    """Keep a table of a store in step with each batch's rows, exactly once, and note the batch.

    The store has one row a key. A row replaces the one of its key unless that one's position is
    higher; a deleted row leaves its key and position, so that an older row which comes later does
    not bring it back. The store notes a batch in the transaction that applies it. The Delta table
    at `path`, the job's progress, has one row (store, batch, rows) for each batch that the store
    has; a batch that died between the two is not applied again.

    Where the store's note and the table do not follow on each other, such as after a backup of one
    of them was put back, the job stops: rows would be missing.

    Args:
        path: the table of what was applied.
        store: where the rows go, such as `PostgresStore`.
        key: the columns that tell rows apart; none of them may be null.
        position: a column of whole numbers, or arrays of them, that grow from change to change of a
            key: `position` of changes, `version` of corrected windows. Of several rows of a key in
            a batch the last counts; two that differ and have the same position are refused, as is
            a null. Without it a later batch's rows are newer, and a batch may have
            one row a key.
        deleted: a boolean column that is not stored: where it is true, the row of the key is gone.
        step: tells a job's writes apart.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.
        ColumnError, ColumnTypeError: for a batch without the columns, or of other types; and for
            values that the store cannot hold.
        StoreError, TableError, ReplayMismatchError: as `Store.apply`.
        ConflictError: as for `Append`.

    >>> from tidegate.stores import PostgresStore
    >>> store = PostgresStore("totals", host="db.example")
    >>> Mirror("/data/totals.applied", store=store, key="page").tables()
    [('/data/totals.applied', 'mirror')]
    """

    sends: ClassVar[str] = "a store"

    path: str
    _: KW_ONLY
    store: Store
    key: str | Sequence[str]
    position: str | None = None
    deleted: str | None = None
    step: str = "mirror"

    def __post_init__(self) -> None:
        require_target(self.path, self.step)
        if not callable(getattr(self.store, "apply", None)):
            raise ColumnTypeError(
                f"store is {self.store!r}.", "a store.", 'PostgresStore("totals")'
            )
        keys = names(self.key, "key")
        if not keys:
            raise ArgumentError("key names no column.", "one column or more.", 'key="page"')
        apart = [name for name in (self.position, self.deleted) if name is not None]
        if len({*keys, *apart}) < len(keys) + len(apart):
            raise ColumnError(
                f"{', '.join([*keys, *apart])}: a column has two parts.",
                "other columns as key, position and deleted.",
            )

    def tables(self) -> list[tuple[str, str]]:
        """Return the one table, of what was applied."""
        return [(self.path, self.step)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Apply the rows, or none of them where the store already has this batch."""
        frame = sole(frames)
        spark = frame.sparkSession
        rows = self.rows(frame, batch.number)

        def apply() -> int:
            told = Applied(
                sender=Stamp.of(batch, self.step, {}).app_id,
                batch=batch.number,
                offsets=batch.offsets_hash,
                before=last_batch(spark, self.path, batch, self.step),
            )
            with _placed_rows():
                self.store.apply(rows, names(self.key, "key"), told)
            return frame.count()

        def note(number: int) -> DataFrame:
            return spark.createDataFrame([(self.store.name, batch.number, number)], APPLIED)

        return told_once(spark, (self.path, self.step), batch, apply, note, rows_out)

    def rows(self, frame: DataFrame, number: int) -> DataFrame:
        """Return what is applied of a batch's rows: keys, values, position, and what is deleted."""
        keys = names(self.key, "key")
        apart = [name for name in (self.position, self.deleted) if name is not None]
        require(frame, [*keys, *apart], "key, position and deleted")
        taken = [name for name in frame.columns if name in (POSITION, DELETED, _PLACE)]
        if taken:
            raise ColumnError(f"the rows have {', '.join(taken)}.", "other names: these are ours.")
        gone = F.lit(False) if self.deleted is None else self._gone(frame)
        values = [
            F.when(~gone, quoted(name)).alias(name)
            for name in frame.columns
            if name not in {*keys, *apart}
        ]
        placed = frame.select(
            *map(quoted, keys), *values, self._place(frame, number).alias(POSITION),
            gone.alias(DELETED),
        )  # fmt: skip
        if self.position is None:
            return placed
        return _newest(placed, keys, self.position)

    def _gone(self, frame: DataFrame) -> Column:
        assert self.deleted is not None
        if not isinstance(frame.schema[self.deleted].dataType, BooleanType):
            raise ColumnTypeError(f"{self.deleted} is no boolean.", "a boolean column as deleted.")
        return F.coalesce(quoted(self.deleted), F.lit(False))

    def _place(self, frame: DataFrame, number: int) -> Column:
        if self.position is None:
            return F.array(F.lit(number).cast("bigint"))
        kind = frame.schema[self.position].dataType
        if not _is_place(kind):
            raise ColumnTypeError(
                f"{self.position} is {kind.simpleString()}.",
                "whole numbers, or arrays of whole numbers, as position.",
            )
        value = quoted(self.position)
        numbers = value if isinstance(kind, ArrayType) else F.array(value)
        whole = numbers.cast("array<bigint>")
        known = ~F.exists(whole, lambda each: each.isNull())
        none = _refused(f"{self.position} is null, or has a null,").cast("array<bigint>")
        return F.when(known, whole).otherwise(none)


def _newest(placed: DataFrame, keys: Sequence[str], position: str) -> DataFrame:
    """Return the row of each key with the highest position; refuse two of them that differ."""
    key = list(map(quoted, keys))
    last = placed.withColumn(
        _PLACE, F.rank().over(Window.partitionBy(*key).orderBy(F.desc(quoted(POSITION))))
    ).where(f"{_PLACE} = 1")
    same = Window.partitionBy(*key)
    row = F.to_json(F.struct(*(quoted(name) for name in placed.columns)), JSON_IN_UTC)
    unlike = F.min(row).over(same) != F.max(row).over(same)
    refused = _refused(f"{position} is the same in two rows of one key that differ,")
    number = F.row_number().over(same.orderBy(quoted(POSITION)))
    chosen = last.withColumn(_PLACE, F.when(unlike, refused.cast("int")).otherwise(number))
    return chosen.where(f"{_PLACE} = 1").drop(_PLACE)


def _refused(what: str) -> Column:
    return F.raise_error(F.lit(f"{_UNPLACED}: {what} {_UNPLACED}"))


@contextmanager
def _placed_rows() -> Iterator[None]:
    """Tell the library's error for a row that has no place among those of its key."""
    try:
        yield
    except PySparkException as error:
        what = re.search(rf"{_UNPLACED}: (.+?), {_UNPLACED}", message(error))
        if what is None:
            raise
        raise ColumnError(
            f"{what[1]}; nothing was written.",
            "a position in each row, which grows from change to change of a key.",
        ) from None


def _is_place(kind: DataType) -> bool:
    inner = kind.elementType if isinstance(kind, ArrayType) else kind
    return isinstance(inner, IntegralType)
