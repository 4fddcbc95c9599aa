"""Run documents past standing queries: Kafka in, Delta out, each match exactly once.

spark-submit jobs/standing_queries.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from pydantic import Field, model_validator

from tidegate.errors import ConfigError, TidegateError
from tidegate.patterns import SearchFields, query_format
from tidegate.runtime import Job, command
from tidegate.runtime.config import (
    Config,
    Duration,
    InputSection,
    Names,
    OutputSection,
    Section,
    Table,
)
from tidegate.sinks import Matched, standing_versions


class QueriesSection(InputSection):
    """[queries]: the changelog: key = id, value = text, and the timestamp says since when."""

    event_schema: str = Field(default="", alias="schema")

    @model_validator(mode="after")
    def _plain(self) -> QueriesSection:
        if self.event_schema or self.time != "event_time" or self.format != "json" or self.header:
            raise ConfigError(
                "[queries] has a schema, a time, a format or a header, and its values are texts.",
                "topics, lateness, start and the like.",
            )
        return self


class SearchSection(Section):
    """[search]: the fields of the documents that queries speak of, and the queries' delay."""

    text: Names = Field(default=[])
    whole: Names = Field(default=[])
    fraction: Names = Field(default=[])
    time: Names = Field(default=[])
    default: Names = Field(default=[], description="texts for words without a field; or all")
    lag: Duration | None = Field(
        default=None, description="how far the queries can be behind the documents"
    )

    def fields(self) -> SearchFields:
        """Return the fields."""
        named = self.model_dump(include={"text", "whole", "fraction", "time"})
        try:
            return SearchFields(**named, default=self.default or None)
        except TidegateError as error:
            raise ConfigError(f"[search] {error.given}", error.allowed, error.hint) from None


class Tables(OutputSection):
    """[output]: the target, the versions of the queries, and the documents that wait."""

    table: Table = "matches"
    versions: Table = "queries"
    waiting: Table = "waiting"


class StandingQueries(Config, name="standing_queries"):
    """The job's configuration: conf/jobs/standing_queries.toml tells each key."""

    documents: InputSection
    queries: QueriesSection
    search: SearchSection
    output: Tables


def job(config: StandingQueries) -> Job:
    """Return the job of a configuration."""
    fields = config.search.fields()
    sink = Matched(
        config.output.table,
        fields=fields,
        versions=standing_versions(config.output.versions),
        waiting=config.output.waiting,
        lateness=config.queries.lateness,
        lag=config.search.lag,
    )
    inputs = {
        "documents": config.as_input(config.documents),
        "queries": config.as_input(config.queries, format=query_format(fields)),
    }
    return config.as_job(inputs=inputs, sink=sink)


if __name__ == "__main__":
    command(
        StandingQueries,
        job,
        about="Run documents past standing queries, from Kafka to Delta.",
        result="taken up",
    )
