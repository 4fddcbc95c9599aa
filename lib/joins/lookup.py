"""The join of events with a table as a value, which a sink can look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import get_args

from pyspark.sql import DataFrame

from ..columns import names
from ..errors import ArgumentError
from .stream_table import TableJoin, stream_table


@dataclass(frozen=True)
class Lookup:
    """`stream_table` with its arguments: called with events and a table, it joins them.

    on, how, as_of, order: as `stream_table` has them. The events are read once.

    Raises:
        ArgumentError: at construction, for a key without columns and a `how` that there is not.
        As `stream_table` does: at the call.

    >>> titles = spark.createDataFrame([("/0", "Home")], "page string, title string")
    >>> Lookup("page", how="left")(clicks, titles).columns
    ['event_time', 'page', 'user', 'ms', 'title']
    """

    on: str | Sequence[str]
    _: KW_ONLY
    how: TableJoin = "inner"
    as_of: str | None = None
    order: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        if not names(self.on, "on"):
            raise ArgumentError("on names no column.", "one column or more.", 'on="user_id"')
        if self.how not in get_args(TableJoin):
            raise ArgumentError(f"how is {self.how!r}.", f"{', '.join(get_args(TableJoin))}.")

    def __call__(self, events: DataFrame, table: DataFrame) -> DataFrame:
        """Return the joined rows."""
        return stream_table(
            events, table, self.on, how=self.how, as_of=self.as_of, order=self.order
        )
