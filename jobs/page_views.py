"""Count page views in event-time windows: Kafka in, Delta out, each record exactly once.

spark-submit jobs/page_views.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from tidegate.aggregates import Aggregate, count, largest, mean, total
from tidegate.errors import ConfigError
from tidegate.runtime import Job, command
from tidegate.runtime.config import Config, InputSection, OutputSection, Table, WindowSection
from tidegate.sinks import Append, Corrected, Sink, Upsert
from tidegate.windows import Windowed

AGGS: dict[str, Aggregate] = {
    "views": count(),
    "mean_ms": mean("ms"),
    "slowest_ms": largest("ms"),
    "bytes": total("bytes"),
}


class Tables(OutputSection):
    """[output]: the windows, the late rows, and the log of corrections where there are any."""

    table: Table = "page_views"
    late: Table = "late_rows"
    corrections: Table = "corrections"
    sink: Literal["append", "upsert"] = "append"


class PageViews(Config, name="page_views"):
    """The job's configuration: conf/jobs/page_views.toml tells each key."""

    clicks: InputSection
    window: WindowSection
    output: Tables

    @model_validator(mode="after")
    def _keyed(self) -> PageViews:
        if self.window.kind == "sliding" and self.output.sink == "upsert":
            raise ConfigError(
                "output.sink is 'upsert', and window.kind 'sliding'; events at one instant would "
                "replace each other.",
                "append for sliding windows.",
                "--set output.sink=append",
            )
        return self


def job(config: PageViews) -> Job:
    """Return the job of a configuration."""
    window = config.window
    views = Windowed(window.value(), by=window.by, aggs=AGGS)
    return config.as_job(
        inputs={"clicks": config.input(config.clicks)},
        transform=views,
        sink=sink(config, views),
        emission=window.emission,
        corrections=window.corrections,
        late=config.output.late,
    )


def sink(config: PageViews, views: Windowed) -> Sink:
    """Return the sink: one that changes windows after they came out, where the job asks for it."""
    window, output = config.window, config.output
    if window.changing:
        log = None if window.corrections is None else output.corrections
        return Corrected(output.table, windowed=views, log=log)
    if output.sink == "upsert":
        return Upsert(output.table, keys=["window", *window.by])
    return Append(output.table)


if __name__ == "__main__":
    command(PageViews, job, about="Count page views in event-time windows, from Kafka to Delta.")
