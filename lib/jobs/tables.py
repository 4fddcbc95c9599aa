"""[output] of the jobs without code: the target's table, and how it is laid out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydantic import Field, model_validator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import require_free
from ..errors import ConfigError, TidegateError
from ..runtime.config import Columns, OptionValue, OutputSection
from ..sinks import Append, Layout, Mapped, Sink, Upsert

DATE = "date"
"""The column that the job adds by itself: the UTC date of a row's time."""
_SECONDS = 86_400


class LaidOutSection(OutputSection):
    """[output]: where the tables are, and how the target is laid out, as `Layout` has it."""

    partition_by: Columns = Field(
        default=[],
        description="columns of the table; `date` is added by the job: the UTC date of a row's "
        "time",
    )
    cluster_by: Columns = Field(
        default=[],
        description="columns of the table that Delta keeps together, such as window.start; `date` "
        "too",
    )
    properties: dict[str, OptionValue] = Field(
        default={}, description="Delta's properties of the table"
    )

    @model_validator(mode="after")
    def _sound(self) -> LaidOutSection:
        try:
            _ = self.layout
        except TidegateError as error:
            raise ConfigError(f"[output]: {error.given}", error.allowed, error.hint) from None
        return self

    @property
    def layout(self) -> Layout:
        """How the target is laid out."""
        return Layout(
            partition_by=self.partition_by,
            cluster_by=self.cluster_by,
            properties=self.properties,
        )

    @property
    def dated(self) -> bool:
        """Whether the job adds the date."""
        return DATE in (*self.partition_by, *self.cluster_by)

    def require_columns(self, columns: Sequence[str]) -> None:
        """Refuse to lay the table out by columns that it does not have.

        Raises ConfigError.
        """
        known = (*columns, DATE)
        # Clusters may be of a struct's field.
        clustered = {name: name.partition(".")[0] for name in self.cluster_by}
        parted = {name: name for name in self.partition_by}
        for key, given in (("partition_by", parted), ("cluster_by", clustered)):
            unknown = [name for name, column in given.items() if column not in known]
            if unknown:
                raise ConfigError(
                    f"output.{key} names {', '.join(unknown)}.",
                    f"{', '.join(known)}.",
                    f"--set output.{key}={DATE}",
                )

    def append(self, time: str) -> Sink:
        """Return the sink that appends; `time` is the expression whose date is added."""
        return self._with_date(Append(self.table, layout=self.layout), time)

    def upsert(self, keys: Sequence[str], time: str) -> Sink:
        """Return the sink that replaces rows of the same keys."""
        target = Upsert(self.table, keys=keys, layout=self.layout)
        return self._with_date(target, time)

    def _with_date(self, sink: Sink, time: str) -> Sink:
        return Mapped(rows=partial(with_date, time=time), sink=sink) if self.dated else sink


def with_date(rows: DataFrame, time: str) -> DataFrame:
    """Add the column `date`: the date of a timestamp by UTC, whatever the session's zone.

    Raises ColumnError where there is such a column already.
    """
    require_free(rows.columns, [DATE], "[output]")
    return rows.withColumn(DATE, date_of(F.col(time)))


def date_of(time: Column) -> Column:
    """Return the UTC date of a timestamp."""
    return F.date_from_unix_date(F.floor(F.unix_seconds(time) / _SECONDS).cast("int"))
