"""Take the duplicates out of a topic with redelivery: Kafka in, Delta out, each event once.

spark-submit jobs/deduplicated.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from pydantic import Field, model_validator

from tidegate.durations import microseconds
from tidegate.errors import ConfigError
from tidegate.runtime import Job, command
from tidegate.runtime.config import (
    Config,
    Duration,
    InputSection,
    Names,
    OutputSection,
    Section,
    Table,
)
from tidegate.sinks import Append, FirstSeen, Sink
from tidegate.sketches import BloomTable
from tidegate.windows import Deduplication

TIME = "event_time"
PLACE = ("topic", "partition", "offset")


class KeySection(Section):
    """[deduplicate]: what makes two events the same, and how far back that is known.

    Within `horizon` the answer is exact. With `keys`, the number of different keys planned for, a
    key that came in any earlier batch is set aside too, and a new one by mistake with the
    probability `false_positives`.
    """

    key: Names
    horizon: Duration
    hold: Duration
    keys: int | None = Field(default=None, gt=0)
    false_positives: float = Field(default=0.001, ge=1e-9, lt=1)
    refuse_at: float = Field(default=2.0, gt=1)

    @model_validator(mode="after")
    def _held(self) -> KeySection:
        if microseconds(self.hold) > microseconds(self.horizon):
            raise ConfigError(
                f"deduplicate.hold is {self.hold!r}, longer than deduplicate.horizon, "
                f"{self.horizon!r}.",
                "a hold as long as the horizon, or shorter.",
            )
        return self


class Tables(OutputSection):
    """[output]: the events, late rows, rows set aside (`repeated`), the filter (`seen`)."""

    table: Table = "events"
    late: Table = "late_rows"
    repeated: Table = "repeated"
    seen: Table = "seen"


class Deduplicated(Config, name="deduplicated"):
    """The job's configuration: conf/jobs/deduplicated.toml tells each key."""

    events: InputSection
    deduplicate: KeySection
    output: Tables


def job(config: Deduplicated) -> Job:
    """Return the job of a configuration."""
    events = config.as_input(config.events, keep=PLACE)
    fields = {name.lower() for name in events.reading.format.schema.fieldNames()}
    place = [f"kafka_{name}" if name in fields else name for name in PLACE]
    same = config.deduplicate
    return config.as_job(
        inputs={"events": events},
        transform=Deduplication(same.key, same.horizon, hold=same.hold, order=place),
        sink=sink(config, order=[TIME, *place]),
        late=config.output.late,
    )


def sink(config: Deduplicated, order: list[str]) -> Sink:
    """Return the sink: one that remembers keys past the horizon, where it knows their number."""
    same = config.deduplicate
    output = config.output
    if same.keys is None:
        return Append(output.table)
    return FirstSeen(
        output.table,
        repeated=output.repeated,
        seen=output.seen,
        known=BloomTable(key=same.key, keys=same.keys, false_positives=same.false_positives),
        order=order,
        refuse_at=same.refuse_at,
    )


if __name__ == "__main__":
    command(
        Deduplicated,
        job,
        about="Take the duplicates out of a topic with redelivery, from Kafka to Delta.",
        result="unlike all within the horizon",
    )
