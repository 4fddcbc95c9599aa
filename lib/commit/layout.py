"""How a table is laid out: its partitions or clusters, and Delta's properties of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from ..columns import names, require
from ..errors import ArgumentError, ColumnError, ColumnTypeError, TableError
from ..jvm import DeltaState
from ._layout_rules import NOT_CLUSTERED, NOT_PARTED, as_text, require_kind, require_property

_MOST = 4
"""How many columns Delta clusters a table by at most."""


@dataclass(frozen=True)
class Layout:
    """How a table's files are laid out, and which properties it has: said once, as it is made.

    A table gets its layout with the first batch, in the commit that makes it; a clustered one in a
    commit without rows before that, since Delta's writers do not cluster. A crash between these two
    leaves an empty table, with which the batch goes on. Of a table that is there, what the layout
    names must be as it says, else the batch is refused before it is written; what the layout does
    not name may be any way.

    Args:
        partition_by: the columns by whose values files lie in folders: few values each, such as a
            date. No floating-point numbers, bytes or nested values.
        cluster_by: up to four columns, or fields of structs such as "window.start", whose values
            Delta keeps together ("liquid clustering"). Batches are appended as they come; OPTIMIZE
            clusters them.
        properties: Delta's table properties by name, such as {"delta.enableChangeDataFeed": True}.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction, for partitions and clusters
            together, for names that are none of Delta's, for a protocol's, and for properties under
            which a batch could be written twice: `delta.setTransactionRetentionDuration`, a
            `delta.logRetentionDuration` below 30 days, commits that a catalog coordinates,
            `delta.autoOptimize`.

    >>> Layout(cluster_by=["window.start", "page"]).cluster_by
    ['window.start', 'page']
    """

    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()
    properties: Mapping[str, str | int | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what in ("partition_by", "cluster_by"):
            given = getattr(self, what)
            if isinstance(given, str):
                raise ColumnTypeError(f"{what} is {given!r}.", "a list of columns.", f"[{given!r}]")
            names(given, what)
        if self.partition_by and self.cluster_by:
            raise ArgumentError(
                f"partition_by is {list(self.partition_by)}, and cluster_by "
                f"{list(self.cluster_by)}.",
                "one of the two: Delta does not cluster a table that has partitions.",
                "cluster_by alone, with the columns of both.",
            )
        if len(self.cluster_by) > _MOST:
            raise ArgumentError(f"cluster_by is {list(self.cluster_by)}.", f"at most {_MOST}.")
        if not isinstance(self.properties, Mapping):
            raise ColumnTypeError(
                f"properties is {self.properties!r}.",
                "Delta's properties by name.",
                '{"delta.enableChangeDataFeed": True}',
            )
        for name, value in self.properties.items():
            require_property(name, value)

    @property
    def texts(self) -> dict[str, str]:
        """The properties as Delta has them."""
        return {name: as_text(value) for name, value in self.properties.items()}

    def require_rewritable(self, what: str) -> None:
        """Refuse a table that takes no changes of its rows, under a sink that makes some.

        Raises ArgumentError.
        """
        for name, value in self.texts.items():
            if name.lower() == "delta.appendonly" and value.lower() == "true":
                raise ArgumentError(
                    f"{name} is true, and {what} changes rows that are there.",
                    "such a table under a sink that only appends.",
                    f"no {name}.",
                )

    def require_columns(self, frame: DataFrame) -> None:
        """Refuse columns that the rows do not have, or by which no table is laid out.

        Raises ColumnError and ColumnTypeError.
        """
        require(frame, self.partition_by, "partition_by")
        self.require_kinds(frame.schema)
        if self.partition_by and len(self.partition_by) == len(frame.columns):
            raise ColumnError(
                f"partition_by names every column: {list(self.partition_by)}.",
                "fewer columns than there are.",
            )

    def require_kinds(self, schema: StructType) -> None:
        """Refuse columns that a schema does not have, or by which no table is laid out.

        Raises ColumnError and ColumnTypeError.
        """
        for name in self.partition_by:
            require_kind(schema, name, "partition_by", NOT_PARTED)
        for name in self.cluster_by:
            require_kind(schema, name, "cluster_by", NOT_CLUSTERED)

    def require_same(self, state: DeltaState, path: str) -> None:
        """Refuse a table that is laid out in another way.

        Raises TableError.
        """
        parted = state.partition_columns()
        if self.partition_by and list(self.partition_by) != parted:
            raise TableError(
                f"partition_by is {list(self.partition_by)}, and {path} is partitioned by "
                f"{parted}.",
                "the table's own partitioning, or none named.",
                f"partition_by={parted}; other partitions need a new table and a new checkpoint.",
            )
        if self.cluster_by:
            self._require_clustered(state, path, parted)
        found = {name.lower(): value for name, value in state.properties().items()}
        for name, value in self.texts.items():
            if found.get(name.lower()) != value:
                raise TableError(
                    f"properties has {name} = {value!r}, and {path} has "
                    f"{found.get(name.lower())!r}.",
                    "the table's own value, or none named.",
                    f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{name}' = '{value}')",
                )

    def _require_clustered(self, state: DeltaState, path: str, parted: Sequence[str]) -> None:
        clustered = state.clustering_columns()
        if list(self.cluster_by) == clustered:
            return
        columns = ", ".join(self.cluster_by)
        raise TableError(
            f"cluster_by is {list(self.cluster_by)}, and {path} is "
            + (f"partitioned by {list(parted)}." if parted else f"clustered by {clustered}."),
            "the table's own clustering, or none named.",
            "a new table and a new checkpoint."
            if parted
            else f"ALTER TABLE delta.`{path}` CLUSTER BY ({columns})",
        )

    def on(self, writer: DataFrameWriter) -> DataFrameWriter:
        """Return the writer of the commit that makes the table; a clustered one is there then."""
        if self.cluster_by:
            return writer
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        for name, value in self.texts.items():
            writer = writer.option(name, value)
        return writer

    def is_made_apart(self, state: DeltaState) -> bool:
        """Return whether the table is yet to be made, by a commit of its own before its rows."""
        return bool(self.cluster_by) and state.version < 0

    def begin(self, rows: DataFrame, state: DeltaState) -> None:
        """Make a clustered table, without rows; any other is made by its first rows."""
        if not self.cluster_by:
            return
        maker = DeltaTable.createIfNotExists(rows.sparkSession).location(state.folder)
        maker = maker.addColumns(_columns(rows.schema))
        for name, value in self.texts.items():
            maker = maker.property(name, value)
        maker.clusterBy(*self.cluster_by).execute()


ANY = Layout()
"""No layout named: new tables are plain, and of those that are there any layout will do."""


def _columns(of: StructType) -> StructType:
    """Return columns that may be null, with their marks."""
    return StructType(
        [StructField(f.name, _nullable(f.dataType), metadata=f.metadata) for f in of.fields]
    )


def _nullable(kind: DataType) -> DataType:
    """Return a type with all of its parts nullable, as Delta makes the columns of rows."""
    if isinstance(kind, StructType):
        return _columns(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind
