"""The layout of a Delta table: partitioning, clustering and table properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    VariantType,
)

from ..columns import require_column_names, require_columns
from ..durations import microseconds
from ..errors import ArgumentError, ColumnError, ColumnTypeError, TableError, TidegateError
from ..jvm import DeltaState

_MIN_LOG_RETENTION_US = 30 * 86_400 * 1_000_000
"""Delta's default retention of commits in microseconds."""
_LOG_RETENTION = "delta.logRetentionDuration"
_REFUSED_PROPERTIES = {
    "delta.settransactionretentionduration": "the table would lose the numbers of its batches",
    "delta.coordinatedcommits.": "commits with their stamps would not be in the log directory",
    "delta.feature.catalog": "commits with their stamps would not be in the log directory",
    "delta.feature.": "Delta derives the protocol from other properties",
    "delta.minreaderversion": "Delta derives the protocol from other properties",
    "delta.minwriterversion": "Delta derives the protocol from other properties",
    "delta.autooptimize.": "Delta would add its own commits to those of the job",
}
"""Prefixes of refused properties, and the reason."""

_NESTED_TYPES = (ArrayType, BinaryType, MapType, StructType, VariantType)
_NOT_PARTITIONABLE = (*_NESTED_TYPES, DoubleType, FloatType)
_NOT_CLUSTERABLE = (*_NESTED_TYPES, BooleanType)


def _require_property(name: object, value: object) -> None:
    """Refuse a property that Delta does not have, or that breaks exactly-once commits."""
    if not isinstance(name, str) or not name.startswith("delta."):
        raise ArgumentError(
            f"invalid properties: {name!r}", "names of Delta properties with the prefix 'delta.'"
        )
    if not isinstance(value, str | int):
        raise ColumnTypeError(
            f"invalid properties: {name} = {value!r}", "a string, an integer, True or False"
        )
    for prefix, reason in _REFUSED_PROPERTIES.items():
        if name.lower().startswith(prefix):
            raise ArgumentError(
                f"invalid properties: {name}: {reason}",
                "properties that preserve exactly-once commits",
                f"remove {name}",
            )
    if name.lower() != _LOG_RETENTION.lower():
        return
    try:
        retention = microseconds(str(value).removeprefix("interval").strip(), _LOG_RETENTION)
    except TidegateError:
        retention = 0
    if retention < _MIN_LOG_RETENTION_US:
        raise ArgumentError(
            f"invalid properties: {_LOG_RETENTION} = {str(value)!r}",
            "at least 30 days, Delta's default: the log contains the stamps of batches, by which a "
            "restarted job detects what is written",
            '"interval 60 days"',
        )


def _require_column_type(
    schema: StructType, name: str, parameter: str, refused_types: tuple[type[DataType], ...]
) -> None:
    """Refuse a column, or struct field, that is missing or of an unsupported type."""
    data_type: DataType = schema
    for part in [name] if parameter == "partition_by" else name.split("."):
        fields = data_type.fields if isinstance(data_type, StructType) else []
        field_types = {each.name.lower(): each.dataType for each in fields}
        if part.lower() not in field_types:
            raise ColumnError(
                f"invalid {parameter}: {name!r}, column {part!r} not found",
                f"one of {', '.join(schema.fieldNames())}",
            )
        data_type = field_types[part.lower()]
    if isinstance(data_type, refused_types):
        raise ColumnTypeError(
            f"invalid {parameter}: {name!r} is of type {data_type.simpleString()}",
            "dates, timestamps, strings and integers",
        )


_MAX_CLUSTERING_COLUMNS = 4
"""Delta's maximum number of clustering columns."""


@dataclass(frozen=True)
class TableLayout:
    """Partitioning or clustering of a table, and its properties, applied at its creation.

    The first batch creates the table with its layout in the same commit. A clustered table is
    created by a separate commit without rows, since Delta's writers do not cluster; after a failure
    in between, the batch continues with the empty table. An existing table must have the layout as
    far as it is specified; otherwise batches are rejected before they are written.

    Args:
        partition_by: partition columns with few values each, such as a date. Floating-point
            numbers, binary and nested types are not supported.
        cluster_by: up to four columns, or struct fields such as "window.start", for liquid
            clustering. OPTIMIZE clusters the appended rows.
        properties: Delta table properties, such as {"delta.enableChangeDataFeed": True}.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction: for partitioning with
            clustering, unknown or protocol properties, and properties that allow a batch to be
            written twice: `delta.setTransactionRetentionDuration`, a `delta.logRetentionDuration`
            below 30 days, coordinated commits, `delta.autoOptimize`.

    >>> TableLayout(cluster_by=["window.start", "page"]).cluster_by
    ['window.start', 'page']
    """

    plan_name: ClassVar[str] = "table_layout"
    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()
    properties: Mapping[str, str | int | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for parameter in ("partition_by", "cluster_by"):
            columns = getattr(self, parameter)
            if isinstance(columns, str):
                raise ColumnTypeError(
                    f"invalid {parameter}: {columns!r}", "a list of columns", f"[{columns!r}]"
                )
            require_column_names(columns, parameter)
        if self.partition_by and self.cluster_by:
            raise ArgumentError(
                f"invalid cluster_by: {list(self.cluster_by)} with "
                f"partition_by={list(self.partition_by)}",
                "one of the two, since Delta does not cluster partitioned tables",
                "cluster_by only, with the columns of both",
            )
        if len(self.cluster_by) > _MAX_CLUSTERING_COLUMNS:
            raise ArgumentError(
                f"invalid cluster_by: {list(self.cluster_by)}",
                f"at most {_MAX_CLUSTERING_COLUMNS} columns",
            )
        if not isinstance(self.properties, Mapping):
            raise ColumnTypeError(
                f"invalid properties: {self.properties!r}",
                "a mapping of Delta table properties",
                '{"delta.enableChangeDataFeed": True}',
            )
        for name, value in self.properties.items():
            _require_property(name, value)

    @property
    def property_texts(self) -> dict[str, str]:
        """The properties as Delta stores them."""
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in self.properties.items()
        }

    def require_rewritable(self, sink_name: str) -> None:
        """Refuse an append-only table for a sink that changes rows.

        Raises ArgumentError.
        """
        for name, value in self.property_texts.items():
            if name.lower() == "delta.appendonly" and value.lower() == "true":
                raise ArgumentError(
                    f"invalid properties: {name} = true for {sink_name}, which changes rows",
                    "an append-only table only for sinks that append",
                    f"remove {name}",
                )

    def require_columns(self, frame: DataFrame) -> None:
        """Refuse layout columns that the rows do not have, or of an unsupported type.

        Raises ColumnError and ColumnTypeError.
        """
        require_columns(frame, self.partition_by, "partition_by")
        self.require_column_types(frame.schema)
        if self.partition_by and len(self.partition_by) == len(frame.columns):
            raise ColumnError(
                f"invalid partition_by: {list(self.partition_by)}",
                "at least one column outside the partitioning",
            )

    def require_column_types(self, schema: StructType) -> None:
        """Refuse layout columns that the schema does not have, or of an unsupported type.

        Raises ColumnError and ColumnTypeError.
        """
        for name in self.partition_by:
            _require_column_type(schema, name, "partition_by", _NOT_PARTITIONABLE)
        for name in self.cluster_by:
            _require_column_type(schema, name, "cluster_by", _NOT_CLUSTERABLE)

    def require_same_layout(self, state: DeltaState, path: str) -> None:
        """Refuse a table with a different layout.

        Raises TableError.
        """
        partitioning = state.partition_columns()
        if self.partition_by and list(self.partition_by) != partitioning:
            raise TableError(
                f"invalid partition_by: {list(self.partition_by)} for {path}",
                f"the partitioning of the table: {partitioning}",
                f"partition_by={partitioning}; or a new table and a new checkpoint",
            )
        if self.cluster_by and list(self.cluster_by) != (clustering := state.clustering_columns()):
            raise TableError(
                f"invalid cluster_by: {list(self.cluster_by)} for {path}",
                f"the partitioning of the table: {partitioning}"
                if partitioning
                else f"the clustering of the table: {clustering}",
                "a new table and a new checkpoint"
                if partitioning
                else f"ALTER TABLE delta.`{path}` CLUSTER BY ({', '.join(self.cluster_by)})",
            )
        table_properties = {name.lower(): value for name, value in state.properties().items()}
        for name, value in self.property_texts.items():
            if table_properties.get(name.lower()) != value:
                raise TableError(
                    f"invalid properties: {name} = {value!r} for {path}",
                    f"the value of the table: {table_properties.get(name.lower())!r}",
                    f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{name}' = '{value}')",
                )

    def apply_to(self, writer: DataFrameWriter) -> DataFrameWriter:
        """Return the writer of the commit that creates the table, unless it is clustered."""
        if self.cluster_by:
            return writer
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        for name, value in self.property_texts.items():
            writer = writer.option(name, value)
        return writer

    def needs_separate_creation(self, state: DeltaState) -> bool:
        """Return whether a commit without rows has to create the table first."""
        return bool(self.cluster_by) and state.version < 0

    def create_clustered_table(self, rows: DataFrame, state: DeltaState) -> None:
        """Create a clustered table without rows; do nothing for other layouts."""
        if not self.cluster_by:
            return
        builder = DeltaTable.createIfNotExists(rows.sparkSession).location(state.folder)
        builder = builder.addColumns(rows.schema.toNullable())
        for name, value in self.property_texts.items():
            builder = builder.property(name, value)
        builder.clusterBy(*self.cluster_by).execute()


ANY_LAYOUT = TableLayout()
"""No specification: new tables are unpartitioned, existing tables may have any layout."""
