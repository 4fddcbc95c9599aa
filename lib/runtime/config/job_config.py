"""What every job's configuration has, and the job that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pyspark.sql import Column, DataFrame

from ...formats import Format, json_format
from ...sinks import Sink
from ...sources import Reading
from ...transform import Transform
from ..job import Input, Job, Limits
from .sections import (
    BrokerSection,
    InputSection,
    JobSection,
    KafkaSection,
    LimitsSection,
    MetricsSection,
    OutputSection,
    Section,
    TablesSection,
    TimesSection,
    TopicSection,
    TopicsSection,
    TriggerSection,
)


class Config(Section):
    """The sections of every job; a job's own model adds one for each of its inputs, and narrows
    these to its needs."""

    job: JobSection
    kafka: BrokerSection = BrokerSection()
    output: TablesSection
    limits: LimitsSection = LimitsSection()
    trigger: TriggerSection = TriggerSection()
    metrics: MetricsSection = MetricsSection()

    def reading(
        self,
        topics: TopicsSection,
        times: TimesSection,
        format: Format,
        *,
        time: str | Column | None = None,
        keep: Sequence[str] = (),
    ) -> Reading:
        """Return the reading of some topics in a format; `time` is an expression in place of the
        section's column."""
        return Reading(
            source=topics.source(self.kafka),
            format=format,
            time=times.time if time is None else time,
            lateness=times.lateness,
            future_tolerance=times.future_tolerance,
            future=times.future,
            value_cap=times.value_cap,
            keep=keep,
        )

    def kept(self, reading: Reading, times: TimesSection) -> Input:
        """Return the input of a reading."""
        return Input(reading, watermarks=times.watermarks, idle=times.idle)

    def named_input(
        self,
        section: TopicSection,
        *,
        keep: Sequence[str] = (),
    ) -> Input:
        """Return one of several inputs, of JSON."""
        reading = self.reading(section, section, json_format(section.event_schema), keep=keep)
        return self.kept(reading, section)

    def planned(
        self,
        inputs: Mapping[str, Input],
        *,
        sink: Sink,
        transform: Transform | None = None,
        each_batch: Callable[..., DataFrame] | None = None,
        emission: Literal["final", "updates"] = "final",
        corrections: str | None = None,
    ) -> Job:
        """Put the job together; late rows go to the tables output.late or output.late_<input>."""
        tables = self.output.tables()
        steps = {name: f"late_{name}" if len(inputs) > 1 else "late" for name in inputs}
        late = {
            name: tables[f"output.{step}"]
            for name, step in steps.items()
            if f"output.{step}" in tables
        }
        return Job(
            name=self.job.name,
            inputs=inputs,
            transform=transform,
            each_batch=each_batch,
            sink=sink,
            checkpoint=self.output.place(self.output.checkpoint),
            dead=tables["output.dead_letters"],
            late=late,
            emission=emission,
            corrections=corrections,
            limits=Limits(**self.limits.model_dump()),
            metrics_port=self.metrics.port,
            every=self.trigger.interval if self.trigger.kind == "continuous" else None,
        )


class JobConfig(Config):
    """The sections of a job with one input, of JSON."""

    job: JobSection = JobSection()
    kafka: KafkaSection
    input: InputSection
    output: OutputSection = OutputSection()

    def only_input(self, *, keep: Sequence[str] = ()) -> Input:
        """Return the input that [kafka] and [input] describe."""
        reading = self.reading(
            self.kafka, self.input, json_format(self.input.event_schema), keep=keep
        )
        return self.kept(reading, self.input)
