"""Delta's change data feed (CDF) of a table as a changelog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ..changelogs.change_schema import RESERVED_COLUMNS, SNAPSHOT, row_type
from ..changelogs.snapshot_diff import IS_OLD, NOT_UNIQUE, as_updates, net_by_key, with_position
from ..columns import (
    quoted_column,
    require_column_names,
    require_condition_text,
    require_integer,
)
from ..errors import (
    ArgumentError,
    ColumnError,
    ColumnTypeError,
    SourceError,
    TableError,
    TidegateError,
)
from ..jvm import (
    CHANGE_FEED,
    DeltaState,
    condition_names,
    delta_state,
    error_text,
    list_names,
)
from ..spark.result_settings import require_result_settings
from .row_checks import parse_deterministic

_UNAVAILABLE_CONDITIONS = {
    "DELTA_MISSING_CHANGE_DATA",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "DELTA_VERSION_NOT_FOUND",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_FILE_NOT_FOUND",
    "DELTA_FILE_NOT_FOUND_DETAILED",
    "FAILED_READ_FILE.FILE_NOT_EXIST",
}
_SCHEMA_CHANGE_CONDITIONS = {
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA",
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE",
    "DELTA_BLOCK_COLUMN_MAPPING_AND_CDC_OPERATION",
    "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH",
}
_COMMIT_FILE = re.compile(r"(\d{20})\.json")
_MISSING_VERSION = re.compile(
    r"Did not get the (?:first|last) delta file version: (\d+) to compute Snapshot"
)
_DUPLICATE_KEY = re.compile(rf"(\{{[^\n]*\}}) {NOT_UNIQUE}")


def read_change_feed(spark: SparkSession, path: str, first: int, last: int) -> DataFrame:
    """Return Delta's change data feed of a range of versions, both inclusive."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    bounded = reader.option("startingVersion", first).option("endingVersion", last)
    with translate_errors(path):
        return bounded.load(path)


def require_logged(spark: SparkSession, state: DeltaState, first: int, last: int) -> None:
    """Refuse versions with a missing commit in the log, which Delta's feed would skip."""
    commit_files = map(_COMMIT_FILE.fullmatch, list_names(spark, state.log_path))
    logged_versions = {int(match[1]) for match in commit_files if match}
    # A catalog can still coordinate the newest commits elsewhere.
    for version in range(first, min(last, max(logged_versions, default=-1)) + 1):
        if version not in logged_versions:
            raise versions_unavailable_error(state.folder, f"version {version} is not in its log")


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Translate Delta's errors about a table's changes."""
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:
        translated = _translate_error(path, error)
        if translated is None:
            raise
        raise translated from error


def versions_unavailable_error(path: str, detail: str) -> SourceError:
    """Return the error for versions that cannot be read."""
    return SourceError(
        f"{path}: {detail}",
        "the log was cleaned up, VACUUM has deleted files, or the feed was enabled later.",
        "start with a newer version and a new target; then set delta.logRetentionDuration and "
        "delta.deletedFileRetentionDuration to more than the longest pause between two runs.",
    )


def schema_changed_error(path: str) -> TableError:
    """Return the error for versions with other columns than the newest one."""
    return TableError(
        f"{path}: a column was dropped, renamed or has another type since these versions",
        "versions since which columns were only added",
        "start with the version of that change, and a new target",
    )


def duplicate_key_error(path: str, detail: str) -> ColumnError:
    """Return the error for a key that several rows have."""
    return ColumnError(
        f"invalid key of {path}: {detail}", "a unique key", "key=[...] with more columns"
    )


def _translate_error(path: str, error: Exception) -> TidegateError | None:
    text = error_text(error)
    names = set(condition_names(error))
    if missing_version := _MISSING_VERSION.search(text):
        return versions_unavailable_error(path, f"version {missing_version[1]} is not in its log")
    if key := _DUPLICATE_KEY.search(text):
        return duplicate_key_error(path, f"{key[1]} {NOT_UNIQUE}")
    if names & _UNAVAILABLE_CONDITIONS:
        first = text.strip().split("\n", 1)[-1 if "calling o" in text else 0][:300]
        return versions_unavailable_error(path, f"a version cannot be read: {first}")
    if names & _SCHEMA_CHANGE_CONDITIONS:
        return schema_changed_error(path)
    return None


_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


@dataclass(frozen=True)
class DeltaChangeFeed:
    """The change data feed of a Delta table, with the columns of `debezium_format`.

    They come from Delta's change data feed, so the table needs the property
    `delta.enableChangeDataFeed`, which `TableLayout(properties=...)` of a sink can set. Each
    version has at most one change per key: `op` is create, update or delete; `before` and `after`
    are the rows; `position` has the path of the table as topic, and the version as offset and as
    source; `event_time` is the time of its commit. A commit that rewrites an equal row
    is not a change. An update of the key is a delete and a create.

    Delta reads old versions with the newest columns: an added column is null before. A column that
    was dropped or has another type since is an error.

    Args:
        path: the path of the table.
        key: the columns of the key, which is unique in each version.
        columns: the columns of the changes, with those of the key; by default all. A change of
            other columns is not a change. They cannot be maps, nor have the names op, position,
            changed_at, deleted, valid_from, valid_to and is_current, which sinks of changes add.
        where: an SQL condition. Rows for which it is false or null count as missing; for a table
            of `CurrentTable` use "NOT deleted".

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction, and for a table without these
            columns.
        TableError: for a table without the feed.
        SourceError: for versions that the table no longer has or has not recorded.
        ConfigError: in a session that ignores missing or corrupt files.

    >>> DeltaChangeFeed("/data/customers", key="id").key
    'id'
    """

    path: str
    _: KW_ONLY
    key: str | Sequence[str]
    columns: Sequence[str] | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path.strip():
            raise ArgumentError(f"invalid path: {self.path!r}", "the path of a Delta table")
        if not require_column_names(self.key, "key"):
            raise ArgumentError(f"invalid key: {self.key!r}", "one column or more", 'key="id"')
        if isinstance(self.columns, str):
            raise ColumnTypeError(
                f"invalid columns: {self.columns!r}",
                "a list of columns",
                f"columns=[{self.columns!r}]",
            )
        require_column_names(self.columns or (), "columns")
        require_condition_text(self.where)

    def table_state(self, spark: SparkSession) -> DeltaState:
        """Return the current state of the table; refuse a table without the feed."""
        require_result_settings(spark)
        state = delta_state(spark, self.path)
        if state.version < 0:
            raise TableError(f"{self.path} does not exist", "an existing Delta table")
        if not state.has_change_feed():
            raise TableError(
                f"{self.path} does not record its changes",
                f"a table with {CHANGE_FEED} = true, which records them from then on",
                f"ALTER TABLE delta.`{self.path}` SET TBLPROPERTIES ('{CHANGE_FEED}' = 'true')",
            )
        self._change_schema(state.schema())
        return state

    def snapshot_at(self, spark: SparkSession, version: int) -> DataFrame:
        """Return the rows of a version as changes with op = snapshot."""
        state = self.table_state(spark)
        self._require_version(state, "version", version)
        rows = self._select_rows(self._load(spark, state, version)).withColumn(IS_OLD, F.lit(False))
        time = F.lit(self._commit_time(spark, version))
        ordered = with_position(rows, F.array(F.lit(version)), time, self.path)
        return self._to_net_changes(state, ordered).withColumn("op", F.lit(SNAPSHOT))

    def net_changes(self, spark: SparkSession, from_version: int, to_version: int) -> DataFrame:
        """Return the net changes from one version of the table to a later one.

        Each key has at most one change, and none if its row is the same in both versions.
        `position` and `event_time` are those of the key's last change. The cost depends on all
        changes in between.
        """
        state = self.table_state(spark)
        self._require_version(state, "from_version", from_version)
        self._require_version(state, "to_version", to_version)
        if from_version >= to_version:
            raise ArgumentError(
                f"invalid to_version: {to_version} with from_version={from_version}",
                "a later version than from_version",
            )
        self._require_recorded(spark, state, from_version, to_version)
        return self.read_net_changes(spark, from_version, to_version)

    def read_net_changes(
        self, spark: SparkSession, from_version: int, to_version: int
    ) -> DataFrame:
        """Return the net changes of versions that `require_readable` has checked."""
        feed = read_change_feed(spark, self.path, from_version + 1, to_version)
        rows = self._select_rows(feed, *_FEED_COLUMNS)
        change_type, version, time = map(F.col, _FEED_COLUMNS)
        with_is_old = rows.withColumn(IS_OLD, change_type.isin("delete", "update_preimage"))
        ordered = with_position(with_is_old, F.array(version), time, self.path)
        return self._to_net_changes(self.table_state(spark), ordered)

    def require_readable(self, spark: SparkSession, from_version: int, to_version: int) -> None:
        """Refuse versions that the feed does not have, and a key that is not unique at the end.

        Reads the key columns of all rows, because the feed has changed rows only.
        """
        state = self.table_state(spark)
        self._require_recorded(spark, state, from_version, to_version)
        keys = require_column_names(self.key, "key")
        rows = self._select_rows(self._load(spark, state, to_version))
        duplicate = rows.groupBy(*map(quoted_column, keys)).count().where("count > 1").head()
        if duplicate is not None:
            shown = ", ".join(f"{name}={duplicate[name]!r}" for name in keys)
            raise duplicate_key_error(self.path, f"{shown} {NOT_UNIQUE}, at version {to_version}")

    def _require_recorded(
        self, spark: SparkSession, state: DeltaState, from_version: int, to_version: int
    ) -> None:
        """Refuse versions that are not in the log, or were committed while the feed was off."""
        if from_version < to_version:
            require_logged(spark, state, from_version + 1, to_version)
            with translate_errors(self.path):
                feed = read_change_feed(spark, self.path, from_version + 1, to_version)
                feed.select("_commit_version").head()

    def _change_schema(self, schema: StructType) -> tuple[StructType, list[str]]:
        """Return the columns of the changes and the key; refuse columns that the table lacks."""
        missing = [name for name in self.columns or () if name not in schema.names]
        if missing:
            raise ColumnError(
                f"invalid columns: {', '.join(missing)}",
                f"columns of {self.path}: {', '.join(schema.names)}",
            )
        selected = [schema[name] for name in self.columns or schema.names]
        reserved = [field.name for field in selected if field.name.lower() in RESERVED_COLUMNS]
        if reserved:
            raise ColumnError(
                f"invalid columns of {self.path}: {', '.join(reserved)}",
                "columns without the names that sinks of changes add",
                'columns=[...] without these; where="NOT deleted" for a table of CurrentTable',
            )
        return row_type(StructType(selected), self.key)

    def _to_net_changes(self, state: DeltaState, rows: DataFrame) -> DataFrame:
        columns, keys = self._change_schema(state.schema())
        return net_by_key(as_updates(rows, columns, keys), keys)

    def _select_rows(self, rows: DataFrame, *extra_columns: str) -> DataFrame:
        """Return the rows that `where` accepts, with the columns of the changes."""
        filtered = rows if self.where is None else rows.where(parse_deterministic(rows, self.where))
        selected = self.columns or [name for name in rows.columns if name not in _FEED_COLUMNS]
        return filtered.select(*map(quoted_column, [*selected, *extra_columns]))

    def _load(self, spark: SparkSession, state: DeltaState, version: int) -> DataFrame:
        reader = spark.read.format("delta").option("versionAsOf", version)
        with translate_errors(self.path):
            rows = reader.load(self.path)
        return rows.select(*[self._current_column(rows, field) for field in state.schema()])

    def _current_column(self, rows: DataFrame, field: StructField) -> Column:
        """Return a column with the type of the newest version; null if it was added later."""
        if field.name not in rows.columns:
            return F.lit(None).cast(field.dataType).alias(field.name)
        if rows.schema[field.name].dataType != field.dataType:
            raise schema_changed_error(self.path)
        return quoted_column(field.name)

    def _commit_time(self, spark: SparkSession, version: int) -> datetime:
        """Return the commit time of a version, as in the feed."""
        history = DeltaTable.forPath(spark, self.path).history()
        commit_micros = F.unix_micros("timestamp")
        commit = history.where(F.col("version") == version).select(commit_micros).head()
        if commit is None:
            raise versions_unavailable_error(self.path, f"version {version} is not in its log")
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=commit[0])

    def _require_version(self, state: DeltaState, label: str, version: object) -> None:
        require_integer(version, label, 0, state.version, f"{self.path} is at {state.version}")


def net_changes(
    spark: SparkSession,
    table: str,
    from_version: int,
    to_version: int,
    *,
    key: str | Sequence[str],
) -> DataFrame:
    """Return the net changes from one version of a Delta table to a later one.

    This is `DeltaChangeFeed(table, key=key).net_changes(...)`; see `DeltaChangeFeed` for the rules
    and the errors. A key that is not unique is an error if the changes show it.

    Returns:
        At most one change per key, with the columns of a change: op (create, update, delete), key,
        before, after, unavailable, position (of the version of the key's last change), event_time.

    >>> import tempfile
    >>> path = tempfile.mkdtemp()
    >>> row = spark.createDataFrame([(1, "/a")], "user int, page string")
    >>> options = {"delta.enableChangeDataFeed": "true"}
    >>> row.write.format("delta").mode("append").options(**options).save(path)
    >>> _ = spark.sql(f"UPDATE delta.`{path}` SET page = '/b'")
    >>> net_changes(spark, path, 0, 1, key="user").select("op", "before.page", "after.page").first()
    Row(op='update', page='/a', page='/b')
    """
    return DeltaChangeFeed(table, key=key).net_changes(spark, from_version, to_version)
