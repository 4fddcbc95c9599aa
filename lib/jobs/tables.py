"""[output] of the jobs without code: the target's table, and how its files are parted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydantic import Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import require_free
from ..errors import ConfigError
from ..runtime.config import Columns, OutputSection
from ..sinks import Append, Mapped, Sink, Upsert

DATE = "date"
"""The column of partition_by that the job adds by itself: the UTC date of a row's time."""
_SECONDS = 86_400


class PartitionedSection(OutputSection):
    """[output]: where the tables are, and by which columns the target's files are parted."""

    partition_by: Columns = Field(
        default=[],
        description="columns of the table; `date` is added by the job: the UTC date of a row's "
        "time",
    )

    @property
    def dated(self) -> bool:
        """Whether the job adds the date."""
        return DATE in self.partition_by

    def require_columns(self, columns: Sequence[str]) -> None:
        """Refuse to part the table by columns that it does not have.

        Raises ConfigError.
        """
        unknown = [name for name in self.partition_by if name not in (*columns, DATE)]
        if unknown:
            raise ConfigError(
                f"output.partition_by names {', '.join(unknown)}.",
                f"{', '.join([*columns, DATE])}.",
                f"--set output.partition_by={DATE}",
            )

    def append(self, time: str) -> Sink:
        """Return the sink that appends; `time` is the expression whose date is added."""
        return self._with_date(Append(self.table, partition_by=self.partition_by), time)

    def upsert(self, keys: Sequence[str], time: str) -> Sink:
        """Return the sink that replaces rows of the same keys."""
        target = Upsert(self.table, keys=keys, partition_by=self.partition_by)
        return self._with_date(target, time)

    def _with_date(self, sink: Sink, time: str) -> Sink:
        return Mapped(rows=partial(with_date, time=time), sink=sink) if self.dated else sink


def with_date(rows: DataFrame, time: str) -> DataFrame:
    """Add the column `date`: the date of a timestamp by UTC, whatever the session's zone.

    Raises ColumnError where there is such a column already.
    """
    require_free(rows.columns, [DATE], "output.partition_by")
    return rows.withColumn(DATE, date_of(F.col(time)))


def date_of(time: Column) -> Column:
    """Return the UTC date of a timestamp."""
    return F.date_from_unix_date(F.floor(F.unix_seconds(time) / _SECONDS).cast("int"))
