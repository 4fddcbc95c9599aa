"""Deduplicate a topic with redelivered events: Kafka to Delta."""

from __future__ import annotations

from pydantic import Field, model_validator

from ..config import Config, Duration, InputSection, Names, OutputSection, Section, Table
from ..durations import microseconds
from ..errors import ConfigError
from ..job.job import Job
from ..sinks import Append, AppendUnique, Sink
from ..sketches import BloomTable
from ..windows import Deduplication

DESCRIPTION = "Deduplicate a topic with redelivered events, from Kafka to Delta."

EVENT_TIME = "event_time"
LOG_POSITION = ("topic", "partition", "offset")


class DeduplicateSection(Section):
    """[deduplicate]: the key of an event, and how long the job remembers keys.

    Deduplication within `within` is exact. With `expected_items`, the planned number of distinct
    keys, a Bloom filter also detects all older keys; it reports a new key as a duplicate with the
    probability `fpp`.
    """

    key: Names
    within: Duration
    max_delay: Duration
    expected_items: int | None = Field(default=None, gt=0)
    fpp: float = Field(default=0.001, ge=1e-9, lt=1)
    refuse_at: float = Field(default=2.0, gt=1)

    @model_validator(mode="after")
    def _require_delay_within(self) -> DeduplicateSection:
        if microseconds(self.max_delay) > microseconds(self.within):
            raise ConfigError(
                f"invalid deduplicate.max_delay: {self.max_delay!r} is longer than within, "
                f"{self.within!r}",
                "max_delay of at most within",
            )
        return self


class Tables(OutputSection):
    """[output]: the events, late rows, older duplicates, and the Bloom filter."""

    table: Table = "events"
    late_rows: Table = "late_rows"
    duplicates: Table = "repeated"
    key_filter: Table = "seen"


class EventDeduplication(Config, name="deduplicated"):
    """The job's configuration; conf/jobs/deduplicated.toml documents each key."""

    events: InputSection
    deduplicate: DeduplicateSection
    output: Tables


def job(config: EventDeduplication) -> Job:
    """Return the job of a configuration."""
    events = config.as_input(config.events, kafka_columns=LOG_POSITION)
    fields = {name.lower() for name in events.format.schema.fieldNames()}
    log_position = [f"kafka_{name}" if name in fields else name for name in LOG_POSITION]
    section = config.deduplicate
    return config.as_job(
        inputs={"events": events},
        transform=Deduplication(
            section.key, section.within, max_delay=section.max_delay, order=log_position
        ),
        sink=sink(config, order=[EVENT_TIME, *log_position]),
        late_rows=config.output.late_rows,
    )


def sink(config: EventDeduplication, order: list[str]) -> Sink:
    """Return the sink: `AppendUnique` with `expected_items`, else `Append`."""
    section = config.deduplicate
    output = config.output
    if section.expected_items is None:
        return Append(output.table)
    return AppendUnique(
        output.table,
        duplicates=output.duplicates,
        filter_path=output.key_filter,
        keys_table=BloomTable(
            key=section.key, expected_items=section.expected_items, fpp=section.fpp
        ),
        order=order,
        max_fpp_factor=section.refuse_at,
    )
