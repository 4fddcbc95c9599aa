"""Count visitors by page and minute, hour and day, in mergeable sketches: Kafka to Delta.

Sketches can be merged, which gives the visitors of any union of pages and times.
"""

from __future__ import annotations

from pydantic import Field
from pyspark.sql import DataFrame

from ..aggregates import Aggregate, count
from ..config import Config, InputSection, OutputSection, Section, Table
from ..job.job import Job
from ..sinks import FanOut, MapRows, Upsert
from ..sketches import approx_count_distinct, approx_quantile, approx_top_k
from ..windows import Tumbling, WindowAggregation, roll_up

DESCRIPTION = "Count visitors by page and minute, hour and day, from Kafka to Delta."

GROUP_COLUMN = "page"
KEYS = ["window", GROUP_COLUMN]
PROBABILITIES = [0.5, 0.95, 0.99]


class RollUpSection(Section):
    """[roll_up]: the time zone of days, and the precision of the number of visitors.

    The relative standard error is 1.04 / 2^(precision/2).
    """

    zone: str = "UTC"
    precision: int = Field(default=14, ge=4, le=21)


class Tables(OutputSection):
    """[output]: the tables of minutes (`table`), hours and days."""

    table: Table = "minutes"
    hours: Table = "hours"
    days: Table = "days"


class UniqueVisitors(Config, name="unique_visitors"):
    """The job's configuration; conf/jobs/unique_visitors.toml documents each key."""

    clicks: InputSection
    roll_up: RollUpSection = RollUpSection()
    output: Tables


def aggregates(precision: int = 14) -> dict[str, Aggregate]:
    """Return the aggregates: views, visitors, response times, and the most viewed pages."""
    return {
        "views": count(),
        "visitors": approx_count_distinct("user_id", precision=precision),
        "ms": approx_quantile("ms", PROBABILITIES),
        "pages": approx_top_k(GROUP_COLUMN, 10),
    }


def job(config: UniqueVisitors) -> Job:
    """Return the job of a configuration.

    It is stateless: each batch's partial aggregates are merged into those of the tables.
    """
    aggs = aggregates(config.roll_up.precision)
    output = config.output

    def rolled_up_sink(path: str, size: str, output_name: str, zone: str | None = None) -> MapRows:
        def roll_up_minutes(minutes: DataFrame) -> DataFrame:
            return roll_up(minutes, size, by=GROUP_COLUMN, aggs=aggs, zone=zone)

        return MapRows(
            rows=roll_up_minutes, sink=Upsert(path, keys=KEYS, aggs=aggs, output=output_name)
        )

    hours = rolled_up_sink(output.hours, "1 hour", "hours")
    days = rolled_up_sink(output.days, "1 day", "days", config.roll_up.zone)
    minutes = Upsert(output.table, keys=KEYS, aggs=aggs, output="table")
    return config.as_job(
        inputs={"clicks": config.as_input(config.clicks)},
        each_batch=WindowAggregation(Tumbling("1 minute"), by=GROUP_COLUMN, aggs=aggs).partials(),
        sink=FanOut(minutes, other_sinks=[hours, days]),
    )
