"""The sections that all jobs share."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from ..delta.table_layout import TableLayout
from ..errors import ConfigError, TidegateError
from ..kafka.client_options import require_bootstrap_servers, require_options
from ..paths import is_below, require_disjoint
from ..sinks.side_table import require_shared_columns
from ..spark.presets import Preset
from ..telemetry.prometheus import LOOPBACK
from .config_types import (
    IS_TABLE,
    Columns,
    JobName,
    Location,
    NonNegativeDuration,
    OptionValue,
    Root,
    Section,
    Table,
    config_errors,
)

_LAYOUT_ARGUMENT = re.compile(
    r"\b(?=(?:partition|cluster)_by\b)|(?<=^invalid )(?=properties\b)|^(?=properties\b)"
)
"""Where an error of `TableLayout` names an argument that is a key of [output]."""


class JobSection(Section):
    """[job]: the name, which each commit contains and which must not change; and the revision."""

    name: JobName = Field(
        description="stored in every commit; do not change it; default: the name of the job"
    )
    revision: str | int | None = Field(
        default=None,
        description="change it when a function of the job computes something else: "
        "[Functions](../operate/change-a-job.md#functions-and-their-revision)",
    )


class BrokerSection(Section):
    """[kafka]: the bootstrap servers, and options of the Kafka client.

    >>> BrokerSection(options={"minPartitions": 8}).options
    {'minPartitions': '8'}
    """

    bootstrap_servers: str = Field(
        default="localhost:9092", description="brokers, as host:port separated by commas"
    )
    options: dict[str, OptionValue] = Field(
        default={},
        description="options of the Kafka client; a secret is `env:NAME` or `file:PATH`",
    )

    @model_validator(mode="after")
    def _require_known_options(self) -> BrokerSection:
        with config_errors():
            require_bootstrap_servers(self.bootstrap_servers)
            require_options(self.options)
        return self


class OutputSection(Section):
    """[output]: the root folder, and the tables below it.

    A relative path is below the root; each table must be below the root. The section of a job has
    further tables.

    >>> output = OutputSection(root="s3a://lake", table="views", checkpoint="_checkpoints/views")
    >>> output.tables()["output.table"]
    's3a://lake/views'
    """

    model_config = ConfigDict(validate_default=True)

    root: Root = Field(
        default=".run",
        description="folder of the tables: relative to the working directory, absolute, or a URI "
        "such as s3a://bucket/folder",
    )
    table: Table = Field(description="the target table; default: the name of the job")
    dead_letters: Table = Field(default="dead_letters", description="dead letters")
    dead_letter_topic: str | None = Field(
        default=None, description="a topic that also receives the dead letters, at least once"
    )
    offset_gaps: Table = Field(
        default="offset_gaps",
        description="offsets that the topic deleted before the job read them",
    )
    side_table_partition_by: Columns = Field(
        default=[],
        description="partition columns of the tables of dead letters, late rows and offset gaps: "
        "topic, partition",
    )
    side_table_cluster_by: Columns = Field(
        default=[], description="clustering columns of the same tables: topic, partition"
    )
    side_table_properties: dict[str, OptionValue] = Field(
        default={}, description="Delta table properties of the same tables"
    )
    catalog: str | None = Field(
        default=None,
        description="a schema, such as main.shop, in which the tables are registered",
    )
    checkpoint: Location = Field(description="the checkpoint; default: `_checkpoints/<job>`")

    @model_validator(mode="after")
    def _require_disjoint_paths(self) -> OutputSection:
        tables = self.tables()
        for key, path in tables.items():
            if not is_below(path, self.root):
                raise ConfigError(
                    f"invalid {key}: {path!r}", f"a path under output.root, {self.root}"
                )
        with config_errors():
            require_disjoint(tables.items(), self.checkpoint)
        _ = self.side_table_layout
        return self

    @property
    def side_table_layout(self) -> TableLayout:
        """The layout of the tables of side outputs."""
        try:
            layout = TableLayout(
                partition_by=self.side_table_partition_by,
                cluster_by=self.side_table_cluster_by,
                properties=self.side_table_properties,
            )
            require_shared_columns(layout)
        except TidegateError as error:
            texts = (error.problem, error.detail, error.remedy)
            raise ConfigError(
                *(_LAYOUT_ARGUMENT.sub("output.side_table_", text) for text in texts)
            ) from None
        return layout

    def tables(self) -> dict[str, str]:
        """Return the path of each table by its key."""
        return {
            f"output.{key}": getattr(self, key)
            for key, field in type(self).model_fields.items()
            if IS_TABLE in field.metadata
        }


class MetricsSection(Section):
    """[metrics]: port and address of the Prometheus endpoint; off by default.

    The default address is the loopback interface; "0.0.0.0" listens on all interfaces.
    """

    port: int | None = Field(
        default=None,
        gt=0,
        lt=65_536,
        description="port of the Prometheus endpoint /metrics; without it there is no endpoint",
    )
    address: str = Field(
        default=LOOPBACK,
        description="address of the network interface; 0.0.0.0 accepts connections from other "
        "machines",
    )


class SparkSection(Section):
    """[spark]: settings of the job's session; those of spark-submit take precedence."""

    preset: Preset | None = Field(
        default=None, description="a group of settings: [Presets](../operate/deployment.md#presets)"
    )
    partitions: int | None = Field(
        default=None,
        ge=1,
        description="`spark.sql.shuffle.partitions`, which a checkpoint fixes at its first start; "
        "default: the number of cores",
    )


class TriggerSection(Section):
    """[trigger]: process all available records and stop, or run continuously."""

    kind: Literal["available-now", "continuous"] = Field(
        default="available-now",
        description="process all available records and stop, or run until stopped: "
        "[Triggers](../operate/run-and-stop.md#triggers)",
    )
    interval: NonNegativeDuration = Field(
        default="10 seconds", description="trigger interval of a continuous job"
    )
    backfill_threshold: int | None = Field(
        default=None,
        ge=0,
        description="[backfill](../operate/backfill.md) with a new checkpoint if more records than "
        "this are available; 0 always backfills",
    )

    @property
    def every(self) -> str | None:
        """The interval of a continuous job; None for a job that stops."""
        return self.interval if self.kind == "continuous" else None
