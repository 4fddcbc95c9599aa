"""[output] of the built-in jobs: the target table and its layout."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydantic import Field, model_validator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..columns import require_no_name_clash
from ..config import Columns, OptionValue, OutputSection, config_errors
from ..delta.table_layout import TableLayout
from ..errors import ConfigError
from ..sinks import Append, MapRows, Sink, Upsert
from ..transform import plan_name

DATE = "date"
"""The column that the job adds if the layout names it: the UTC date of a row's time."""
_SECONDS = 86_400


class TargetOutputSection(OutputSection):
    """[output]: the paths of the tables, and the layout of the target table."""

    partition_by: Columns = Field(
        default=[],
        description="partition columns; the job adds `date`, the UTC date of a row's time",
    )
    cluster_by: Columns = Field(
        default=[],
        description="clustering columns, such as window.start or `date`",
    )
    properties: dict[str, OptionValue] = Field(
        default={}, description="Delta table properties of the target"
    )

    @model_validator(mode="after")
    def _validate_layout(self) -> TargetOutputSection:
        with config_errors("output"):
            _ = self.layout
        return self

    @property
    def layout(self) -> TableLayout:
        """The layout of the target table."""
        return TableLayout(
            partition_by=self.partition_by,
            cluster_by=self.cluster_by,
            properties=self.properties,
        )

    @property
    def has_date(self) -> bool:
        """Whether the job adds the column `date`."""
        return DATE in (*self.partition_by, *self.cluster_by)

    def require_columns(self, columns: Sequence[str]) -> None:
        """Raise ConfigError if the layout names a column that the table does not have."""
        available = (*columns, DATE)
        # A clustering column can be a field of a struct.
        for key, unknown in (
            ("partition_by", [name for name in self.partition_by if name not in available]),
            (
                "cluster_by",
                [name for name in self.cluster_by if name.partition(".")[0] not in available],
            ),
        ):
            if unknown:
                raise ConfigError(
                    f"invalid output.{key}: unknown columns {', '.join(unknown)}",
                    ", ".join(available),
                    f"--set output.{key}={DATE}",
                )

    def append_sink(self, time: str) -> Sink:
        """Return a sink that appends; `time` is the column whose date is added."""
        return self._add_date(Append(self.table, layout=self.layout), time)

    def upsert_sink(self, keys: Sequence[str], time: str) -> Sink:
        """Return a sink that replaces rows with the same keys."""
        return self._add_date(Upsert(self.table, keys=keys, layout=self.layout), time)

    def _add_date(self, sink: Sink, time: str) -> Sink:
        if not self.has_date:
            return sink
        return MapRows(rows=partial(with_date, time=time), sink=sink, adds_columns=True)


@plan_name("with_date")
def with_date(rows: DataFrame, time: str) -> DataFrame:
    """Add the column `date`, the UTC date of a timestamp, independent of the session's time zone.

    Raises ColumnError if the column exists.

    >>> rows = spark.sql("select timestamp'2026-01-02 23:59:59Z' as at")
    >>> with_date(rows, "at").first()["date"]
    datetime.date(2026, 1, 2)
    """
    require_no_name_clash(rows.columns, [DATE], "[output]")
    days = F.floor(F.unix_seconds(F.col(time)) / _SECONDS).cast("int")
    return rows.withColumn(DATE, F.date_from_unix_date(days))
