"""Take the duplicates out of a topic with redelivery: Kafka in, Delta out, each event once.

spark-submit jobs/deduplicated.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from tidegate.columns import microseconds
from tidegate.errors import ConfigError
from tidegate.runtime.cli import command
from tidegate.runtime.config.job_config import JobConfig
from tidegate.runtime.config.sections import (
    Duration,
    JobName,
    JobSection,
    Names,
    OutputSection,
    Section,
)
from tidegate.runtime.job import Job
from tidegate.sinks import Append, FirstSeen, Sink
from tidegate.sketches import BloomTable
from tidegate.windows import Deduplication

TIME = "event_time"
PLACE = ("topic", "partition", "offset")


class KeySection(Section):
    """[deduplicate]: what makes two events the same, and how far back that is known.

    Within `horizon` the answer is exact. With `keys`, the number of different keys planned for, a
    key that came in any earlier batch is set aside too, and a new one by mistake with the
    probability `false_positives`."""

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
    """[output]: as for every job, and two more tables: `repeated`, the rows set aside, and `seen`,
    the filter."""

    TABLES: ClassVar[tuple[str, ...]] = (*OutputSection.TABLES, "repeated", "seen")

    table: str = "events"
    repeated: str = "repeated"
    seen: str = "seen"
    checkpoint: str = "_checkpoints/deduplicated"
    sink: Literal["append"] = "append"


class NamedJob(JobSection):
    """[job]: the name, which is part of every commit and must stay the same over restarts."""

    name: JobName = "deduplicated"


class Deduplicated(JobConfig):
    """The job's configuration: conf/jobs/deduplicated.toml tells each key."""

    job: NamedJob = NamedJob()
    deduplicate: KeySection
    output: Tables = Tables()


def job(config: Deduplicated) -> Job:
    """Put the job together."""
    same = config.deduplicate
    events = config.only_input(keep=PLACE)
    fields = {name.lower() for name in events.reading.format.schema.fieldNames()}
    order = [f"kafka_{name}" if name in fields else name for name in PLACE]
    return config.planned(
        {"events": events},
        transform=Deduplication(same.key, same.horizon, hold=same.hold, order=order, time=TIME),
        sink=sink(same, config.output.tables(), [TIME, *order]),
    )


def sink(same: KeySection, places: dict[str, str], order: Sequence[str]) -> Sink:
    """Return the sink: one that remembers keys past the horizon, where it is told how many there
    will be."""
    if same.keys is None:
        return Append(path=places["output.table"])
    return FirstSeen(
        path=places["output.table"],
        repeated=places["output.repeated"],
        seen=places["output.seen"],
        known=BloomTable(key=same.key, keys=same.keys, false_positives=same.false_positives),
        order=order,
        refuse_at=same.refuse_at,
    )


if __name__ == "__main__":
    command(
        "deduplicated",
        Deduplicated,
        job,
        "Take the duplicates out of a topic with redelivery, from Kafka to Delta.",
        result="unlike all within the horizon",
    )
