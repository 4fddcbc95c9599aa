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

from tidegate.changes import Fold
from tidegate.errors import ConfigError, TidegateError
from tidegate.runtime import Job, command
from tidegate.runtime.config import Config, InputSection, Names, OutputSection, Section, Table, Wait
from tidegate.sinks import Append, FanOut, Folded, Mapped, Sink
from tidegate.transform import Stateless

PLACE = ("topic", "partition", "offset")


class EventsSection(InputSection):
    """[events]: the topics, and the events' columns. No event is late: their order is the log's."""

    lateness: Wait = "0 seconds"


class FoldSection(Section):
    """[fold]: the key, the types of the state, its first values, and what each event does to it."""

    key: Names
    kind: str = "type"
    state: dict[str, str]
    initial: dict[str, bool | int | float | str] = Field(default={})
    on: dict[str, dict[str, str]]
    unknown: Literal["refuse", "set_aside", "ignore"] = "set_aside"
    every: int = Field(default=100, gt=0)

    def value(self, place: list[str]) -> Fold:
        """Return the fold; a column of the state without a first value begins as null.

        Raises ConfigError.
        """
        strange = sorted(set(self.initial) - set(self.state))
        if strange:
            raise ConfigError(
                f"fold.initial names {', '.join(strange)}.",
                f"columns of [fold.state]: {', '.join(self.state)}.",
            )
        initial = {name: (self.initial.get(name), kind) for name, kind in self.state.items()}
        unknown: Literal["refuse", "ignore"] = "refuse" if self.unknown == "refuse" else "ignore"
        try:
            return Fold(
                key=self.key,
                kind=self.kind,
                initial=initial,
                on=self.on,
                unknown=unknown,
                place=place,
            )
        except TidegateError as error:
            raise ConfigError(f"[fold] {error.given}", error.allowed, error.hint) from error


class Tables(OutputSection):
    """[output]: the states, their snapshots, all events, and the events that are not folded."""

    table: Table = "accounts"
    snapshots: Table = "account_snapshots"
    events: Table = "account_events"
    unknown: Table = "unknown_events"


class Accounts(Config, name="accounts"):
    """The job's configuration: conf/jobs/accounts.toml tells each key."""

    events: EventsSection
    fold: FoldSection
    output: Tables


def job(config: Accounts) -> Job:
    """Return the job of a configuration; an event that does not fit the fold is told at the start.

    The events' table is written last: what the fold refuses is in no table then.
    """
    events = config.as_input(config.events, keep=PLACE)
    fold = config.fold.value(events.reading.place)
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
