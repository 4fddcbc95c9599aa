"""Count visitors by page and minute, hour and day, in sketches that any union can be taken of: Kafka in, Delta out.

spark-submit jobs/unique_visitors.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import Field
from pyspark.sql import DataFrame

from tidegate.aggregates import Aggregate, count, partials
from tidegate.runtime.cli import command
from tidegate.runtime.config.job_config import JobConfig
from tidegate.runtime.config.sections import JobName, JobSection, OutputSection, Section
from tidegate.runtime.job import Job
from tidegate.sinks import FanOut, Mapped, Upsert
from tidegate.sketches import distinct, quantile, top
from tidegate.windows import rolled_up, tumbling

BY = "page"
KEYS = ["window", BY]
RANKS = [0.5, 0.95, 0.99]


class RollUpSection(Section):
    """[roll_up]: the zone whose days are counted, and how exact visitors are: a standard error of
    1.04 / 2^(p/2)."""

    zone: str = "UTC"
    precision: int = Field(default=14, ge=4, le=21)


class NamedJob(JobSection):
    """[job]: the name, which is part of every commit and must stay the same over restarts."""

    name: JobName = "unique_visitors"


class Tables(OutputSection):
    """[output]: as for every job; `table` holds the minutes, and two more tables the hours and the
    days."""

    TABLES: ClassVar[tuple[str, ...]] = (*OutputSection.TABLES, "hours", "days")

    table: str = "minutes"
    hours: str = "hours"
    days: str = "days"
    checkpoint: str = "_checkpoints/unique_visitors"
    sink: Literal["upsert"] = "upsert"


class UniqueVisitors(JobConfig):
    """The job's configuration: conf/jobs/unique_visitors.toml tells each key."""

    job: NamedJob = NamedJob()
    output: Tables = Tables()
    roll_up: RollUpSection = RollUpSection()


def aggregates(precision: int = 14) -> dict[str, Aggregate]:
    """Return what is kept of each page: views, visitors, response times at p50, p95 and p99, and
    the busiest pages."""
    return {
        "views": count(),
        "visitors": distinct("user_id", precision=precision),
        "ms": quantile("ms", RANKS),
        "pages": top(BY, 10),
    }


def job(config: UniqueVisitors) -> Job:
    """Put the job together: no state is kept, since each batch's partials are merged into the
    tables' own."""
    aggs = aggregates(config.roll_up.precision)
    places = config.output.tables()

    def minutes(clicks: DataFrame) -> DataFrame:
        return tumbling(clicks, "1 minute", by=BY, aggs=partials(aggs))

    def larger(size: str, zone: str | None = None) -> Callable[[DataFrame], DataFrame]:
        return lambda rows: rolled_up(rows, size, by=BY, aggs=aggs, zone=zone)

    def merged_into(key: str) -> Upsert:
        return Upsert(path=places[f"output.{key}"], keys=KEYS, aggs=aggs, step=key)

    hours = Mapped(rows=larger("1 hour"), sink=merged_into("hours"))
    days = Mapped(rows=larger("1 day", config.roll_up.zone), sink=merged_into("days"))
    return config.planned(
        {"clicks": config.only_input()},
        each_batch=minutes,
        sink=FanOut(merged_into("table"), also=[hours, days]),
    )


if __name__ == "__main__":
    command(
        "unique_visitors",
        UniqueVisitors,
        job,
        "Count visitors by page and minute, hour and day, from Kafka to Delta.",
        result="merged into the sketches",
    )
