"""Count page views in event-time windows: Kafka in, Delta out, each record exactly once.

spark-submit jobs/page_views.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from pydantic import model_validator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate, count, largest, mean, partials, total
from tidegate.errors import ConfigError
from tidegate.runtime.cli import command
from tidegate.runtime.config.job_config import JobConfig
from tidegate.runtime.config.sections import OutputSection, WindowSection
from tidegate.runtime.job import Corrections, Input, Job
from tidegate.sinks import Append, Corrected, Mapped, Sink, Upsert
from tidegate.windows import (
    Cumulative,
    Hopping,
    Overlapping,
    Same,
    Session,
    Sliding,
    Tumbling,
    Window,
    cumulative,
    hopping,
    session,
    sliding,
    tumbling,
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


def views(events: DataFrame, window: WindowSection, aggs: dict[str, Aggregate] = AGGS) -> DataFrame:
    """Aggregate the clicks in the configured windows."""
    if window.kind == "hopping":
        return hopping(
            events, window.size or "", window.hop or "", by=window.by, aggs=aggs, time=TIME
        )
    if window.kind == "sliding":
        return sliding(events, window.size or "", by=window.by, aggs=aggs, time=TIME)
    if window.kind == "session":
        return session(events, window.gap or "", by=window.by, aggs=aggs, time=TIME)
    if window.kind == "cumulative":
        return cumulative(
            events,
            window.step or "",
            window.size or "",
            by=window.by,
            aggs=aggs,
            time=TIME,
            zone=window.zone,
        )
    return tumbling(events, window.size or "", by=window.by, aggs=aggs, time=TIME, zone=window.zone)


def late_from(window: WindowSection) -> Column:
    """Return the instant from which a click is late."""
    kinds: dict[str, Callable[[], Window]] = {
        "tumbling": lambda: Tumbling(window.size or "", zone=window.zone),
        "hopping": lambda: Hopping(window.size or "", window.hop or ""),
        "sliding": lambda: Sliding(window.size or ""),
        "session": lambda: Session(window.gap or ""),
        "cumulative": lambda: Cumulative(window.step or "", window.size or "", zone=window.zone),
    }
    return kinds[window.kind]().late_at(F.col(TIME))


def job(config: PageViews) -> Job:
    """Put the job together."""
    window, places = config.window, config.output.tables()
    clicks = config.only_input(closes=late_from(window))
    if window.kept:
        return kept(config, clicks)
    path, keys = places["output.table"], ["window", *window.by]
    sink: Sink = (
        Append(path=path) if config.output.sink == "append" else Upsert(path=path, keys=keys)
    )
    return config.planned([clicks], transform=lambda events: views(events, window), sink=sink)


def kept(config: PageViews, clicks: Input) -> Job:
    """Put the job together whose windows can change after they came out."""
    window, places = config.window, config.output.tables()

    def parts(events: DataFrame) -> DataFrame:
        return views(events, window, partials(AGGS))

    sink = Corrected(
        path=places["output.table"],
        log=None if window.corrections is None else places["output.corrections"],
        windows=Overlapping(window.by) if window.kind == "session" else Same(window.by),
        aggs=AGGS,
    )
    corrections = Corrections(limit=window.corrections or "0 seconds", windows=parts)
    if window.emission == "final":
        return config.planned([clicks], transform=parts, sink=sink, corrections=corrections)
    updated = Mapped(rows=parts, sink=sink)
    return config.planned(
        [clicks],
        transform=lambda events: events,
        sink=updated,
        stateless=True,
        corrections=corrections,
    )


if __name__ == "__main__":
    command(
        "page_views", PageViews, job, "Count page views in event-time windows, from Kafka to Delta."
    )
