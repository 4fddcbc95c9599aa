"""Raise an alarm if a window deviates from past windows, each alarm once: Kafka to Delta.

The job stores tumbling windows of a topic in one table, and compares each window with the same
window of past weeks. A second table is the log of alarms with their evidence. Late events correct
windows, and can withdraw alarms.
"""

from __future__ import annotations

from datetime import date

from pydantic import Field, model_validator

from ..config import (
    Config,
    Duration,
    InputSection,
    OutputSection,
    Section,
    Table,
    config_errors,
)
from ..config.aggregate_text import Aggregates, parse_aggregates
from ..config.config_types import CalendarDuration, ZonedDatetime
from ..config.window_sections import TumblingSection
from ..errors import ConfigError
from ..job.job import Job
from ..patterns import DeviationDetection, DeviationRule, PastWindows
from ..patterns.deviation.deviation_rule import Baseline, Direction
from ..secrets import require_reference, resolve_secrets
from ..sinks import Alarms, CorrectedWindows, Webhook
from ..windows import WindowAggregation

DESCRIPTION = "Raise an alarm if a window deviates from past windows, from Kafka to Delta."


class RuleSection(Section):
    """[rule]: the past windows to compare with, and the limits; an alarm exceeds all limits."""

    name: str = "unusual"
    value: str = Field(description="the aggregate to compare")
    count: int = 4
    every: CalendarDuration | None = "1 week"
    zone: str | None = None
    skip: list[date] = Field(default=[])
    zero_from: ZonedDatetime | None = None
    baseline: Baseline = "median"
    direction: Direction = "either"
    absolute: float | None = None
    ratio: float | None = None
    robust_z: float | None = None
    at_least: int | None = None
    per: Duration | None = None

    def to_rule(self) -> DeviationRule:
        """Return the rule."""
        past_windows = PastWindows(
            self.count, every=self.every, skip=self.skip, zero_from=self.zero_from
        )
        return DeviationRule(
            self.value,
            past_windows,
            baseline=self.baseline,
            direction=self.direction,
            absolute=self.absolute,
            ratio=self.ratio,
            robust_z=self.robust_z,
            min_samples=self.at_least,
            per=self.per,
        )


class Tables(OutputSection):
    """[output]: the log of alarms (`table`), the windows, late rows, and the posted batches."""

    table: Table = "alarms"
    windows: Table = "windows"
    late_rows: Table = "late_rows"
    webhook_batches: Table = "webhook_batches"


class WebhookSection(Section):
    """[webhook]: a URL that receives raised and withdrawn alarms, at least once, with ids."""

    url: str = Field(description="the URL; `env:NAME` or `file:PATH` if it contains a secret")
    headers: dict[str, str] = Field(
        default={},
        description="HTTP headers; each value is `env:NAME` or `file:PATH`",
    )
    where: str | None = Field(default=None, description="SQL condition on the alarms")

    @model_validator(mode="after")
    def _require_secret_references(self) -> WebhookSection:
        for name, value in self.headers.items():
            require_reference(f"webhook.headers.{name}", value, "here", always=True)
        return self


class AlarmsConfig(Config, name="alarms"):
    """The job's configuration; conf/jobs/alarms.toml documents each key."""

    input: InputSection
    window: TumblingSection
    aggregates: Aggregates
    rule: RuleSection
    webhook: WebhookSection | None = None
    output: Tables

    @model_validator(mode="after")
    def _validate_rule(self) -> AlarmsConfig:
        with config_errors("rule"):
            self.deviation_detection()
        if self.rule.value not in self.aggregates:
            raise ConfigError(
                f"invalid rule.value: {self.rule.value!r}",
                f"a column of [aggregates]: {', '.join(self.aggregates)}",
            )
        return self

    def webhook_sink(self) -> Webhook | None:
        """Return the webhook, or None without [webhook]."""
        if self.webhook is None:
            return None
        section = self.webhook
        headers = resolve_secrets(section.headers, "webhook.headers")
        url = resolve_secrets({"url": section.url}, "webhook")["url"]
        return Webhook(self.output.webhook_batches, url=url, headers=headers, where=section.where)

    def deviation_detection(self) -> DeviationDetection:
        """Return the detection of deviations in the job's windows."""
        return DeviationDetection(
            self.window.size,
            by=self.window.by,
            rules={self.rule.name: self.rule.to_rule()},
            zone=self.rule.zone,
        )


def job(config: AlarmsConfig) -> Job:
    """Return the job of a configuration."""
    window = config.window
    output = config.output
    input_stream = config.as_input(config.input, where=window.where)
    fields = input_stream.format.schema.fieldNames()
    aggregation = WindowAggregation(
        window.to_window(),
        by=window.by,
        aggs=parse_aggregates(config.aggregates, fields),
    )
    alarms = Alarms(
        output.table,
        windows=CorrectedWindows(output.windows, aggregation=aggregation, log=None),
        deviations=config.deviation_detection(),
        notify=config.webhook_sink(),
    )
    return config.as_job(
        inputs={"input": input_stream},
        transform=aggregation,
        sink=alarms,
        emit=window.emit,
        allowed_lateness=window.allowed_lateness,
        late_rows=output.late_rows,
    )
