"""Join searches with the clicks that follow them, and count how often pages of results are clicked.

spark-submit jobs/click_through.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]

A click belongs to a search of its session, from `before` before it to `after` after it; it may
arrive first. With join.emission = "early" a search and its click come out as soon as both are
there, and a search without a click as soon as none can come any more. With "final" a search comes
out, clicked or not, with all of its clicks, when no further click of it can come.

With result.kind = "rates", which needs the final way, the table has for each window of the
searches' time and each page

    searches    different searches
    clicked     those of them with a click; clicked / searches is the click-through rate
    clicks      different clicks for each search, added up

Sums are kept and not their ratio, since sums of pages and windows add up to larger ones. A window's
row grows until the last of its searches has come out. With "rows" the table has a row for each
search and click, or search without a click; its emission is early unless said.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.aggregates import Aggregate, count, total
from tidegate.columns import quoted, require
from tidegate.errors import ConfigError, TidegateError
from tidegate.joins import IntervalJoin, JoinEmission
from tidegate.runtime import Job, command
from tidegate.runtime.config import (
    Columns,
    Config,
    InputSection,
    Names,
    OutputSection,
    Section,
    Span,
    Table,
)
from tidegate.sinks import Append, Upsert
from tidegate.transform import Stateful
from tidegate.windows import Tumbling, Windowed

SUFFIXES = ("_search", "_click")
SEARCHED = "event_time_search"
AGGS: dict[str, Aggregate] = {
    "searches": count(),
    "clicked": total("clicked"),
    "clicks": total("clicks"),
}


class JoinSection(Section):
    """[join]: the columns that must be equal, and how far from its search a click may be."""

    on: Names = Field(default=["session_id"])
    before: str = "0 seconds"
    after: str = "1 hour"
    emission: JoinEmission | None = None

    @model_validator(mode="after")
    def _ranged(self) -> JoinSection:
        try:
            self.value("final")
        except TidegateError as error:
            raise ConfigError(f"[join]: {error.given}", error.allowed, error.hint) from None
        return self

    def value(self, otherwise: JoinEmission) -> IntervalJoin:
        """Return the join: every search, with its clicks where it has any.

        otherwise: the emission, where none is said.
        """
        return IntervalJoin(
            self.on,
            within=(self.before, self.after),
            how="left",
            suffixes=SUFFIXES,
            emission=self.emission or otherwise,
        )


class RatesSection(Section):
    """[window]: the windows of the searches' time for which rates are counted, and by what."""

    size: Span = "10 minutes"
    zone: str | None = None
    by: Columns = Field(default=["page"])

    @model_validator(mode="after")
    def _holds(self) -> RatesSection:
        try:
            self.value()
        except TidegateError as error:
            raise ConfigError(error.given, error.allowed, error.hint) from None
        return self

    def value(self) -> Windowed:
        """Return the windows of searches."""
        return Windowed(Tumbling(self.size, zone=self.zone), by=self.by, aggs=AGGS, time=SEARCHED)


class ResultSection(Section):
    """[result]: rates by page and window, or the joined rows; the ids of searches and clicks."""

    kind: Literal["rates", "rows"] = "rates"
    search: str = "search_id"
    click: str = "click_id"


class Tables(OutputSection):
    """[output]: the result, and the late rows of each topic."""

    table: Table = "click_through"
    late_searches: Table = "late_searches"
    late_clicks: Table = "late_clicks"


class ClickThrough(Config, name="click_through"):
    """The job's configuration: conf/jobs/click_through.toml tells each key."""

    searches: InputSection
    clicks: InputSection
    join: JoinSection = JoinSection()
    window: RatesSection = RatesSection()
    result: ResultSection = ResultSection()
    output: Tables

    @model_validator(mode="after")
    def _counts_whole_searches(self) -> ClickThrough:
        if self.result.kind == "rates" and self.join.emission == "early":
            raise ConfigError(
                'result.kind is "rates" and join.emission is "early": a search whose clicks come '
                "out one by one would be counted with each.",
                'join.emission = "final" for rates.',
                'result.kind = "rows"',
            )
        return self

    def joined(self) -> IntervalJoin:
        """Return the join: final for rates, and early for rows unless said."""
        return self.join.value("final" if self.result.kind == "rates" else "early")


def job(config: ClickThrough) -> Job:
    """Return the job of a configuration."""
    output = config.output
    inputs = {
        "searches": config.as_input(config.searches),
        "clicks": config.as_input(config.clicks),
    }
    late = {"searches": output.late_searches, "clicks": output.late_clicks}
    join = config.joined()
    if config.result.kind == "rows":
        return config.as_job(inputs=inputs, transform=join, sink=Append(output.table), late=late)

    def joined(searches: DataFrame, clicks: DataFrame) -> DataFrame:
        # The columns of the rates are looked for before the stream begins.
        rows = join(searches, clicks)
        require(rows, config.window.by, "window.by")
        require(rows, [config.result.search, config.result.click], "[result]")
        return rows

    return config.as_job(
        inputs=inputs,
        transform=Stateful(joined, late=join.late_at, reach=join.reach),
        each_batch=lambda rows: rates(rows, config),
        sink=Upsert(output.table, keys=["window", *config.window.by], aggs=AGGS),
        late=late,
    )


def rates(rows: DataFrame, config: ClickThrough) -> DataFrame:
    """Count the searches and clicks of joined rows.

    All rows of a search come out of a final join in one batch, so that none is counted twice.
    """
    own = [SEARCHED, *config.window.by, config.result.search]
    clicks = F.count_distinct(quoted(config.result.click)).alias("clicks")
    searches = rows.groupBy(*map(quoted, own)).agg(clicks)
    clicked = F.when(F.col("clicks") > 0, 1).otherwise(0)
    return config.window.value()(searches.withColumn("clicked", clicked))


if __name__ == "__main__":
    command(
        ClickThrough,
        job,
        about="Join searches with their clicks and count click-through rates, from Kafka to Delta.",
        result="searches and clicks joined",
    )
