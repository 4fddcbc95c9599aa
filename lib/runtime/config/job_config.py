"""What every job's configuration has, and the job that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame

from ...formats import Format, json_format
from ...sinks import SideTable, Sink
from ...sources import Reading
from ..job import Corrections, Input, Job, Limits
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

    def kept(
        self,
        reading: Reading,
        times: TimesSection,
        closes: Column | None = None,
        late: str = "late",
    ) -> Input:
        """Return the input of a reading; late rows, where it can have some, go to the table of that
        key in [output]."""
        table = (
            None
            if closes is None
            else SideTable(path=self.output.tables()[f"output.{late}"], step=late)
        )
        return Input(
            reading=reading, closes=closes, late=table, watermarks=times.watermarks, idle=times.idle
        )

    def named_input(
        self,
        name: str,
        section: TopicSection,
        *,
        closes: Column | None = None,
        keep: Sequence[str] = (),
    ) -> Input:
        """Return one of several inputs, of JSON; its late rows go to the table
        output.late_<name>."""
        reading = self.reading(section, section, json_format(section.event_schema), keep=keep)
        return self.kept(reading, section, closes, f"late_{name}")

    def planned(
        self,
        inputs: Sequence[Input],
        *,
        transform: Callable[..., DataFrame],
        sink: Sink,
        stateless: bool = False,
        corrections: Corrections | None = None,
    ) -> Job:
        """Put the job together."""
        return Job(
            name=self.job.name,
            inputs=inputs,
            transform=transform,
            sink=sink,
            checkpoint=self.output.place(self.output.checkpoint),
            dead=SideTable(path=self.output.tables()["output.dead_letters"], step="dead"),
            stateless=stateless,
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

    def only_input(self, *, closes: Column | None = None, keep: Sequence[str] = ()) -> Input:
        """Return the input that [kafka] and [input] describe; its late rows go to the table
        output.late."""
        reading = self.reading(
            self.kafka, self.input, json_format(self.input.event_schema), keep=keep
        )
        return self.kept(reading, self.input, closes, "late")
