"""A topic's events with the rows of a Delta table, by configuration alone."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..joins import Lookup, TableJoin
from ..runtime.config import Config, FilteredSection, Names, Section
from ..runtime.job import Job
from ..sinks import Snapshot
from ..sources.event_time import EVENT_TIME
from .tables import LaidOutSection

ABOUT = "Give each event of a topic the row of a Delta table, from Kafka to Delta."


class EnrichSection(Section):
    """[enrich]: the table, the key, and which of its rows an event meets.

    "snapshot" is the table as it is when the batch is written. "history" is the table as it was at
    the event's time: its rows are versions, with valid_from and valid_to.
    """

    table: str = Field(description="the Delta table: its path, or its name, as shop.pages")
    on: Names
    way: Literal["snapshot", "history"] = "snapshot"
    how: TableJoin = "left"
    order: Names = Field(
        default=[], description="columns that order versions which began at one instant"
    )
    version: str = Field(
        default="table_version", description="the column that tells the table's version"
    )

    @property
    def as_of(self) -> str | None:
        """The events' time, for a table that is a history."""
        return EVENT_TIME if self.way == "history" else None


class Enrich(Config, name="enrich"):
    """The job's configuration: conf/jobs/enrich.toml tells each key."""

    input: FilteredSection
    enrich: EnrichSection
    output: LaidOutSection


def job(config: Enrich) -> Job:
    """Return the job of a configuration."""
    enrich = config.enrich
    return config.as_job(
        inputs={"input": config.as_input(config.input)},
        sink=Snapshot(
            table=enrich.table,
            join=Lookup(enrich.on, how=enrich.how, as_of=enrich.as_of, order=enrich.order),
            sink=config.output.append(EVENT_TIME),
            version=enrich.version,
        ),
    )
