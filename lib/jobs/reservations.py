"""Handle commands in log order, each once: Kafka to Delta.

In the shipped configuration a guest reserves and releases a seat. The job checks a command against
the state after all previous events; the command becomes an event, or is rejected with a reason. The
job writes the states, the events, the rejections, all commands, and the commands of unknown types.
A seat never has two guests, even if the job crashes or a command is sent twice.
"""

from __future__ import annotations

from ..config import (
    Config,
    DecideSection,
    FoldSection,
    InputSection,
    NonNegativeDuration,
    OutputSection,
    Table,
)
from ..job.job import Job
from ..sinks import Append, CommandHandler, FanOut, MapRows
from ..transform import Stateless

DESCRIPTION = "Handle commands in log order, from Kafka to Delta."

LOG_POSITION = ("topic", "partition", "offset")


class CommandsSection(InputSection):
    """[commands]: the topics and columns of the commands, ordered by offset and never late."""

    watermark_delay: NonNegativeDuration = "0 seconds"


class Tables(OutputSection):
    """[output]: the states, events, rejections, all commands, and the unknown commands."""

    table: Table = "seats"
    events: Table = "seat_events"
    refusals: Table = "refusals"
    commands: Table = "commands"
    unknown_rows: Table = "unknown_commands"


class Reservations(Config, name="reservations"):
    """The job's configuration; conf/jobs/reservations.toml documents each key."""

    commands: CommandsSection
    fold: FoldSection
    decide: DecideSection
    output: Tables


def job(config: Reservations) -> Job:
    """Return the job of a configuration; rules that do not fit the commands fail at the start.

    The job writes the table of commands last, after their events or rejections.
    """
    commands = config.as_input(config.commands, kafka_columns=LOG_POSITION)
    fold = config.fold.to_fold(LOG_POSITION, "refuse")
    decider = config.decide.to_decider(fold, commands.position_columns)
    output = config.output
    command_handler = CommandHandler(
        output.table, decider=decider, events=output.events, refusals=output.refusals
    )
    unknown_sink = MapRows(
        rows=decider.unknown_commands, sink=Append(output.unknown_rows, output="unknown")
    )
    return config.as_job(
        inputs={"commands": commands},
        transform=Stateless(decider.validate, one_to_one=True),
        sink=FanOut(Append(output.commands), other_sinks=[command_handler, unknown_sink]),
    )
