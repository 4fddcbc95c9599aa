"""Join searches with the clicks that follow them, and count how often each page of results is clicked through.

spark-submit jobs/click_through.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]

A click belongs to a search of its session, from `before` before it to `after` after it; it may
arrive first. What comes
out is final: a search comes out, clicked or not, when no click of it can come any more, with all of
its clicks.

With result.kind = "rates" the table has for each window of the searches' time and each page

    searches    different searches
    clicked     those of them with a click; clicked / searches is the click-through rate
    clicks      different clicks for each search, added up

Sums are kept and not their ratio, since sums of pages and windows add up to larger ones. A window's
row grows until the last of its searches has come out. With "rows" the table has a row for each
search and click, or search without a click."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate, count, total
from tidegate.columns import quoted, require
from tidegate.errors import ConfigError, TidegateError
from tidegate.joins import IntervalJoin
from tidegate.joins._panes import panes
from tidegate.runtime.cli import command
from tidegate.runtime.config.job_config import Config
from tidegate.runtime.config.sections import (
    JobName,
    JobSection,
    Names,
    Section,
    Span,
    TablesSection,
    TopicSection,
    WindowSection,
)
from tidegate.runtime.job import Job
from tidegate.sinks import Append, Upsert
from tidegate.transform import Stateful
from tidegate.windows import tumbling

TIME = "event_time"
SUFFIXES = ("_search", "_click")
SEARCHED = f"{TIME}{SUFFIXES[0]}"
AGGS: dict[str, Aggregate] = {
    "searches": count(),
    "clicked": total("clicked"),
    "clicks": total("clicks"),
}


class JoinSection(Section):
    """[join]: the columns that must be equal, and how far before and after its search a click may
    be."""

    on: Names = Field(default=["session_id"])
    before: str = "0 seconds"
    after: str = "1 hour"

    @model_validator(mode="after")
    def _ranged(self) -> JoinSection:
        try:
            panes(self.within)
        except TidegateError as error:
            raise ConfigError(f"[join]: {error.given}", error.allowed, error.hint) from None
        return self

    @property
    def within(self) -> tuple[str, str]:
        """The range as the join takes it."""
        return self.before, self.after


class Windows(WindowSection):
    """[window]: the windows of the searches' time for which rates are counted, and by which
    columns."""

    kind: Literal["tumbling"] = "tumbling"
    size: Span | None = "10 minutes"


class ResultSection(Section):
    """[result]: rates by page and window, or the joined rows; and which columns tell searches and
    clicks apart."""

    kind: Literal["rates", "rows"] = "rates"
    search: str = "search_id"
    click: str = "click_id"


class NamedJob(JobSection):
    """[job]: the name, which is part of every commit and must stay the same over restarts."""

    name: JobName = "click_through"


class Tables(TablesSection):
    """[output]: the result, the dead letters of both topics, and the late rows of each."""

    TABLES: ClassVar[tuple[str, ...]] = (*TablesSection.TABLES, "late_searches", "late_clicks")

    table: str = "click_through"
    late_searches: str = "late_searches"
    late_clicks: str = "late_clicks"
    checkpoint: str = "_checkpoints/click_through"


class ClickThrough(Config):
    """The job's configuration: conf/jobs/click_through.toml tells each key."""

    job: NamedJob = NamedJob()
    searches: TopicSection
    clicks: TopicSection
    join: JoinSection = JoinSection()
    window: Windows = Windows()
    result: ResultSection = ResultSection()
    output: Tables = Tables()


def job(config: ClickThrough) -> Job:
    """Put the job together."""
    inputs = {
        "searches": config.named_input(config.searches),
        "clicks": config.named_input(config.clicks),
    }

    join = IntervalJoin(config.join.on, within=config.join.within, how="left", suffixes=SUFFIXES)

    def joined(searches: DataFrame, clicks: DataFrame) -> DataFrame:
        rows = join(searches, clicks)
        if config.result.kind == "rates":
            require(rows, config.window.by, "window.by")
            require(rows, [config.result.search, config.result.click], "[result]")
        return rows

    transform = Stateful(joined, late=join.late_at)
    path = config.output.tables()["output.table"]
    if config.result.kind == "rows":
        return config.planned(inputs, transform=transform, sink=Append(path=path))
    return config.planned(
        inputs,
        transform=transform,
        each_batch=lambda rows: rates(rows, config.result, config.window),
        sink=Upsert(path=path, keys=["window", *config.window.by], aggs=AGGS),
    )


def rates(rows: DataFrame, result: ResultSection, window: WindowSection) -> DataFrame:
    """Count the searches and clicks of joined rows; all rows of a search come out of the join in
    one batch."""
    clicks = F.count_distinct(quoted(result.click)).alias("clicks")
    each = rows.groupBy(*map(quoted, [SEARCHED, *window.by, result.search])).agg(clicks)
    searched = each.withColumn("clicked", F.when(F.col("clicks") > 0, 1).otherwise(0))
    return tumbling(
        searched, window.size or "", by=window.by, aggs=AGGS, time=SEARCHED, zone=window.zone
    )


if __name__ == "__main__":
    command(
        "click_through",
        ClickThrough,
        job,
        "Join searches with their clicks and count click-through rates, from Kafka to Delta.",
        result="searches and clicks joined",
    )
