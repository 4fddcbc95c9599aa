"""By which columns side outputs can be laid out: those that all of their tables have."""

from __future__ import annotations

from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from ..commit.layout import Layout
from ..errors import ColumnError

_SHARED = StructType([StructField("topic", StringType()), StructField("partition", IntegerType())])


def require_shared(layout: Layout, fields: StructType | None = None) -> None:
    """Refuse a layout of side outputs by columns that not each of their tables has.

    fields: those of an input, which a late row has under its own names: a field `topic` is in the
        place of the record's topic there.

    Raises ColumnError and ColumnTypeError.
    """
    shared = _SHARED.fieldNames()
    for what, given in (("partition_by", layout.partition_by), ("cluster_by", layout.cluster_by)):
        unknown = [name for name in given if name not in shared]
        if unknown:
            raise ColumnError(
                f"{what} names {', '.join(unknown)}.",
                f"{' and '.join(shared)}: the columns that dead letters, late rows and gaps all "
                "have.",
                f'{what}=["topic"]',
            )
    own = {field.name.lower(): field for field in fields or ()}
    layout.require_kinds(StructType([own.get(each.name, each) for each in _SHARED]))
