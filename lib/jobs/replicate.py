"""Replicate a whole database from its Debezium topics: Kafka to Delta."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from ..config import (
    Config,
    Names,
    OutputSection,
    Section,
    Table,
    config_errors,
)
from ..config.config_types import ZonedDatetime
from ..errors import ConfigError
from ..formats.debezium import UNAVAILABLE_VALUE
from ..job.job import Job
from ..offsets import Offsets
from ..replication import Encoding, Keep, ReplicatedTables, TableOptions, replicated_input
from ..secrets import resolve_secrets
from ..sources import KafkaSource

DESCRIPTION = "Replicate a whole database from its Debezium topics, from Kafka to Delta."


class TopicsSection(Section):
    """[changes]: the topics of the database, one for each table, and how they are encoded.

    `decimals`, `timestamps`, `unavailable_value` and `shape` are those of `debezium_format`. With
    encoding = "avro" or "protobuf", the schemas are in the registry of the section [registry].
    """

    topics: Names = Field(default=[], description="topics; or set `pattern`")
    pattern: str | None = None
    start: Literal["earliest", "latest"] | ZonedDatetime | Offsets = "earliest"
    max_records_per_batch: int | None = Field(default=1_000_000, gt=0)
    on_data_loss: Literal["stop", "record"] = "stop"
    encoding: Encoding = "json"
    decimals: Literal["precise", "string", "double"] | None = None
    timestamps: Literal["milliseconds", "microseconds", "nanoseconds"] | None = None
    unavailable_value: str = UNAVAILABLE_VALUE
    shape: Literal["envelope", "flattened"] = "envelope"

    @model_validator(mode="after")
    def _require_topics(self) -> TopicsSection:
        if bool(self.topics) == bool(self.pattern):
            raise ConfigError(
                f"invalid topic choice: {'topics and pattern' if self.topics else 'none'}",
                "exactly one of topics, pattern",
                r"pattern = 'shop\.public\..*'",
            )
        return self


class TableSection(Section):
    """One of [[tables]]: options of one topic instead of those of [output]; see `TableOptions`."""

    topic: str = Field(description="the topic of the table")
    keep: Keep | None = Field(
        default=None, description="the current rows, all versions, or both; default: as in [output]"
    )
    schema_: str | None = Field(
        default=None,
        alias="schema",
        description="columns and types as DDL, for records without a schema part",
    )
    key: Names = Field(default=[], description="key columns, for records without a schema part")
    rename: dict[str, str] = Field(
        default={}, description="names in the table by names in the source"
    )

    def to_options(self) -> TableOptions:
        """Return the options."""
        with config_errors("tables"):
            return TableOptions(
                keep=self.keep, columns=self.schema_, key=self.key, rename=self.rename
            )


class ReplicationOutput(OutputSection):
    """[output]: the control table, and the folder and the names of the replicated tables."""

    table: Table = "replication"
    table_folder: Table = "tables"
    table_name: str = "{schema}.{table}"
    keep: Keep = "current"
    writers: int = Field(default=8, ge=1, le=64)
    catch_up_records: int = Field(default=100_000, ge=1)


class Replicate(Config, name="replicate"):
    """The job's configuration; conf/jobs/replicate.toml documents each key."""

    changes: TopicsSection
    output: ReplicationOutput
    tables: list[TableSection] = Field(default=[])

    @model_validator(mode="after")
    def _require_registry(self) -> Replicate:
        if self.changes.encoding != "json" and self.registry is None:
            raise ConfigError(
                f"missing section: [registry], for changes.encoding = {self.changes.encoding!r}",
                "the URL of the schema registry",
                "--set registry.url=http://localhost:8081",
            )
        return self

    @model_validator(mode="after")
    def _require_distinct_topics(self) -> Replicate:
        topics = [table.topic for table in self.tables]
        if len(set(topics)) < len(topics):
            raise ConfigError(
                f"invalid tables: the topics {', '.join(topics)}", "one section for each topic"
            )
        return self


def job(config: Replicate) -> Job:
    """Return the job of a configuration, which writes each table of the database."""
    changes, output, limits = config.changes, config.output, config.limits
    is_registered = changes.encoding != "json"
    registry = config.registry.to_registry() if config.registry and is_registered else None
    with config_errors("changes"):
        source = KafkaSource(
            config.kafka.bootstrap_servers,
            changes.topics,
            pattern=changes.pattern,
            start=changes.start,
            max_records_per_batch=changes.max_records_per_batch,
            on_data_loss=changes.on_data_loss,
            options=resolve_secrets(config.kafka.options),
        )
    with config_errors("output"):
        sink = ReplicatedTables(
            output.table,
            source=source,
            root=output.table_folder,
            table_name=output.table_name,
            keep=output.keep,
            options_by_topic={table.topic: table.to_options() for table in config.tables},
            encoding=changes.encoding,
            registry=registry,
            shape=changes.shape,
            decimals=changes.decimals,
            timestamps=changes.timestamps,
            unavailable_value=changes.unavailable_value,
            limits=limits,
            writers=output.writers,
            catch_up_records=output.catch_up_records,
        )
    job = config.as_job(inputs={"changes": replicated_input(source)}, sink=sink)
    # Too many dead letters pause a table, and do not stop the job.
    return replace(job, limits=replace(limits, dead_rows=None, dead_ratio=None))
