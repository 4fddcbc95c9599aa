"""Raise an alarm where a window differs from its past: Kafka in, Delta out, each alarm once.

spark-submit jobs/alarms.py [--config PATH] [--set section.key=value]... [--show-config] [--verbose]

Tumbling windows of a topic's columns are kept in one table, and compared with the same window of
the last weeks. Another table is the log of alarms, each with its evidence; late events correct
windows, and withdraw alarms.
"""

from __future__ import annotations

from datetime import date

from pydantic import Field, model_validator

from tidegate.errors import ConfigError, TidegateError
from tidegate.patterns import Deviation, Deviations, Past
from tidegate.patterns.comparison.deviation import Baseline, Direction
from tidegate.runtime import Job, command
from tidegate.runtime.config import Config, Duration, InputSection, OutputSection, Section, Table
from tidegate.runtime.config.aggregate_text import Aggregates, aggregates_of
from tidegate.runtime.config.secrets import require_reference, resolved
from tidegate.runtime.config.values import Moment, Span
from tidegate.runtime.config.window_sections import TumblingSection
from tidegate.sinks import Alarms, Corrected, Webhook
from tidegate.windows import Windowed


class RuleSection(Section):
    """[rule]: what windows are compared with, and what is an alarm; all limits must be reached."""

    name: str = "unusual"
    value: str = Field(description="the aggregate that is compared")
    count: int = 4
    every: Span | None = "1 week"
    zone: str | None = None
    skip: list[date] = Field(default=[])
    zero_from: Moment | None = None
    baseline: Baseline = "median"
    direction: Direction = "either"
    absolute: float | None = None
    ratio: float | None = None
    robust_z: float | None = None
    at_least: int | None = None
    per: Duration | None = None

    def value_of(self) -> Deviation:
        """Return the rule."""
        past = Past(self.count, every=self.every, skip=self.skip, zero_from=self.zero_from)
        return Deviation(
            self.value,
            past,
            baseline=self.baseline,
            direction=self.direction,
            absolute=self.absolute,
            ratio=self.ratio,
            robust_z=self.robust_z,
            at_least=self.at_least,
            per=self.per,
        )


class Tables(OutputSection):
    """[output]: `table` is the log of alarms; beside it windows, late rows, and what was told."""

    table: Table = "alarms"
    windows: Table = "windows"
    late: Table = "late_rows"
    told: Table = "told"


class WebhookSection(Section):
    """[webhook]: where alarms are posted as they come and go, each at least once, with an id."""

    url: str = Field(description="the address; `env:NAME` or `file:PATH` where it holds a secret")
    headers: dict[str, str] = Field(
        default={}, description="each value is `env:NAME` or `file:PATH`, such as Authorization's"
    )
    where: str | None = Field(default=None, description="a condition on the alarms, in SQL")

    @model_validator(mode="after")
    def _referred(self) -> WebhookSection:
        for name, value in self.headers.items():
            require_reference(f"webhook.headers.{name}", value, "here", always=True)
        return self


class AlarmsConfig(Config, name="alarms"):
    """The job's configuration: conf/jobs/alarms.toml tells each key."""

    input: InputSection
    window: TumblingSection
    aggregates: Aggregates
    rule: RuleSection
    webhook: WebhookSection | None = None
    output: Tables

    @model_validator(mode="after")
    def _compares(self) -> AlarmsConfig:
        try:
            self.deviations()
        except TidegateError as error:
            raise ConfigError(f"[rule]: {error.given}", error.allowed, error.hint) from None
        if self.rule.value not in self.aggregates:
            raise ConfigError(
                f"rule.value is {self.rule.value!r}.",
                f"a column of [aggregates]: {', '.join(self.aggregates)}.",
            )
        return self

    def told(self) -> Webhook | None:
        """Return what posts the alarms, where they are posted."""
        if self.webhook is None:
            return None
        given = self.webhook
        headers = resolved(given.headers, "webhook.headers")
        url = resolved({"url": given.url}, "webhook")["url"]
        return Webhook(self.output.told, url=url, headers=headers, where=given.where)

    def deviations(self) -> Deviations:
        """Return the rule for the windows that the job makes."""
        return Deviations(
            self.window.size,
            by=self.window.by,
            rules={self.rule.name: self.rule.value_of()},
            zone=self.rule.zone,
        )


def job(config: AlarmsConfig) -> Job:
    """Return the job of a configuration."""
    window = config.window
    output = config.output
    given = config.as_input(config.input)
    fields = given.reading.format.schema.fieldNames()
    windowed = Windowed(
        window.value(),
        by=window.by,
        aggs=aggregates_of(config.aggregates, fields),
        where=window.where,
    )
    alarms = Alarms(
        output.table,
        windows=Corrected(output.windows, windowed=windowed, log=None),
        deviations=config.deviations(),
        told=config.told(),
    )
    return config.as_job(
        inputs={"input": given},
        transform=windowed,
        sink=alarms,
        emission=window.emission,
        corrections=window.corrections,
        late=output.late,
    )


if __name__ == "__main__":
    command(
        AlarmsConfig,
        job,
        about="Raise an alarm where a window differs from its past, from Kafka to Delta.",
        result="windows",
    )
