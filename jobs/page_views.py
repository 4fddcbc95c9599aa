"""Count page views in event-time windows: Kafka in, Delta out, each record exactly once.

spark-submit jobs/page_views.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from pydantic import model_validator

from tidegate.aggregates import Aggregate, count, largest, mean, total
from tidegate.errors import ConfigError
from tidegate.runtime.cli import command
from tidegate.runtime.config.job_config import JobConfig
from tidegate.runtime.config.sections import OutputSection, WindowSection
from tidegate.runtime.job import Job
from tidegate.sinks import Append, Corrected, Sink, Upsert
from tidegate.windows import (
    Cumulative,
    Hopping,
    Overlapping,
    Same,
    Session,
    Sliding,
    Tumbling,
    Window,
    Windowed,
)

TIME = "event_time"


class Tables(OutputSection):
    """[output]: as for every job, and the log of corrections; that and the table are kept by window
    and key then."""

    TABLES: ClassVar[tuple[str, ...]] = (*OutputSection.TABLES, "corrections")

    corrections: str = "corrections"


class PageViews(JobConfig):
    """The job's configuration: conf/jobs/page_views.toml tells each key."""

    window: WindowSection
    output: Tables = Tables()

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


AGGS: dict[str, Aggregate] = {
    "views": count(),
    "mean_ms": mean("ms"),
    "slowest_ms": largest("ms"),
    "bytes": total("bytes"),
}


def views(window: WindowSection) -> Windowed:
    """Return the configured windows of the clicks."""
    kinds: dict[str, Callable[[], Window]] = {
        "tumbling": lambda: Tumbling(window.size or "", zone=window.zone),
        "hopping": lambda: Hopping(window.size or "", window.hop or ""),
        "sliding": lambda: Sliding(window.size or ""),
        "session": lambda: Session(window.gap or ""),
        "cumulative": lambda: Cumulative(window.step or "", window.size or "", zone=window.zone),
    }
    return Windowed(kinds[window.kind](), by=window.by, aggs=AGGS, time=TIME)


def job(config: PageViews) -> Job:
    """Put the job together."""
    window = config.window
    return config.planned(
        {"clicks": config.only_input()},
        transform=views(window),
        sink=kept(config) if window.kept else sink(config),
        emission=window.emission,
        corrections=window.corrections,
    )


def sink(config: PageViews) -> Sink:
    """Return the sink of windows that are final when they come out."""
    path = config.output.tables()["output.table"]
    if config.output.sink == "append":
        return Append(path=path)
    return Upsert(path=path, keys=["window", *config.window.by])


def kept(config: PageViews) -> Corrected:
    """Return the sink of windows that can change after they came out."""
    window, places = config.window, config.output.tables()
    return Corrected(
        path=places["output.table"],
        log=None if window.corrections is None else places["output.corrections"],
        windows=Overlapping(window.by) if window.kind == "session" else Same(window.by),
        aggs=AGGS,
    )


if __name__ == "__main__":
    command(
        "page_views", PageViews, job, "Count page views in event-time windows, from Kafka to Delta."
    )
