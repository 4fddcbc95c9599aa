"""What every job's configuration has, and the job that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import model_validator
from pyspark.sql import DataFrame

from ...errors import ArgumentError, ColumnError, ColumnTypeError, ConfigError
from ...formats import Format
from ...sinks import DeadTopic, Sink
from ...transform import Transform
from ..job import Emission, Input, Job
from ..limits import Limits
from ..upkeep import Upkeep
from .base import Section
from .format_sections import RegistrySection
from .input_sections import InputSection
from .secrets import resolved
from .sections import (
    BrokerSection,
    JobSection,
    LimitsSection,
    MetricsSection,
    OutputSection,
    SparkSection,
    TriggerSection,
    UpkeepSection,
)


class Config(Section):
    """The sections of every job; a job's own model adds its inputs and its tables.

    The job's name is said once, with the class: it is the default of job.name, of the checkpoint's
    folder, and of output.table where the class of [output] has no other. It names the file of the
    configuration: <name>.toml beside the job, or conf/jobs/<name>.toml of this project.

    >>> class Visits(Config, name="visits"):
    ...     clicks: InputSection
    >>> clicks = {"topics": "clicks", "schema": "event_time timestamp", "lateness": "5m"}
    >>> config = Visits.model_validate({"clicks": clicks, "output": {"root": "s3a://lake"}})
    >>> config.job.name, config.output.table, config.output.checkpoint
    ('visits', 's3a://lake/visits', 's3a://lake/_checkpoints/visits')
    """

    name: ClassVar[str] = ""

    job: JobSection
    kafka: BrokerSection = BrokerSection()
    registry: RegistrySection | None = None
    output: OutputSection
    limits: LimitsSection = LimitsSection()
    upkeep: UpkeepSection = UpkeepSection()
    trigger: TriggerSection = TriggerSection()
    metrics: MetricsSection = MetricsSection()
    spark: SparkSection = SparkSection()

    def __init_subclass__(cls, *, name: str = "", **settings: Any) -> None:
        """Take the job's name from the class statement."""
        super().__init_subclass__(**settings)
        cls.name = name or cls.name

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        output = {"checkpoint": f"_checkpoints/{cls.name}"}
        if cls.name and cls._table_follows():
            output["table"] = cls.name
        follows = {"job": {"name": cls.name}, "output": output}
        return {**given, **{key: _filled(given.get(key, {}), own) for key, own in follows.items()}}

    @classmethod
    def _table_follows(cls) -> bool:
        section = cls.model_fields["output"].annotation
        fields = section.model_fields if isinstance(section, type) else {}
        return "table" in fields and fields["table"].is_required()

    @model_validator(mode="after")
    def _clocked(self) -> Config:
        for key, section in self:
            if isinstance(section, InputSection) and section.idle and not self.trigger.every:
                raise ConfigError(
                    f"{key}.idle is {section.idle!r}, and trigger.kind is {self.trigger.kind!r}: "
                    "a job that ends when it has read what there is has no clock.",
                    "an idle time-out for a job that runs on.",
                    "--set trigger.kind=continuous",
                )
        return self

    def as_input(
        self, section: InputSection, *, format: Format | None = None, keep: Sequence[str] = ()
    ) -> Input:
        """Return the input that a section describes.

        format: that of the section, where no other is given, which has the event time as
            `event_time`.
        keep: the columns of Kafka that the rows carry, as a `Reading` has them.

        Raises ConfigError, with the section's name, where topic, schema and time do not fit.
        """
        try:
            return section.input(self.kafka, self.registry, format=format, keep=keep)
        except (ArgumentError, ColumnError, ColumnTypeError) as error:
            named = next((f"[{key}] " for key, one in self if one is section), "")
            raise ConfigError(f"{named}{error.given}", error.allowed, error.hint) from error

    def as_job(
        self,
        *,
        inputs: Mapping[str, Input],
        sink: Sink,
        transform: Transform | None = None,
        each_batch: Callable[..., DataFrame] | None = None,
        emission: Emission = "final",
        corrections: str | None = None,
        late: str | Mapping[str, str] | None = None,
    ) -> Job:
        """Return the job of these parts, with what the shared sections say of it."""
        return Job(
            name=self.job.name,
            inputs=inputs,
            sink=sink,
            transform=transform,
            each_batch=each_batch,
            emission=emission,
            corrections=corrections,
            checkpoint=self.output.checkpoint,
            dead=self.output.dead_letters,
            dead_topic=self._dead_topic(),
            side_layout=self.output.side_layout,
            late=late,
            gaps=self.output.gaps,
            catalog=self.output.catalog,
            limits=Limits(**self.limits.model_dump()),
            upkeep=Upkeep(**self.upkeep.model_dump()),
            every=self.trigger.every,
            backlog=self.trigger.backlog,
            metrics_port=self.metrics.port,
            metrics_address=self.metrics.address,
        )

    def _dead_topic(self) -> DeadTopic | None:
        """Return the topic of dead letters, written as the inputs are read."""
        topic = self.output.dead_letters_topic
        if topic is None:
            return None
        clients = {
            key: value
            for key, value in resolved(self.kafka.options).items()
            if key.lower().startswith("kafka.")
        }
        try:
            return DeadTopic(self.kafka.servers, topic=topic, options=clients)
        except (ArgumentError, ColumnTypeError) as error:
            raise ConfigError(
                f"output.dead_letters_topic is {topic!r}: {error.given}", error.allowed, error.hint
            ) from error


def _filled(given: Any, own: Mapping[str, Any]) -> Any:
    """Return a section with its own values where none are given; what is no section stays."""
    return {**own, **given} if isinstance(given, Mapping) else given
