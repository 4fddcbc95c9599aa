"""Decide commands in the order of their log, each once: Kafka in, Delta out.

spark-submit jobs/reservations.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]

As shipped a guest reserves a seat, which nobody else has, and gives it back. A command is checked
against the state that the events before it have made; it becomes an event, or is refused with its
reason. The tables: the states, the events, the refusals, all commands, and those that are not
decided. No two guests have one seat, however often the job dies or a command is sent.
"""

from __future__ import annotations

from tidegate.runtime import Job, command
from tidegate.runtime.config import (
    Config,
    DecideSection,
    FoldSection,
    InputSection,
    OutputSection,
    Table,
    Wait,
)
from tidegate.sinks import Append, Decided, FanOut, Mapped
from tidegate.transform import Stateless

PLACE = ("topic", "partition", "offset")


class CommandsSection(InputSection):
    """[commands]: the topics, and the commands' columns. None is late: their order is the log's."""

    lateness: Wait = "0 seconds"


class Tables(OutputSection):
    """[output]: the states, events and refusals, all commands, and those that are not decided."""

    table: Table = "seats"
    events: Table = "seat_events"
    refusals: Table = "refusals"
    commands: Table = "commands"
    unknown: Table = "unknown_commands"


class Reservations(Config, name="reservations"):
    """The job's configuration: conf/jobs/reservations.toml tells each key."""

    commands: CommandsSection
    fold: FoldSection
    decide: DecideSection
    output: Tables


def job(config: Reservations) -> Job:
    """Return the job of a configuration; rules that do not fit the commands are told at the start.

    The commands' table is written last: it has what is decided, or set aside.
    """
    commands = config.as_input(config.commands, keep=PLACE)
    fold = config.fold.value(PLACE, "refuse")
    rules = config.decide.value(fold, commands.reading.place)
    output = config.output
    seats = Decided(output.table, commands=rules, events=output.events, refusals=output.refusals)
    strange = Mapped(rows=rules.set_aside, sink=Append(output.unknown, step="unknown"))
    return config.as_job(
        inputs={"commands": commands},
        transform=Stateless(rules.checked, one_to_one=True),
        sink=FanOut(Append(output.commands), also=[seats, strange]),
    )


if __name__ == "__main__":
    command(
        Reservations,
        job,
        about="Decide commands in the order of their log, from Kafka to Delta.",
        result="commands",
    )
