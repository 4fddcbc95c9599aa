"""The base class of job configurations, and the job that it builds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import model_validator
from pyspark.sql import DataFrame

from ..errors import ArgumentError, ColumnError, ColumnTypeError, ConfigError
from ..formats import Format
from ..job.job import EmitMode, Job
from ..job.policies import Limits, Maintenance
from ..secrets import resolve_secrets
from ..sinks import DeadLetterTopic, Sink
from ..sources import Input
from ..transform import Transform
from .config_types import Section
from .input_sections import InputSection, RegistrySection
from .sections import (
    BrokerSection,
    JobSection,
    MetricsSection,
    OutputSection,
    SparkSection,
    TriggerSection,
)


class Config(Section):
    """Base class of job configurations; a subclass adds the job's inputs and tables.

    The class statement names the job. The name is the default of `job.name`, of the checkpoint's
    folder, and of `output.table` unless the class of [output] has its own default. It also names
    the configuration file: <name>.toml next to the program, or conf/jobs/<name>.toml.

    >>> class Visits(Config, name="visits"):
    ...     clicks: InputSection
    >>> clicks = {"topics": "clicks", "schema": "event_time timestamp", "watermark_delay": "5m"}
    >>> config = Visits.model_validate({"clicks": clicks, "output": {"root": "s3a://lake"}})
    >>> config.job.name, config.output.table, config.output.checkpoint
    ('visits', 's3a://lake/visits', 's3a://lake/_checkpoints/visits')
    """

    name: ClassVar[str] = ""

    job: JobSection
    kafka: BrokerSection = BrokerSection()
    registry: RegistrySection | None = None
    output: OutputSection
    limits: Limits = Limits()
    maintenance: Maintenance = Maintenance()
    trigger: TriggerSection = TriggerSection()
    metrics: MetricsSection = MetricsSection()
    spark: SparkSection = SparkSection()

    def __init_subclass__(cls, *, name: str = "", **settings: Any) -> None:
        """Set the job's name from the class statement."""
        super().__init_subclass__(**settings)
        cls.name = name or cls.name

    @model_validator(mode="before")
    @classmethod
    def _fill_names(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        output_defaults = {"checkpoint": f"_checkpoints/{cls.name}"}
        output_section = cls.model_fields["output"].annotation
        fields = output_section.model_fields if isinstance(output_section, type) else {}
        if cls.name and "table" in fields and fields["table"].is_required():
            output_defaults["table"] = cls.name
        filled = dict(values)
        for key, defaults in (("job", {"name": cls.name}), ("output", output_defaults)):
            section = values.get(key, {})
            if isinstance(section, Mapping):
                filled[key] = {**defaults, **section}
        return filled

    @model_validator(mode="after")
    def _require_clock(self) -> Config:
        for key, section in self:
            if (
                isinstance(section, InputSection)
                and section.idle_timeout
                and not self.trigger.every
            ):
                raise ConfigError(
                    f"invalid {key}.idle_timeout: {section.idle_timeout!r} with "
                    f"trigger.kind = {self.trigger.kind!r}",
                    "an idle timeout only for a continuous job",
                    "--set trigger.kind=continuous",
                )
        return self

    def as_input(
        self,
        section: InputSection,
        *,
        format: Format | None = None,
        kafka_columns: Sequence[str] = (),
        where: str | None = None,
    ) -> Input:
        """Return the input of a section.

        format: replaces the section's format; its event time is the column `event_time`.
        kafka_columns: Kafka columns to add to the rows; see `Input`.
        where: the condition on the rows of a section without the key `where`.

        Raises ConfigError, with the section's name, if topics, schema and time do not fit.
        """
        try:
            job_input = section.to_input(
                self.kafka, self.registry, format=format, kafka_columns=kafka_columns
            )
            return job_input if where is None else replace(job_input, where=where)
        except (ArgumentError, ColumnError, ColumnTypeError) as error:
            prefix = next((f"[{key}] " for key, one in self if one is section), "")
            raise ConfigError(f"{prefix}{error.problem}", error.detail, error.remedy) from error

    def as_job(
        self,
        *,
        inputs: Mapping[str, Input],
        sink: Sink,
        transform: Transform | None = None,
        each_batch: Callable[..., DataFrame] | None = None,
        emit: EmitMode = "final",
        allowed_lateness: str | None = None,
        late_rows: str | Mapping[str, str] | None = None,
    ) -> Job:
        """Return the job of these parts and the shared sections; see `Job` for the arguments."""
        return Job(
            name=self.job.name,
            inputs=inputs,
            sink=sink,
            transform=transform,
            each_batch=each_batch,
            emit=emit,
            allowed_lateness=allowed_lateness,
            checkpoint=self.output.checkpoint,
            dead_letters=self.output.dead_letters,
            dead_letter_topic=self._dead_letter_topic(),
            side_table_layout=self.output.side_table_layout,
            late_rows=late_rows,
            offset_gaps=self.output.offset_gaps,
            catalog=self.output.catalog,
            limits=self.limits,
            maintenance=self.maintenance,
            every=self.trigger.every,
            backfill_threshold=self.trigger.backfill_threshold,
            revision=self.job.revision,
            metrics_port=self.metrics.port,
            metrics_address=self.metrics.address,
        )

    def _dead_letter_topic(self) -> DeadLetterTopic | None:
        """Return the dead-letter topic, with the Kafka client options of the inputs."""
        topic = self.output.dead_letter_topic
        if topic is None:
            return None
        client_options = {
            key: value
            for key, value in resolve_secrets(self.kafka.options).items()
            if key.lower().startswith("kafka.")
        }
        try:
            return DeadLetterTopic(
                self.kafka.bootstrap_servers, topic=topic, options=client_options
            )
        except (ArgumentError, ColumnTypeError) as error:
            raise ConfigError(
                f"invalid output.dead_letter_topic: {topic!r}; {error.problem}",
                error.detail,
                error.remedy,
            ) from error
