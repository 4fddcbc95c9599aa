"""The job `enrich`: join a topic's events with a Delta table."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ..config import Config, FilteredInputSection, Names, Section
from ..config.input_sections import require_declared
from ..job.job import Job
from ..joins import LookupJoin, LookupJoinType
from ..sinks import SnapshotJoin
from ..sources.event_time_column import EVENT_TIME
from .output_sections import TargetOutputSection

DESCRIPTION = "Join each event of a topic with a row of a Delta table, from Kafka to Delta."


class EnrichSection(Section):
    """[enrich]: the table, the key columns, and the join mode.

    "snapshot" joins with the table's current rows when the batch is written. "history" joins with
    its rows as of the event time; the table has valid_from and valid_to.
    """

    table: str = Field(description="path of the Delta table, or its name, such as shop.pages")
    on: Names
    mode: Literal["snapshot", "history"] = "snapshot"
    how: LookupJoinType = "left"
    order: Names = Field(
        default=[], description="tie-breaker columns of history rows with the same valid_from"
    )
    version_column: str = Field(
        default="table_version", description="column with the version of the table"
    )


class Enrich(Config, name="enrich"):
    """The configuration of the job `enrich`; conf/jobs/enrich.toml documents each key.

    >>> from tidegate.config import load_config
    >>> from tidegate.spark.jars import project_root
    >>> file = project_root() / "conf" / "jobs" / "enrich.toml"
    >>> job(load_config(Enrich, file, [], {}).config).name
    'enrich'
    """

    input: FilteredInputSection
    enrich: EnrichSection
    output: TargetOutputSection

    @model_validator(mode="after")
    def _require_declared_columns(self) -> Enrich:
        require_declared(self.input, [self.input.time], "input.time")
        require_declared(self.input, self.enrich.on, "enrich.on")
        return self


def job(config: Enrich) -> Job:
    """Return the job of a configuration."""
    enrich = config.enrich
    as_of = EVENT_TIME if enrich.mode == "history" else None
    return config.as_job(
        inputs={"input": config.as_input(config.input)},
        sink=SnapshotJoin(
            table=enrich.table,
            join=LookupJoin(enrich.on, how=enrich.how, as_of=as_of, order=enrich.order),
            sink=config.output.append_sink(EVENT_TIME),
            version_column=enrich.version_column,
        ),
    )
