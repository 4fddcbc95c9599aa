"""Count visitors by page and minute, hour and day, in sketches: Kafka in, Delta out.

A sketch can be merged with any other, so that any union of pages and times can be asked for.

spark-submit jobs/unique_visitors.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from pydantic import Field
from pyspark.sql import DataFrame

from tidegate.aggregates import Aggregate, count
from tidegate.runtime import Job, command
from tidegate.runtime.config import Config, InputSection, OutputSection, Section, Table
from tidegate.sinks import FanOut, Mapped, Upsert
from tidegate.sketches import distinct, quantile, top
from tidegate.windows import Tumbling, Windowed, rolled_up

BY = "page"
KEYS = ["window", BY]
RANKS = [0.5, 0.95, 0.99]


class RollUpSection(Section):
    """[roll_up]: the zone whose days are counted, and how exact the number of visitors is.

    Its standard error is 1.04 / 2^(precision/2).
    """

    zone: str = "UTC"
    precision: int = Field(default=14, ge=4, le=21)


class Tables(OutputSection):
    """[output]: `table` holds the minutes, and two tables more the hours and the days."""

    table: Table = "minutes"
    hours: Table = "hours"
    days: Table = "days"


class UniqueVisitors(Config, name="unique_visitors"):
    """The job's configuration: conf/jobs/unique_visitors.toml tells each key."""

    clicks: InputSection
    roll_up: RollUpSection = RollUpSection()
    output: Tables


def aggregates(precision: int = 14) -> dict[str, Aggregate]:
    """Return what is kept of each page: views, visitors, response times, and the busiest pages."""
    return {
        "views": count(),
        "visitors": distinct("user_id", precision=precision),
        "ms": quantile("ms", RANKS),
        "pages": top(BY, 10),
    }


def job(config: UniqueVisitors) -> Job:
    """Return the job of a configuration.

    It keeps no state: each batch's partials are merged into those that the tables have.
    """
    aggs = aggregates(config.roll_up.precision)
    output = config.output

    def rolled(into: str, size: str, step: str, zone: str | None = None) -> Mapped:
        def larger(minutes: DataFrame) -> DataFrame:
            return rolled_up(minutes, size, by=BY, aggs=aggs, zone=zone)

        return Mapped(rows=larger, sink=Upsert(into, keys=KEYS, aggs=aggs, step=step))

    hours = rolled(output.hours, "1 hour", "hours")
    days = rolled(output.days, "1 day", "days", config.roll_up.zone)
    minutes = Upsert(output.table, keys=KEYS, aggs=aggs, step="table")
    return config.as_job(
        inputs={"clicks": config.as_input(config.clicks)},
        each_batch=Windowed(Tumbling("1 minute"), by=BY, aggs=aggs).partials(),
        sink=FanOut(minutes, also=[hours, days]),
    )


if __name__ == "__main__":
    command(
        UniqueVisitors,
        job,
        about="Count visitors by page and minute, hour and day, from Kafka to Delta.",
        result="merged into the sketches",
    )
