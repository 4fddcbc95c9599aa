"""Match documents against stored queries, each match exactly once: Kafka to Delta."""

from __future__ import annotations

from pydantic import Field, model_validator

from ..config import (
    Config,
    Duration,
    InputSection,
    Names,
    OutputSection,
    Section,
    Table,
    config_errors,
)
from ..errors import ConfigError
from ..job.job import Job
from ..patterns import SearchFields, query_format
from ..sinks import Percolator, read_query_versions

DESCRIPTION = "Match documents against stored queries, from Kafka to Delta."


class QueriesSection(InputSection):
    """[queries]: the changelog of queries: key = id, value = text, timestamp = valid from."""

    event_schema: str = Field(default="", alias="schema")

    @model_validator(mode="after")
    def _require_plain_queries(self) -> QueriesSection:
        if (
            self.event_schema
            or self.time != "event_time"
            or self.format != "json"
            or self.schema_header
        ):
            raise ConfigError(
                "invalid key in [queries]: schema, time, format or schema_header; values are texts",
                "topics, watermark_delay, start and similar keys",
            )
        return self


class SearchSection(Section):
    """[search]: the searchable fields of the documents, and the maximum lag of the queries."""

    text: Names = Field(default=[])
    integer: Names = Field(default=[])
    double: Names = Field(default=[])
    time: Names = Field(default=[])
    default: Names = Field(default=[], description="text fields for words without a field")
    max_changelog_lag: Duration | None = Field(
        default=None, description="maximum lag of the queries behind the documents"
    )

    def to_search_fields(self) -> SearchFields:
        """Return the fields."""
        columns_by_type = self.model_dump(include={"text", "integer", "double", "time"})
        with config_errors("search"):
            return SearchFields(**columns_by_type, default=self.default or None)


class Tables(OutputSection):
    """[output]: the matches, the versions of the queries, and the pending documents."""

    table: Table = "matches"
    versions: Table = "queries"
    waiting: Table = "waiting"


class StandingQueries(Config, name="standing_queries"):
    """The job's configuration; conf/jobs/standing_queries.toml documents each key."""

    documents: InputSection
    queries: QueriesSection
    search: SearchSection
    output: Tables


def job(config: StandingQueries) -> Job:
    """Return the job of a configuration."""
    fields = config.search.to_search_fields()
    sink = Percolator(
        config.output.table,
        fields=fields,
        versions=read_query_versions(config.output.versions),
        pending_table=config.output.waiting,
        watermark_delay=config.queries.watermark_delay,
        max_changelog_lag=config.search.max_changelog_lag,
    )
    inputs = {
        "documents": config.as_input(config.documents),
        "queries": config.as_input(config.queries, format=query_format(fields)),
    }
    return config.as_job(inputs=inputs, sink=sink)
