"""Fold a log of events into states, key by key, with snapshots: Kafka to Delta.

The fold defines how each type of event changes a key's state. The job writes the states, a snapshot
of a key's state after every `fold.every` events, all events, and the events of unknown types.
Another view of the same topic is this job with another name, root and fold;
`trigger.backfill_threshold = 0` makes it start with a backfill.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..config import (
    Config,
    FoldSection,
    InputSection,
    NonNegativeDuration,
    OutputSection,
    Table,
)
from ..job.job import Job
from ..sinks import Append, FanOut, MapRows, Projection, Sink
from ..transform import Stateless

DESCRIPTION = "Fold a log of events into states, from Kafka to Delta."

LOG_POSITION = ("topic", "partition", "offset")


class EventsSection(InputSection):
    """[events]: the topics and columns of the events, ordered by offset and never late."""

    watermark_delay: NonNegativeDuration = "0 seconds"


class StatesSection(FoldSection):
    """[fold]: the fold, the treatment of unknown events, and the snapshot interval."""

    unknown: Literal["refuse", "set_aside", "ignore"] = "set_aside"
    every: int = Field(default=100, gt=0)


class Tables(OutputSection):
    """[output]: the states, their snapshots, all events, and the unknown events."""

    table: Table = "accounts"
    snapshots: Table = "account_snapshots"
    events: Table = "account_events"
    unknown_rows: Table = "unknown_events"


class Accounts(Config, name="accounts"):
    """The job's configuration; conf/jobs/accounts.toml documents each key."""

    events: EventsSection
    fold: StatesSection
    output: Tables


def job(config: Accounts) -> Job:
    """Return the job of a configuration; a fold that does not fit the events fails at the start.

    The job writes the table of events last, so that no table has an event that the fold rejects.
    """
    events = config.as_input(config.events, kafka_columns=LOG_POSITION)
    on_unknown: Literal["refuse", "ignore"] = (
        "refuse" if config.fold.unknown == "refuse" else "ignore"
    )
    fold = config.fold.to_fold(events.position_columns, on_unknown)
    output = config.output
    states = Projection(
        output.table, fold=fold, snapshots=output.snapshots, snapshot_every=config.fold.every
    )
    other_sinks: list[Sink] = [states]
    if config.fold.unknown == "set_aside":
        other_sinks.append(
            MapRows(rows=fold.unknown_events, sink=Append(output.unknown_rows, output="unknown"))
        )
    return config.as_job(
        inputs={"events": events},
        transform=Stateless(fold.validate, one_to_one=True),
        sink=FanOut(Append(output.events), other_sinks=other_sinks),
    )
