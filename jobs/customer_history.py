"""Keep a table and its history from the log of its changes: Debezium or Maxwell in Kafka, Delta out.

spark-submit jobs/customer_history.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]"""

from __future__ import annotations

from typing import ClassVar, Literal

from tidegate.formats import debezium, json_format, maxwell
from tidegate.runtime.cli import command
from tidegate.runtime.config.job_config import Config
from tidegate.runtime.config.sections import (
    InputSection,
    JobName,
    JobSection,
    KafkaSection,
    Names,
    Section,
    TablesSection,
    Wait,
)
from tidegate.runtime.job import Job
from tidegate.sinks import Current, FanOut, History

TIME = "event_time"
FORMATS = {"debezium": debezium, "maxwell": maxwell}


class ChangesSection(Section):
    """[changes]: who wrote them, the table's key, and what orders them: the topic's offsets or the
    source's own log."""

    format: Literal["debezium", "maxwell"] = "debezium"
    key: Names
    position: Literal["source", "log"] = "source"


class ChangedSection(InputSection):
    """[input]: the columns of the table that changes; no change is ever late."""

    time: Literal["event_time"] = "event_time"
    lateness: Wait = "0 seconds"


class Tables(TablesSection):
    """[output]: the root folder, and below it the current table, its history and the dead
    letters."""

    TABLES: ClassVar[tuple[str, ...]] = (*TablesSection.TABLES, "history")

    table: str = "customers"
    history: str = "customer_history"
    checkpoint: str = "_checkpoints/customer_history"


class NamedJob(JobSection):
    """[job]: the name, which is part of every commit and must stay the same over restarts."""

    name: JobName = "customer_history"


class CustomerHistory(Config):
    """The job's configuration: conf/jobs/customer_history.toml tells each key."""

    job: NamedJob = NamedJob()
    kafka: KafkaSection
    input: ChangedSection
    changes: ChangesSection
    output: Tables = Tables()


def job(config: CustomerHistory) -> Job:
    """Put the job together: no state is kept, since each batch's changes are merged into the
    tables."""
    asked, places = config.changes, config.output.tables()
    form = FORMATS[asked.format](
        config.input.event_schema, key=asked.key, using=json_format, position=asked.position
    )
    changes = config.kept(config.reading(config.kafka, config.input, form, time=TIME), config.input)
    past = History(places["output.history"])
    now = Current(places["output.table"])
    return config.planned({"changes": changes}, sink=FanOut(now, also=[past]))


if __name__ == "__main__":
    command(
        "customer_history",
        CustomerHistory,
        job,
        "Keep a table and its history from the log of its changes, from Kafka to Delta.",
        result="taken up",
    )
