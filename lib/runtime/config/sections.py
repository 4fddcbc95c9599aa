"""The sections that jobs share: which keys there are, and what each may be."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from ...errors import ArgumentError, ConfigError, TidegateError
from ...sinks import Layout
from ...sinks.side_layout import require_shared
from ...sources._kafka_options import require_options, require_servers
from ..locations import below, keep_apart
from ..process.presets import Preset
from ..telemetry.metrics import LOOPBACK
from .base import Section
from .values import (
    IS_TABLE,
    Columns,
    JobName,
    OptionValue,
    Place,
    Root,
    Table,
    Wait,
)

_LAYOUT_KEYS = re.compile(r"\b(?=(?:partition|cluster)_by\b)|^(?=properties (?:is|has)\b)")
"""Where an error of `Layout` begins to name what is a key of [output] here."""


class JobSection(Section):
    """[job]: the name, which is part of every commit and must stay the same over restarts."""

    name: JobName = Field(description="part of every commit; the job's own unless given")


class BrokerSection(Section):
    """[kafka]: the brokers; `options` pass through to Kafka."""

    servers: str = "localhost:9092"
    options: dict[str, OptionValue] = Field(default={})

    @model_validator(mode="after")
    def _known(self) -> BrokerSection:
        try:
            require_servers(self.servers)
            require_options(self.options)
        except TidegateError as error:
            raise ConfigError(error.given, error.allowed, error.hint) from None
        return self


class OutputSection(Section):
    """[output]: the root folder, and below it the tables.

    The root is absolute, or relative to the working directory. A job's own section adds its further
    tables. Each value is the table's place: absolute and plain, below the root.
    """

    model_config = ConfigDict(validate_default=True)

    root: Root = ".run"
    table: Table = Field(description="the job's name unless given")
    dead_letters: Table = "dead_letters"
    dead_letters_topic: str | None = Field(
        default=None, description="a topic that dead letters are sent to as well"
    )
    gaps: Table = "gaps"
    side_partition_by: Columns = Field(
        default=[], description="topic, partition: of dead letters, late rows and gaps"
    )
    side_cluster_by: Columns = Field(
        default=[],
        description="topic, partition, which Delta keeps together in dead letters, late rows and "
        "gaps",
    )
    side_properties: dict[str, OptionValue] = Field(
        default={}, description="Delta's properties of dead letters, late rows and gaps"
    )
    catalog: str | None = Field(
        default=None,
        description="a schema, such as main.shop, in which tables are known by name",
    )
    checkpoint: Place = Field(description="_checkpoints/<job> unless given")

    @model_validator(mode="after")
    def _apart(self) -> OutputSection:
        tables = self.tables()
        for key, path in tables.items():
            if not below(path, self.root):
                raise ConfigError(
                    f"{key} is {path}.", f"a path under output.root, which is {self.root}."
                )
        try:
            keep_apart(tables.items(), self.checkpoint)
        except ArgumentError as error:
            raise ConfigError(error.given, error.allowed, error.hint) from None
        _ = self.side_layout
        return self

    @property
    def side_layout(self) -> Layout:
        """How the tables of side outputs are laid out."""
        try:
            layout = Layout(
                partition_by=self.side_partition_by,
                cluster_by=self.side_cluster_by,
                properties=self.side_properties,
            )
            require_shared(layout)
        except TidegateError as error:
            said = (error.given, error.allowed, error.hint)
            raise ConfigError(*(_LAYOUT_KEYS.sub("output.side_", text) for text in said)) from None
        return layout

    def tables(self) -> dict[str, str]:
        """Return the place of each table by its key."""
        return {
            f"output.{key}": getattr(self, key)
            for key, field in type(self).model_fields.items()
            if IS_TABLE in field.metadata
        }


class LimitsSection(Section):
    """[limits]: how many unreadable rows of a batch stop the job, and how many late ones alarm."""

    dead_rows: int | None = Field(default=10_000, ge=0)
    dead_ratio: float | None = Field(default=0.1, ge=0, le=1)
    late_rows: int | None = Field(default=None, ge=0)
    late_ratio: float | None = Field(default=0.1, ge=0, le=1)
    min_rows: int = Field(default=1_000, ge=0)


class UpkeepSection(Section):
    """[upkeep]: after how many batches Delta's OPTIMIZE and VACUUM run over the job's tables.

    Never, unless it is said.
    """

    compact_every: int | None = Field(default=None, gt=0)
    vacuum_every: int | None = Field(default=None, gt=0)


class MetricsSection(Section):
    """[metrics]: the port at which Prometheus finds the run's numbers; none by default.

    The address is this machine's own unless another is given: "0.0.0.0" answers everybody.
    """

    port: int | None = Field(default=None, gt=0, lt=65_536)
    address: str = LOOPBACK


class SparkSection(Section):
    """[spark]: settings of the session that a job makes; what spark-submit was given stays."""

    preset: Preset | None = Field(
        default=None, description="settings by name: [Presets](../guides/deploying.md#presets)"
    )
    partitions: int | None = Field(
        default=None,
        ge=1,
        description="spark.sql.shuffle.partitions; as many as cores unless given",
    )


class TriggerSection(Section):
    """[trigger]: read what there is and end, or run on and look every `interval`.

    `backlog`: from how many waiting records on a new checkpoint works them off as one batch first.
    """

    kind: Literal["available-now", "continuous"] = "available-now"
    interval: Wait = "10 seconds"
    backlog: int | None = Field(
        default=None,
        ge=0,
        description="from so many waiting records on a new checkpoint begins "
        "with one batch over them",
    )

    @property
    def every(self) -> str | None:
        """The interval of a job that runs on; None for one that ends."""
        return self.interval if self.kind == "continuous" else None
