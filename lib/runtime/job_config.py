"""What every job's configuration has, and the job that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame

from ..sinks import Rejected, Sink
from ..sources import KafkaSource, Reading, json_format
from .job import Job, Limits
from .secrets import resolved
from .sections import InputSection, JobSection, KafkaSection, LimitsSection, OutputSection, Section, TriggerSection


class JobConfig(Section):
    """The sections of every job; a job's own model adds its own, and narrows these where it must."""

    job: JobSection = JobSection()
    kafka: KafkaSection
    input: InputSection
    output: OutputSection = OutputSection()
    limits: LimitsSection = LimitsSection()
    trigger: TriggerSection = TriggerSection()

    def reading(self, *, keep: Sequence[str] = ()) -> Reading:
        """Give the reading that [kafka] and [input] describe, with secrets read from where they are kept."""
        return Reading(
            source=KafkaSource(**self.kafka.model_dump(exclude={"options"}), options=resolved(self.kafka.options)),
            format=json_format(self.input.event_schema),
            time=self.input.time,
            lateness=self.input.lateness,
            future_tolerance=self.input.future_tolerance,
            value_cap=self.input.value_cap,
            keep=keep,
        )

    def planned(
        self,
        *,
        transform: Callable[[DataFrame], DataFrame],
        sink: Sink,
        closes: Column | None,
        reading: Reading | None = None,
        stateless: bool = False,
    ) -> Job:
        """Put the job together; a job in which no row can be late has closes=None."""
        tables = self.output.tables()
        return Job(
            name=self.job.name,
            reading=reading or self.reading(),
            transform=transform,
            sink=sink,
            checkpoint=self.output.place(self.output.checkpoint),
            dead=Rejected(path=tables["output.dead_letters"], step="dead"),
            late=Rejected(path=tables["output.late"], step="late"),
            closes=closes,
            stateless=stateless,
            limits=Limits(**self.limits.model_dump()),
            every=self.trigger.interval if self.trigger.kind == "continuous" else None,
        )
