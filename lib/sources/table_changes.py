"""The changes of a Delta table, version by version: Delta's change data feed as a changelog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ..changes.between import IS_OLD, NOT_UNIQUE, netted, placed, stepped
from ..changes.change import ADDED, SNAPSHOT, row_type
from ..columns import names, quoted, require_whole
from ..conditions import condition, require_text
from ..errors import ArgumentError, ColumnError, ColumnTypeError, TableError
from ..jvm import CHANGE_FEED, DeltaState, delta_state, require_all_files
from ._feed import changed, explained, feed, gone, not_unique, require_logged

_TYPE, _VERSION, _TIME = _TOLD = ("_change_type", "_commit_version", "_commit_timestamp")
_OLD = ("delete", "update_preimage")


@dataclass(frozen=True)
class TableChanges:
    """The changes of a Delta table, in the shape that `debezium` and `maxwell` give changes.

    Delta's change data feed tells them, so the table must have the property
    `delta.enableChangeDataFeed`, which `Layout(properties=...)` of a sink gives. What a version did
    to a key is one change: `op` create, update or delete, `before` and `after`, `position` the
    version, `event_time` the time of its commit, and `place` with the table's path as topic and the
    version as offset. A commit that writes a key's row again as it was changes nothing. An update
    of the key is a delete and a create.

    Delta reads old versions with the newest columns: a column that was added is null before that. A
    column that was dropped or has another type since is an error of Delta's.

    Args:
        path: the table's.
        key: the columns by which its rows are told apart. One row has each key, at each version.
        columns: the columns that are told of, the key among them; by default all. What changes in
            the other ones alone is no change. They cannot be maps, nor have the names of what
            tables made of changes have beside them: op, position, changed_at, deleted, valid_from,
            valid_to, is_current.
        where: a condition in Spark's SQL on a row. A row of which it is false or null counts as not
            there: of a table that `Current` keeps, "NOT deleted".

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction, and for a table without these
            columns. TableError: for a table without the feed. SourceError: for versions that the
            table has no longer, or did not record. ConfigError: in a session that ignores files
            which are missing or cannot be read.

    >>> TableChanges("/data/customers", key="id").key
    'id'
    """

    path: str
    _: KW_ONLY
    key: str | Sequence[str]
    columns: Sequence[str] | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path.strip():
            raise ArgumentError(f"path is {self.path!r}.", "a Delta table's path.")
        if not names(self.key, "key"):
            raise ArgumentError("key names no column.", "one column or more.", 'key="id"')
        if isinstance(self.columns, str):
            raise ColumnTypeError(f"columns is {self.columns!r}.", "a list of columns.")
        names(self.columns or (), "columns")
        require_text(self.where)

    def state(self, spark: SparkSession) -> DeltaState:
        """Return the table as it is now; refuse one whose changes cannot be told."""
        require_all_files(spark)
        state = delta_state(spark, self.path)
        if state.version < 0:
            raise TableError(f"there is no Delta table at {self.path}.", "a table that is there.")
        if not state.keeps_changes():
            raise TableError(
                f"{self.path} does not record its changes.",
                f"a table with {CHANGE_FEED} = true, which records them from then on.",
                f"ALTER TABLE delta.`{self.path}` SET TBLPROPERTIES ('{CHANGE_FEED}' = 'true')",
            )
        self._shape(state.schema())
        return state

    def at(self, spark: SparkSession, version: int) -> DataFrame:
        """Return the table as it was at a version, each row as a change: op = snapshot."""
        state = self.state(spark)
        self._require_version(state, "version", version)
        rows = self._rows(self._load(spark, state, version)).withColumn(IS_OLD, F.lit(False))
        time = F.lit(self._time(spark, version))
        found = self._netted(state, placed(rows, F.array(F.lit(version)), time, self.path))
        return found.withColumn("op", F.lit(SNAPSHOT))

    def net(self, spark: SparkSession, from_version: int, to_version: int) -> DataFrame:
        """Return the changes that make one version of the table into a later one.

        At most one of each key: a row that came back to what it was has none. `position`,
        `event_time` and `place` are those of the key's last change. Cost: that of what changed in
        between, whether or not it changed back.
        """
        state = self.state(spark)
        self._require_version(state, "from_version", from_version)
        self._require_version(state, "to_version", to_version)
        if from_version >= to_version:
            raise ArgumentError(
                f"from_version is {from_version}, and to_version {to_version}.",
                "a later version than from_version.",
            )
        self._require_recorded(spark, state, from_version, to_version)
        return self.told_of(spark, from_version, to_version)

    def told_of(self, spark: SparkSession, from_version: int, to_version: int) -> DataFrame:
        """Return what `net` returns, of versions that `require_told` or `net` has looked at."""
        rows = self._rows(feed(spark, self.path, from_version + 1, to_version), *_TOLD)
        marked = rows.withColumn(IS_OLD, quoted(_TYPE).isin(*_OLD))
        ordered = placed(marked, F.array(quoted(_VERSION)), quoted(_TIME), self.path)
        return self._netted(self.state(spark), ordered)

    def require_told(self, spark: SparkSession, from_version: int, to_version: int) -> None:
        """Refuse versions that the feed does not have, and a key that several rows have now.

        Reads the key columns of all rows: the feed tells nothing of rows that a version left alone.
        """
        state = self.state(spark)
        self._require_recorded(spark, state, from_version, to_version)
        keys = names(self.key, "key")
        rows = self._rows(self._load(spark, state, to_version))
        found = rows.groupBy(*map(quoted, keys)).count().where("count > 1").head()
        if found is not None:
            shown = ", ".join(f"{name}={found[name]!r}" for name in keys)
            raise not_unique(self.path, f"{shown} {NOT_UNIQUE}, at version {to_version}")

    def _require_recorded(
        self, spark: SparkSession, state: DeltaState, from_version: int, to_version: int
    ) -> None:
        """Refuse versions that are not in the log, or were made while the feed was off."""
        if from_version < to_version:
            require_logged(spark, state, from_version + 1, to_version)
            with explained(self.path):
                feed(spark, self.path, from_version + 1, to_version).select(_VERSION).head()

    def _shape(self, schema: StructType) -> tuple[StructType, list[str]]:
        """Return the columns that are told of, and the key; refuse those that the table lacks."""
        missing = [name for name in self.columns or () if name not in schema.names]
        if missing:
            raise ColumnError(
                f"columns names {', '.join(missing)}.",
                f"the columns of {self.path}: {', '.join(schema.names)}.",
            )
        wanted = [schema[name] for name in self.columns or schema.names]
        taken = [field.name for field in wanted if field.name.lower() in ADDED]
        if taken:
            raise ColumnError(
                f"{self.path} has {', '.join(taken)}, which tables made of changes have.",
                "the other columns.",
                "columns=[...] without these; where='NOT deleted' for a table of Current's.",
            )
        return row_type(StructType(wanted), self.key)

    def _netted(self, state: DeltaState, rows: DataFrame) -> DataFrame:
        columns, keys = self._shape(state.schema())
        return netted(stepped(rows, columns, keys), keys)

    def _rows(self, rows: DataFrame, *also: str) -> DataFrame:
        """Return the rows that count, with the columns that are told of."""
        kept = rows if self.where is None else rows.where(condition(rows, self.where))
        wanted = self.columns or [name for name in rows.columns if name not in _TOLD]
        return kept.select(*map(quoted, [*wanted, *also]))

    def _load(self, spark: SparkSession, state: DeltaState, version: int) -> DataFrame:
        reader = spark.read.format("delta").option("versionAsOf", version)
        with explained(self.path):
            rows = reader.load(self.path)
        return rows.select(*[self._as_now(rows, field) for field in state.schema()])

    def _as_now(self, rows: DataFrame, field: StructField) -> Column:
        """Return a column as the newest version has it: null where there was none."""
        if field.name not in rows.columns:
            return F.lit(None).cast(field.dataType).alias(field.name)
        if rows.schema[field.name].dataType != field.dataType:
            raise changed(self.path)
        return quoted(field.name)

    def _time(self, spark: SparkSession, version: int) -> datetime:
        """Return when a version was committed, as the feed tells it."""
        history = DeltaTable.forPath(spark, self.path).history()
        at = F.unix_micros("timestamp")
        found = history.where(F.col("version") == version).select(at).head()
        if found is None:
            raise gone(self.path, f"version {version} is not in its log")
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=found[0])

    def _require_version(self, state: DeltaState, what: str, version: object) -> None:
        require_whole(version, what, 0, state.version, f"{self.path} is at {state.version}.")


def net_changes(
    spark: SparkSession,
    table: str,
    from_version: int,
    to_version: int,
    *,
    key: str | Sequence[str],
) -> DataFrame:
    """Return the changes that make one version of a Delta table into a later one.

    As `TableChanges(table, key=key).net(...)`, where the rules stand. That no two rows of the table
    have one key is refused where the changes show it.

    Returns:
        at most one change of each key: op (create, update, delete), key, before, after, position
        (the version of the key's last change), event_time, place.

    Raises:
        As `TableChanges`.
    """
    return TableChanges(table, key=key).net(spark, from_version, to_version)
