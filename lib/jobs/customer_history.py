"""Maintain a table and its history from a Debezium or Maxwell changelog: Kafka to Delta."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ..config import Config, InputSection, Names, NonNegativeDuration, OutputSection, Table
from ..errors import ConfigError
from ..formats import debezium_format, maxwell_format
from ..formats.debezium import UNAVAILABLE_VALUE
from ..formats.format import Format
from ..job.job import Job
from ..sinks import CurrentTable, FanOut, HistoryTable

DESCRIPTION = "Maintain a table and its history from its changelog, from Kafka to Delta."


class ChangesSection(InputSection):
    """[changes]: the topics, and the columns and key of the source table; changes are never late.

    `decimals`, `timestamps`, `unavailable_value`, `shape` and `rename` are those of
    `debezium_format`.
    """

    time: Literal["event_time"] = "event_time"
    watermark_delay: NonNegativeDuration = "0 seconds"
    key: Names
    format: Literal["debezium", "maxwell"] = "debezium"  # type: ignore[assignment]
    decimals: Literal["precise", "string", "double"] | None = None
    timestamps: Literal["milliseconds", "microseconds", "nanoseconds"] | None = None
    unavailable_value: str = UNAVAILABLE_VALUE
    shape: Literal["envelope", "flattened"] = "envelope"
    rename: dict[str, str] = Field(default={})

    @model_validator(mode="after")
    def _require_debezium(self) -> ChangesSection:
        given = self.model_fields_set & {"decimals", "timestamps", "unavailable_value", "shape"}
        if given and self.format == "maxwell":
            raise ConfigError(
                f"invalid changes.{min(given)} with format = 'maxwell'",
                "the keys of Debezium's records only with format = 'debezium'",
            )
        return self

    def changelog_format(self) -> Format:
        """Return the format of the changes."""
        if self.format == "maxwell":
            return maxwell_format(self.event_schema, key=self.key, rename=self.rename)
        return debezium_format(
            self.event_schema,
            key=self.key,
            decimals=self.decimals,
            timestamps=self.timestamps,
            unavailable_value=self.unavailable_value,
            shape=self.shape,
            rename=self.rename,
        )


class Tables(OutputSection):
    """[output]: the current table (SCD type 1) and its history (SCD type 2)."""

    table: Table = "customers"
    history: Table = "customer_history"


class CustomerHistory(Config, name="customer_history"):
    """The job's configuration; conf/jobs/customer_history.toml documents each key."""

    changes: ChangesSection
    output: Tables


def job(config: CustomerHistory) -> Job:
    """Return the job of a configuration, which merges each batch of changes into the tables."""
    section = config.changes
    output = config.output
    return config.as_job(
        inputs={"changes": config.as_input(section, format=section.changelog_format())},
        sink=FanOut(CurrentTable(output.table), other_sinks=[HistoryTable(output.history)]),
    )
