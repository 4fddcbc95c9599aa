"""Keep a table and its history from the log of its changes, by Debezium or Maxwell, in Delta.

spark-submit jobs/customer_history.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from typing import Literal

from tidegate.formats import debezium, maxwell
from tidegate.runtime import Job, command
from tidegate.runtime.config import Config, InputSection, Names, OutputSection, Table, Wait
from tidegate.sinks import Current, FanOut, History

FORMATS = {"debezium": debezium, "maxwell": maxwell}


class ChangesSection(InputSection):
    """[changes]: the topics, the columns of the table that changes and its key; no change is late.

    `position` is what orders the changes: the topic's offsets, or the source's own log.
    """

    time: Literal["event_time"] = "event_time"
    lateness: Wait = "0 seconds"
    key: Names
    format: Literal["debezium", "maxwell"] = "debezium"  # type: ignore[assignment]
    position: Literal["source", "log"] = "source"


class Tables(OutputSection):
    """[output]: the table as it is, and its history."""

    table: Table = "customers"
    history: Table = "customer_history"


class CustomerHistory(Config, name="customer_history"):
    """The job's configuration: conf/jobs/customer_history.toml tells each key."""

    changes: ChangesSection
    output: Tables


def job(config: CustomerHistory) -> Job:
    """Return the job of a configuration: each batch's changes are merged into the tables."""
    asked = config.changes
    output = config.output
    form = FORMATS[asked.format]
    envelope = form(asked.event_schema, key=asked.key, position=asked.position)
    return config.as_job(
        inputs={"changes": config.as_input(asked, format=envelope)},
        sink=FanOut(Current(output.table), also=[History(output.history)]),
    )


if __name__ == "__main__":
    command(
        CustomerHistory,
        job,
        about="Keep a table and its history from the log of its changes, from Kafka to Delta.",
        result="taken up",
    )
