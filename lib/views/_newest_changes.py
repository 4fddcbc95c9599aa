"""What a batch changes in a keyed table: of the changes of each key the newest one."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..columns import quoted
from ._buckets import absent
from ._row_log import GONE, NEW, RowLog

_ROW = "__tidegate_row"


def newest_changes(changes: DataFrame, log: RowLog, deleted: str, path: str) -> DataFrame:
    """Return of each key the change with the highest position.

    deleted: the column that says whether the key's row goes.
    path: the table, by which a change with a null in its key is told.

    Columns: the key, the position, whether the row is gone, the row.
    """
    key = [quoted(name) for name in log.keys]
    every = [quoted(name) for name in changes.columns]
    # Changes at one position should be equal. Where they are not, a batch that runs again must
    # choose the same one.
    order = F.struct(log.place(), F.xxhash64(*every))
    last = F.max_by(F.struct(*every), order).alias(_ROW)
    newest = _keyed(changes, log, path).groupBy(*key).agg(last).select(f"{_ROW}.*")

    gone = F.coalesce(quoted(deleted), F.lit(False))
    not_in_row = (*log.position, deleted)
    row = F.struct(*[quoted(name) for name in changes.columns if name not in not_in_row])
    position = [quoted(name) for name in log.position]
    return newest.select(*key, *position, gone.alias(GONE), F.when(~gone, row).alias(NEW))


def _keyed(changes: DataFrame, log: RowLog, path: str) -> DataFrame:
    """Return the changes, which fail when they are computed where a key has a null."""
    told = f"a change of {path} has a null in its key, {', '.join(log.keys)}"
    refuse = F.raise_error(F.lit(told)).cast("boolean")
    return changes.where(~absent([quoted(name) for name in log.keys]) | refuse)
