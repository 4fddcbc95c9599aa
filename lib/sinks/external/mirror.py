"""Apply rows to a table of an external store, each batch exactly once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegralType

from ...columns import (
    Fault,
    first_reason,
    quoted_column,
    require_column_names,
    require_columns,
    require_instance,
)
from ...commit.batch import CommitContext
from ...commit.delta_commit import last_batch
from ...commit.protocol import Outcome
from ...errors import ArgumentError, ColumnError, ColumnTypeError
from ...input_frames import only_frame
from ...jvm import error_text
from ...stores.store import DELETED, POSITION, BatchInfo, Store
from ..base import SendingSink, deletion_flag, require_target
from ..kafka.kafka_sink import as_json

APPLIED_SCHEMA = "store STRING, batch BIGINT, rows BIGINT"
_RANK = "__tidegate_rank"
_POSITION_ERROR = "invalid position"


@dataclass(frozen=True)
class Mirror(SendingSink):
    """Maintain a table in an external store, such as PostgreSQL, exactly once.

    The store contains one row per key. A row overwrites the stored row unless the stored position
    is higher. A deleted row leaves its key and position as a tombstone, so that an older row that
    arrives later does not restore it. The store records a batch in the transaction that applies it.
    The Delta table at `path` has one row (store, batch, rows) per applied batch. A batch that
    failed between the two is not applied again.

    If the batch recorded in the store does not follow the one in the table, for example after one
    of them was restored from a backup, the job fails, since rows would be missing.

    Args:
        path: path of the table that records the batches.
        store: the store, such as `PostgresStore`.
        key: the key columns. A job writes a row with a null in one of them to its dead letters, as
            a row that the store cannot represent.
        position: a column of integers, or arrays of integers, that increases with each change of a
            key, such as `position` of changes or `version` of corrected windows. The last row of a
            key in a batch is applied. Nulls and different rows with the same position are rejected.
            Without it, a later batch is newer, and a batch must have one row per key.
        deleted: a boolean column that is not stored; if it is true, the row is deleted.
        columns: the stored columns by name, each an SQL expression over the rows, such as
            {"window_start": "window.start", "views": "views"}; by default the columns of the rows.
        output: name of the commits in the application id.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.
        ColumnError, ColumnTypeError: for a batch, if columns are missing or have other types, or
            the store cannot represent a value.
        StoreError, TableError, TableMismatchError: as `Store.apply`.
        ConflictError: as for `Append`.

    >>> from tidegate.stores import PostgresStore
    >>> store = PostgresStore("totals", host="db.example")
    >>> Mirror("/data/totals.applied", store=store, key="page").tables()
    [('/data/totals.applied', 'mirror')]
    """

    plan_name: ClassVar[str] = "mirror"
    destination: ClassVar[str] = "a store"

    path: str
    _: KW_ONLY
    store: Store
    key: str | Sequence[str]
    position: str | None = None
    deleted: str | None = None
    columns: Mapping[str, str] | None = None
    output: str = "mirror"

    def __post_init__(self) -> None:
        require_target(self.path, self.output)
        require_instance(self.store, "store", Store, 'store=PostgresStore("totals")')
        if not self._keys:
            raise ArgumentError(f"invalid key: {self.key!r}", "at least one column", 'key="page"')
        if self.columns is not None and not (
            isinstance(self.columns, Mapping)
            and all(isinstance(part, str) for pair in self.columns.items() for part in pair)
        ):
            raise ColumnTypeError(
                f"invalid columns: {self.columns!r}",
                "SQL expressions by column name",
                'columns={"window_start": "window.start", "views": "views"}',
            )
        columns = [*self._keys, *self._special_columns]
        if len(set(columns)) < len(columns):
            raise ColumnError(
                f"duplicate column: {', '.join(columns)}",
                "different columns as key, position and deleted",
            )

    @property
    def repeatable_outputs(self) -> frozenset[str]:
        """The output: a row that is applied again replaces itself."""
        return frozenset([self.output])

    @property
    def _keys(self) -> list[str]:
        return require_column_names(self.key, "key")

    @property
    def _special_columns(self) -> list[str]:
        return [name for name in (self.position, self.deleted) if name is not None]

    def rejection(self, rows: DataFrame) -> Column | None:
        """Return why the store cannot have a row: a null key, or a value it cannot represent."""
        values = self._values(rows)
        require_columns(rows.select(*_named(values)), self._keys, "key")
        null_faults: list[Fault] = [
            (values[name].isNull(), f"the key column {name!r} is null") for name in self._keys
        ]
        stored = {name: values[name] for name in values if name not in self._special_columns}
        reasons = [first_reason(null_faults), self.store.rejection(rows, stored)]
        return F.coalesce(*[reason for reason in reasons if reason is not None])

    def _values(self, frame: DataFrame) -> dict[str, Column]:
        """Return the stored columns by name, as expressions over a frame of the job."""
        if self.columns is None:
            return {name: quoted_column(name) for name in frame.columns}
        return {name: F.expr(expression) for name, expression in self.columns.items()}

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Check the columns, apply the rows and record the batch; skip a recorded batch."""
        self.rows(only_frame(frames), batch.plan.number)
        return super().write(frames, batch, rows_out=rows_out)

    def send(self, rows: DataFrame, batch: CommitContext) -> int:
        """Apply the rows to the store; return their number."""
        batch_info = BatchInfo(
            sender=batch.plan.app_id(self.output),
            number=batch.plan.number,
            offsets_hash=batch.plan.offsets_hash,
            previous_number=last_batch(rows.sparkSession, self.path, batch, self.output),
        )
        try:
            self.store.apply(self.rows(rows, batch.plan.number), self._keys, batch_info)
        except PySparkException as error:
            fault = re.search(rf"{_POSITION_ERROR}: (.+?); {_POSITION_ERROR}", error_text(error))
            if fault is None:
                raise
            raise ColumnError(
                f"invalid position: {fault[1]}; nothing was written",
                "a position in each row that increases with each change of a key",
            ) from None
        return rows.count()

    def progress_row(self, batch: CommitContext, sent: int) -> tuple[tuple[object, ...], str]:
        """Return the row that records an applied batch, and the schema of the table."""
        return (self.store.name, batch.plan.number, sent), APPLIED_SCHEMA

    def rows(self, frame: DataFrame, batch_number: int) -> DataFrame:
        """Return the rows to apply: keys, values, position and deletion flag."""
        keys, special_columns = self._keys, self._special_columns
        frame = frame.select(*_named(self._values(frame)))
        require_columns(frame, [*keys, *special_columns], "key, position and deleted")
        reserved = [name for name in frame.columns if name in (POSITION, DELETED, _RANK)]
        if reserved:
            raise ColumnError(f"reserved column name: {', '.join(reserved)}", "other names")
        is_deleted = F.lit(False) if self.deleted is None else deletion_flag(frame, self.deleted)
        values = [
            F.when(~is_deleted, quoted_column(name)).alias(name)
            for name in frame.columns
            if name not in {*keys, *special_columns}
        ]
        positioned = frame.select(
            *map(quoted_column, keys),
            *values,
            self._position_array(frame, batch_number).alias(POSITION),
            is_deleted.alias(DELETED),
        )
        if self.position is None:
            return positioned
        return _latest_per_key(positioned, keys, self.position)

    def _position_array(self, frame: DataFrame, batch_number: int) -> Column:
        if self.position is None:
            return F.array(F.lit(batch_number).cast("bigint"))
        data_type = frame.schema[self.position].dataType
        element_type = data_type.elementType if isinstance(data_type, ArrayType) else data_type
        if not isinstance(element_type, IntegralType):
            raise ColumnTypeError(
                f"invalid position: {self.position!r} is of type {data_type.simpleString()}",
                "a column of integers or arrays of integers",
            )
        value = quoted_column(self.position)
        numbers = value if isinstance(data_type, ArrayType) else F.array(value)
        longs = numbers.cast("array<bigint>")
        has_no_null = ~F.exists(longs, lambda each: each.isNull())
        error = _raise_position_error(f"{self.position} is null or contains a null")
        return F.when(has_no_null, longs).otherwise(error.cast("array<bigint>"))


def _named(values: Mapping[str, Column]) -> list[Column]:
    return [value.alias(name) for name, value in values.items()]


def _latest_per_key(positioned: DataFrame, keys: Sequence[str], position: str) -> DataFrame:
    """Return the row of each key with the highest position; fail if two such rows differ."""
    by_key = Window.partitionBy(*map(quoted_column, keys))
    rank = F.rank().over(by_key.orderBy(F.desc(POSITION)))
    latest = positioned.withColumn(_RANK, rank).where(f"{_RANK} = 1")
    row = as_json(positioned.columns)
    differs = F.min(row).over(by_key) != F.max(row).over(by_key)
    tie_error = _raise_position_error(f"{position} is equal in two different rows of a key")
    number = F.row_number().over(by_key.orderBy(POSITION))
    latest_rows = latest.withColumn(_RANK, F.when(differs, tie_error.cast("int")).otherwise(number))
    return latest_rows.where(f"{_RANK} = 1").drop(_RANK)


def _raise_position_error(fault: str) -> Column:
    return F.raise_error(F.lit(f"{_POSITION_ERROR}: {fault}; {_POSITION_ERROR}"))
