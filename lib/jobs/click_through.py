"""Join searches with their clicks, and count click-through rates: Kafka to Delta.

A click matches a search of its session if it is from `before` before to `after` after it; it can
arrive first. join.emit = "early" emits a search and its click as soon as both have arrived, and a
search without a click as soon as none can arrive any more. "final" emits a search with all of its
clicks, or without one, when no further click can arrive.

With result.kind = "rates", which requires emit = "final", the table has for each page and each
window of the searches' time

    searches    distinct searches
    clicked     searches with a click; clicked / searches is the click-through rate
    clicks      distinct clicks per search, summed

The table stores sums instead of ratios, because sums can be added up over pages and windows. The
row of a window grows until its last search is emitted. With "rows" the table has one row per search
and click, or per search without a click; the default is emit = "early".
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .. import aggregates as agg
from ..aggregates import Aggregate
from ..columns import quoted_column, require_columns
from ..config import (
    CalendarDuration,
    Columns,
    Config,
    InputSection,
    Names,
    OutputSection,
    Section,
    Table,
    config_errors,
)
from ..errors import ConfigError
from ..job.job import Job
from ..joins import IntervalJoin, JoinEmit
from ..sinks import Append, Upsert
from ..transform import Stateful
from ..windows import Tumbling, WindowAggregation

DESCRIPTION = "Join searches with their clicks and count click-through rates, from Kafka to Delta."

SUFFIXES = ("_search", "_click")
SEARCH_TIME = "event_time_search"
AGGS: dict[str, Aggregate] = {
    "searches": agg.count(),
    "clicked": agg.sum("clicked"),
    "clicks": agg.sum("clicks"),
}


class JoinSection(Section):
    """[join]: the equality columns, and the time interval of clicks around their search."""

    on: Names = Field(default=["session_id"])
    before: str = "0 seconds"
    after: str = "1 hour"
    emit: JoinEmit | None = None

    @model_validator(mode="after")
    def _validate_join(self) -> JoinSection:
        with config_errors("join"):
            self.to_join("final")
        return self

    def to_join(self, default_emit: JoinEmit) -> IntervalJoin:
        """Return the left join of searches with clicks.

        default_emit: the value of `emit` if the section has none.
        """
        return IntervalJoin(
            self.on,
            within=(self.before, self.after),
            how="left",
            suffixes=SUFFIXES,
            emit=self.emit or default_emit,
        )


class RatesSection(Section):
    """[window]: the windows of the searches' time, and the grouping columns of the rates."""

    size: CalendarDuration = "10 minutes"
    zone: str | None = Field(default=None, description="time zone of a calendar")
    by: Columns = Field(default=["page"])

    @model_validator(mode="after")
    def _validate_window(self) -> RatesSection:
        with config_errors():
            self.to_aggregation()
        return self

    def to_aggregation(self) -> WindowAggregation:
        """Return the windowed aggregation of searches."""
        return WindowAggregation(
            Tumbling(self.size, zone=self.zone), by=self.by, aggs=AGGS, time=SEARCH_TIME
        )


class ResultSection(Section):
    """[result]: rates by window, or the joined rows; the id columns of searches and clicks."""

    kind: Literal["rates", "rows"] = "rates"
    search: str = "search_id"
    click: str = "click_id"


class Tables(OutputSection):
    """[output]: the result, and the late rows of each topic."""

    table: Table = "click_through"
    late_searches: Table = "late_searches"
    late_clicks: Table = "late_clicks"


class ClickThrough(Config, name="click_through"):
    """The job's configuration; conf/jobs/click_through.toml documents each key."""

    searches: InputSection
    clicks: InputSection
    join: JoinSection = JoinSection()
    window: RatesSection = RatesSection()
    result: ResultSection = ResultSection()
    output: Tables

    @model_validator(mode="after")
    def _require_complete_searches(self) -> ClickThrough:
        if self.result.kind == "rates" and self.join.emit == "early":
            raise ConfigError(
                "invalid join.emit: 'early' with result.kind = 'rates', which would count a search "
                "once per click",
                'join.emit = "final" for rates',
                'result.kind = "rows"',
            )
        return self

    def to_join(self) -> IntervalJoin:
        """Return the join; by default final for rates and early for rows."""
        return self.join.to_join("final" if self.result.kind == "rates" else "early")


def job(config: ClickThrough) -> Job:
    """Return the job of a configuration."""
    output = config.output
    inputs = {
        "searches": config.as_input(config.searches),
        "clicks": config.as_input(config.clicks),
    }
    late_rows = {"searches": output.late_searches, "clicks": output.late_clicks}
    join = config.to_join()
    if config.result.kind == "rows":
        return config.as_job(
            inputs=inputs, transform=join, sink=Append(output.table), late_rows=late_rows
        )

    def join_and_check(searches: DataFrame, clicks: DataFrame) -> DataFrame:
        # Checks the columns of the rates before the stream starts.
        rows = join(searches, clicks)
        require_columns(rows, config.window.by, "window.by")
        require_columns(rows, [config.result.search, config.result.click], "[result]")
        return rows

    return config.as_job(
        inputs=inputs,
        transform=Stateful(join_and_check, late_from=join.late_at, lookback=join.lookback),
        each_batch=lambda rows: aggregate_rates(rows, config),
        sink=Upsert(output.table, keys=["window", *config.window.by], aggs=AGGS),
        late_rows=late_rows,
    )


def aggregate_rates(rows: DataFrame, config: ClickThrough) -> DataFrame:
    """Count the searches and clicks of joined rows.

    A final join emits all rows of a search in one batch, so that no search is counted twice.
    """
    search_columns = [SEARCH_TIME, *config.window.by, config.result.search]
    clicks = F.count_distinct(quoted_column(config.result.click)).alias("clicks")
    searches = rows.groupBy(*map(quoted_column, search_columns)).agg(clicks)
    clicked = F.when(F.col("clicks") > 0, 1).otherwise(0)
    return config.window.to_aggregation()(searches.withColumn("clicked", clicked))
