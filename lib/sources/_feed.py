"""Delta's change data feed of versions, and what goes wrong there in the library's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from ..changes.between import NOT_UNIQUE
from ..errors import ColumnError, SourceError, TableError, TidegateError
from ..jvm import DeltaState, conditions, message, names_in

_GONE = (
    "DELTA_MISSING_CHANGE_DATA",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "DELTA_VERSION_NOT_FOUND",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_FILE_NOT_FOUND",
    "DELTA_FILE_NOT_FOUND_DETAILED",
    "FAILED_READ_FILE.FILE_NOT_EXIST",
)
_CHANGED = (
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA",
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE",
    "DELTA_BLOCK_COLUMN_MAPPING_AND_CDC_OPERATION",
    "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH",
)
_COMMIT = re.compile(r"(\d{20})\.json")
_HOLE = re.compile(r"Did not get the (?:first|last) delta file version: (\d+) to compute Snapshot")
_KEY = re.compile(rf"(\{{[^\n]*\}}) {NOT_UNIQUE}")


def feed(spark: SparkSession, path: str, first: int, last: int) -> DataFrame:
    """Return Delta's change data feed of versions, both inclusive."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    bounded = reader.option("startingVersion", first).option("endingVersion", last)
    with explained(path):
        return bounded.load(path)


def require_logged(spark: SparkSession, state: DeltaState, first: int, last: int) -> None:
    """Refuse versions of which the table's log has lost a commit: Delta's feed passes over it."""
    found = map(_COMMIT.fullmatch, names_in(spark, state.log_path))
    there = {int(each[1]) for each in found if each}
    # The newest commits of a table that a catalog coordinates may stand elsewhere yet.
    for version in range(first, min(last, max(there, default=-1)) + 1):
        if version not in there:
            raise gone(state.folder, f"version {version} is not in its log")


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Raise the library's error for one of Delta's that the reading of a table's changes meets."""
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:
        found = _explained(path, error)
        if found is None:
            raise
        raise found from error


def gone(path: str, what: str) -> SourceError:
    """Return the error for versions that cannot be read."""
    return SourceError(
        f"{path}: {what}.",
        "versions that the log and VACUUM have left, since the feed was enabled.",
        "begin with a newer version and a new target; then let delta.logRetentionDuration and "
        "delta.deletedFileRetentionDuration be longer than the longest pause between two runs.",
    )


def changed(path: str) -> TableError:
    """Return the error for versions whose columns are not those of now."""
    return TableError(
        f"{path}: a column was dropped, renamed or has another type since the versions that "
        "are to be read.",
        "columns that were only added.",
        "begin with the version of that change, and a new target.",
    )


def not_unique(path: str, what: str) -> ColumnError:
    """Return the error for a key that does not name one row."""
    return ColumnError(
        f"{path}: {what}.", "a key that each row has for itself.", "key=[...] with more columns."
    )


def _explained(path: str, error: Exception) -> TidegateError | None:
    text = message(error)
    names = conditions(error)
    hole = _HOLE.search(text)
    if hole is not None:
        return gone(path, f"version {hole[1]} is not in its log")
    key = _KEY.search(text)
    if key is not None:
        return not_unique(path, f"{key[1]} {NOT_UNIQUE}")
    if any(name in _GONE for name in names):
        first = text.strip().split("\n", 1)[-1 if "calling o" in text else 0][:300]
        return gone(path, f"a version cannot be read: {first}")
    if any(name in _CHANGED for name in names):
        return changed(path)
    return None
