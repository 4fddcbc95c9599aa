"""Keep the states that a log of events gives, key by key, with snapshots: Kafka in, Delta out.

spark-submit jobs/accounts.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]

The fold says what each type of event makes of a key's state. The tables: the states, a snapshot of
each key's state after every so many events, the events themselves, and those that are not folded.
One more view of the same topic is this job with another name, root and fold; `trigger.backlog = 0`
lets it catch up in one batch.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tidegate.runtime import Job, command
from tidegate.runtime.config import Config, FoldSection, InputSection, OutputSection, Table, Wait
from tidegate.sinks import Append, FanOut, Folded, Mapped, Sink
from tidegate.transform import Stateless

PLACE = ("topic", "partition", "offset")


class EventsSection(InputSection):
    """[events]: the topics, and the events' columns. No event is late: their order is the log's."""

    lateness: Wait = "0 seconds"


class StatesSection(FoldSection):
    """[fold]: what the events make of a key's state, and what becomes of strange ones."""

    unknown: Literal["refuse", "set_aside", "ignore"] = "set_aside"
    every: int = Field(default=100, gt=0)


class Tables(OutputSection):
    """[output]: the states, their snapshots, all events, and the events that are not folded."""

    table: Table = "accounts"
    snapshots: Table = "account_snapshots"
    events: Table = "account_events"
    unknown: Table = "unknown_events"


class Accounts(Config, name="accounts"):
    """The job's configuration: conf/jobs/accounts.toml tells each key."""

    events: EventsSection
    fold: StatesSection
    output: Tables


def job(config: Accounts) -> Job:
    """Return the job of a configuration; an event that does not fit the fold is told at the start.

    The events' table is written last: what the fold refuses is in no table then.
    """
    events = config.as_input(config.events, keep=PLACE)
    unknown: Literal["refuse", "ignore"] = "refuse" if config.fold.unknown == "refuse" else "ignore"
    fold = config.fold.value(events.reading.place, unknown)
    output = config.output
    states = Folded(output.table, fold=fold, snapshots=output.snapshots, every=config.fold.every)
    also: list[Sink] = [states]
    if config.fold.unknown == "set_aside":
        also.append(Mapped(rows=fold.set_aside, sink=Append(output.unknown, step="unknown")))
    return config.as_job(
        inputs={"events": events},
        transform=Stateless(fold.checked, one_to_one=True),
        sink=FanOut(Append(output.events), also=also),
    )


if __name__ == "__main__":
    command(
        Accounts,
        job,
        about="Keep the states that a log of events gives, from Kafka to Delta.",
        result="events",
    )
