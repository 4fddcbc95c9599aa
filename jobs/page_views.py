"""Count page views in event-time windows: Kafka in, Delta out, each record exactly once.

spark-submit jobs/page_views.py [--config PATH] [--set section.key=value]... [--show-config] [--verbose]
"""

from __future__ import annotations

from pydantic import model_validator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lib.aggregates import Aggregate, count, largest, mean, total
from lib.errors import ConfigError
from lib.runtime.command import command
from lib.runtime.job import Job
from lib.runtime.job_config import JobConfig
from lib.runtime.sections import WindowSection
from lib.sinks import Append, Sink, Upsert
from lib.windows import closes, cumulative, hopping, session, sliding, tumbling

TIME = "event_time"


class PageViews(JobConfig):
    """The job's configuration: conf/jobs/page_views.toml tells each key."""

    window: WindowSection

    @model_validator(mode="after")
    def _keyed(self) -> PageViews:
        if self.window.kind == "sliding" and self.output.sink == "upsert":
            raise ConfigError(
                "output.sink is 'upsert', and window.kind 'sliding'; events at one instant would replace each other.",
                "append for sliding windows.",
                "--set output.sink=append",
            )
        return self


def views(events: DataFrame, window: WindowSection) -> DataFrame:
    """Aggregate the clicks in the configured windows."""
    aggs: dict[str, Aggregate] = {
        "views": count(),
        "mean_ms": mean("ms"),
        "slowest_ms": largest("ms"),
        "bytes": total("bytes"),
    }
    if window.kind == "hopping":
        return hopping(events, window.size or "", window.hop or "", by=window.by, aggs=aggs, time=TIME)
    if window.kind == "sliding":
        return sliding(events, window.size or "", by=window.by, aggs=aggs, time=TIME)
    if window.kind == "session":
        return session(events, window.gap or "", by=window.by, aggs=aggs, time=TIME)
    if window.kind == "cumulative":
        return cumulative(
            events, window.step or "", window.size or "", by=window.by, aggs=aggs, time=TIME, zone=window.zone
        )
    return tumbling(events, window.size or "", by=window.by, aggs=aggs, time=TIME, zone=window.zone)


def late_from(window: WindowSection) -> Column:
    """Give the instant from which a click is late."""
    length = window.gap if window.kind == "session" else window.size
    return closes(window.kind, F.col(TIME), length or "", hop=window.hop, step=window.step, zone=window.zone)


def job(config: PageViews) -> Job:
    """Put the job together."""
    path, keys = config.output.tables()["output.table"], ["window", *config.window.by]
    sink: Sink = Append(path=path) if config.output.sink == "append" else Upsert(path=path, keys=keys)
    clicks = config.only_input(closes=late_from(config.window))
    return config.planned([clicks], transform=lambda events: views(events, config.window), sink=sink)


if __name__ == "__main__":
    command("page_views", PageViews, job, "Count page views in event-time windows, from Kafka to Delta.")
