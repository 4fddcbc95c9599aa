"""The sections of what a job reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from ...errors import ConfigError
from ...formats import Format
from ...offsets import Offsets
from ...sources import KafkaSource, Reading
from ...sources.event_time import TimeUnit
from ..job import Input
from .format_sections import FormattedSection, RegistrySection
from .secrets import resolved
from .sections import BrokerSection
from .values import Duration, Moment, Names, Wait


class InputSection(FormattedSection):
    """What a job reads: topics, the schema of their values (DDL), and the event time."""

    topics: Names = Field(default=[])
    pattern: str | None = None
    partitions: dict[str, list[int]] | None = None
    time: str = Field(default="event_time", description="the field that is the event time")
    time_unit: TimeUnit | None = Field(
        default=None, description="what a time that is a whole number counts since 1970"
    )
    lateness: Wait = Field(description="how far behind the newest event a row may be")
    start: Literal["earliest", "latest"] | Moment | Offsets = "earliest"
    max_rows: int | None = Field(default=1_000_000, gt=0)
    future_tolerance: Duration | None = "1 hour"
    future: Literal["reject", "clamp"] = "reject"
    watermarks: Literal["partition", "log"] | int = 1
    idle: Duration | None = None
    on_data_loss: Literal["stop", "record"] = "stop"
    value_cap: int = Field(default=65_536, gt=0)

    @model_validator(mode="after")
    def _named(self) -> InputSection:
        chosen = [key for key in ("topics", "pattern", "partitions") if getattr(self, key)]
        if len(chosen) != 1:
            raise ConfigError(
                f"names {' and '.join(chosen) or 'no topic'}.",
                "exactly one of topics, pattern, partitions.",
                'topics = ["clicks"]',
            )
        return self

    @model_validator(mode="after")
    def _shared_out(self) -> InputSection:
        if isinstance(self.watermarks, int) and self.watermarks < 1:
            allowed = "'partition', 'log', or 1 or more."
            raise ConfigError(f"watermarks is {self.watermarks}.", allowed)
        if self.watermarks != 1 and self.pattern:
            raise ConfigError(
                f"watermarks is {self.watermarks!r}, with a pattern of topics.",
                "several watermarks for topics or partitions that are named.",
            )
        return self

    def input(
        self,
        broker: BrokerSection,
        registry: RegistrySection | None = None,
        *,
        format: Format | None = None,
        keep: Sequence[str] = (),
    ) -> Input:
        """Return the input, with the brokers' secrets read from where they are kept.

        registry: where the schemas of values with a header are found.
        format: that of the section, where no other is given, which has the event time as
            `event_time`.
        keep: the columns of Kafka that its rows carry, as a `Reading` has them.
        """
        source = KafkaSource(
            servers=broker.servers,
            topics=self.topics,
            pattern=self.pattern,
            partitions=self.partitions,
            start=self.start,
            max_rows=self.max_rows,
            on_data_loss=self.on_data_loss,
            options=resolved(broker.options),
        )
        if format is not None and self.time_unit is not None:
            raise ConfigError(
                f"time_unit is {self.time_unit!r}, in a section whose rows are changes.",
                "a timestamp as their time, and no time_unit.",
            )
        if format is not None and (self.format in ("avro", "protobuf") or self.header):
            raise ConfigError(
                f"format is {self.format!r}, in a section whose rows are changes.",
                "JSON, without a header.",
            )
        reading = Reading(
            source=source,
            format=self.made(registry) if format is None else format,
            time=self.time if format is None else "event_time",
            time_unit=self.time_unit if format is None else None,
            lateness=self.lateness,
            keep=keep,
            future_tolerance=self.future_tolerance,
            future=self.future,
            value_cap=self.value_cap,
        )
        return Input(reading, watermarks=self.watermarks, idle=self.idle)


class FilteredSection(InputSection):
    """What a job reads of topics of which not every row counts."""

    where: str | None = Field(
        default=None,
        description="a condition in SQL on the input's columns; other rows are left out",
    )

    def input(
        self,
        broker: BrokerSection,
        registry: RegistrySection | None = None,
        *,
        format: Format | None = None,
        keep: Sequence[str] = (),
    ) -> Input:
        """Return the input, as an `InputSection` does, with the rows that the condition leaves."""
        given = super().input(broker, registry, format=format, keep=keep)
        return replace(given, reading=replace(given.reading, where=self.where))
