"""Nothing but a table's rows of now left on disk: no older file, no older log."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from ...columns import escaped
from ...commit.once import untouched
from ...commit.options import CommitOptions
from ...jvm import (
    DeltaState,
    checkpoint_table,
    delta_state,
    touch_transaction,
    with_settings,
)
from ..query.late_rows import SINCE
from .places import LOG, Root

_KEPT = "delta.deletedFileRetentionDuration"
_BEFORE = "tidegate.forgetting"
"""A property that a table has while it is purged: what it had for _KEPT before, or nothing."""
_MERGED = "tidegate.merged"
"""Besides, of a table of late rows: the version up to which they are merged."""
_NOTHING = "interval 0 seconds"
_SIDECARS = "_sidecars"
_NUMBERED = re.compile(r"\.?(\d{20})\.(.*)")
_TO_VACUUM = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Delta lists the files in as many tasks, 10,000 unless it is said.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


def unfinished(state: DeltaState) -> bool:
    """Return whether a purge of the table was begun and not finished."""
    return state.property(_BEFORE) is not None


def purge(
    spark: SparkSession, root: Root, name: str, look: Callable[[], None], merged: int | None = None
) -> None:
    """Remove every file and log entry that the table's newest version does not need.

    Files that hold rows marked as deleted are written anew; all files that the newest version does
    not name are vacuumed, change data among them; and the log begins anew with a checkpoint. Older
    versions of the table are gone. The newest stamp of each step is carried on in a commit without
    rows, so that its job goes on as before. Killed at any point, it is finished by another call.

    look: called before each part, and raises where the table is in use. merged: the version up to
    which the rows of a table of late rows are merged.
    """
    path = root.of(name)
    look()
    _begin(spark, path, merged)
    # What was forgotten before the property was there is vacuumed, and no longer told by the log.
    if delta_state(spark, path).has_vectors():
        spark.sql(f"REORG TABLE {_name(path)} APPLY (PURGE)")
    look()
    with with_settings(spark, _TO_VACUUM):
        DeltaTable.forPath(spark, path).vacuum(0)
    root.tidy(name)
    look()
    first = delta_state(spark, path).version + 1
    _carry_on(spark, path)
    # A checkpoint's sidecars bear no version: those of before are those that are there by now.
    sidecars = root.files_in(f"{name}/{LOG}/{_SIDECARS}".lstrip("/"))
    newest = checkpoint_table(spark, path)
    _end(spark, path, newest)
    look()
    for file in root.files_in(f"{name}/{LOG}".lstrip("/")):
        if _old(file.rpartition("/")[2], first, newest):
            root.delete(file)
    for file in sidecars:
        root.delete(file)


def _old(file: str, first: int, checkpoint: int) -> bool:
    """Return whether a file of the log is of before."""
    found = _NUMBERED.fullmatch(file)
    if found is None:
        return False
    return int(found[1]) < (checkpoint if found[2].startswith("checkpoint") else first)


def _begin(spark: SparkSession, path: str, merged: int | None) -> None:
    """Let checkpoints forget files that are gone, whose names and partitions may be a person's."""
    state = delta_state(spark, path)
    if not unfinished(state):
        before = state.property(_KEPT) or ""
        noted = {_BEFORE: before, _KEPT: _NOTHING}
        _set(spark, path, noted if merged is None else {**noted, _MERGED: str(merged)})


def _end(spark: SparkSession, path: str, version: int) -> None:
    """Put the properties back; `version` has the rows of all that are removed."""
    state = delta_state(spark, path)
    before = state.property(_BEFORE)
    merged = state.property(_MERGED)
    wanted = {_KEPT: before} if before else {}
    if merged is not None:
        wanted[SINCE] = f"{merged} {version}"
    if wanted:
        _set(spark, path, wanted)
    gone = [_BEFORE, *([] if before else [_KEPT]), *([] if merged is None else [_MERGED])]
    _alter(spark, path, f"UNSET TBLPROPERTIES ({', '.join(map(repr, gone))})")


def _set(spark: SparkSession, path: str, wanted: Mapping[str, str]) -> None:
    pairs = ", ".join(f"'{name}'='{value}'" for name, value in wanted.items())
    _alter(spark, path, f"SET TBLPROPERTIES ({pairs})")


def _alter(spark: SparkSession, path: str, what: str) -> None:
    spark.sql(f"ALTER TABLE {_name(path)} {what}")


def _name(path: str) -> str:
    return f"delta.{escaped(path)}"


def _carry_on(spark: SparkSession, path: str) -> None:
    """Say the newest stamp of each step anew, the newest last."""
    log = untouched(spark, path)
    numbers = delta_state(spark, path).transactions()
    for app_id, number in sorted(numbers.items(), key=lambda each: each[1]):
        stamp = log.stamp(app_id, number)
        if stamp is not None:
            with CommitOptions.noted(spark, stamp.text()):
                touch_transaction(spark, path, app_id, number)
