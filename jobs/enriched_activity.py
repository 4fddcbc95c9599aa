"""Return each activity of a user the user's profile: Kafka in, Delta out, each record exactly once.

spark-submit jobs/enriched_activity.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.columns import quoted
from tidegate.errors import ConfigError
from tidegate.formats import json_format
from tidegate.joins import stream_table, versions
from tidegate.runtime.cli import command
from tidegate.runtime.config.job_config import Config
from tidegate.runtime.config.sections import (
    Duration,
    JobName,
    JobSection,
    Section,
    TablesSection,
    TopicSection,
    Wait,
)
from tidegate.runtime.job import Input, Job
from tidegate.sinks import Append, Snapshot, TemporalJoin, VersionTable
from tidegate.tagged import tagged

PARTITION, OFFSET = "profile_partition", "profile_offset"


class EnrichSection(Section):
    """[enrich]: which profile an event meets.

    "snapshot": that of the Delta table `profiles` as it is at the moment. "history": that of the
    event's time, by the Delta table `profiles` with valid_from and valid_to. "changelog": the same
    by the changelog of [profiles]."""

    way: Literal["snapshot", "history", "changelog"]
    on: str = "user_id"
    profiles: str | None = None
    patience: Wait = "0 seconds"
    lag: Duration | None = None
    keep: Wait | None = None


class NamedJob(JobSection):
    """[job]: the name, which is part of every commit and must stay the same over restarts."""

    name: JobName = "enriched_activity"


class Tables(TablesSection):
    """[output]: the target and the dead letters; for the changelog its versions, waiting events and
    misses too."""

    TABLES: ClassVar[tuple[str, ...]] = (*TablesSection.TABLES, "versions", "waiting", "misses")

    table: str = "activity"
    versions: str = "profile_versions"
    waiting: str = "waiting"
    misses: str = "misses"
    keep_misses_apart: bool = False
    checkpoint: str = "_checkpoints/enriched_activity"


class EnrichedActivity(Config):
    """The job's configuration: conf/jobs/enriched_activity.toml tells each key."""

    job: NamedJob = NamedJob()
    activity: TopicSection
    profiles: TopicSection | None = None
    enrich: EnrichSection
    output: Tables = Tables()

    @model_validator(mode="after")
    def _has_profiles(self) -> EnrichedActivity:
        way = self.enrich.way
        if way == "changelog" and self.profiles is None:
            raise ConfigError(
                "enrich.way is 'changelog', without a section [profiles].", "the changelog's topic."
            )
        if way != "changelog" and self.enrich.profiles is None:
            raise ConfigError(
                f"enrich.way is {way!r}, without a table.",
                "the path of a Delta table.",
                "--set enrich.profiles=/data/profiles",
            )
        return self


def job(config: EnrichedActivity) -> Job:
    """Put the job together."""
    return from_changelog(config) if config.enrich.way == "changelog" else from_table(config)


def from_table(config: EnrichedActivity) -> Job:
    """Meet a Delta table, as it is or, where it is a history, as it was at the event's time."""
    on, time = config.enrich.on, "event_time" if config.enrich.way == "history" else None

    def enriched(activity: DataFrame, profiles: DataFrame) -> DataFrame:
        return stream_table(activity, profiles, on, how="left", as_of=time)

    path = config.output.tables()["output.table"]
    return config.planned(
        {"activity": config.named_input(config.activity)},
        sink=Snapshot(table=config.enrich.profiles or "", join=enriched, sink=Append(path)),
    )


def from_changelog(config: EnrichedActivity) -> Job:
    """Keep a copy of the profiles by their changelog, and let each event wait until that has passed
    its time."""
    enrich, places, section = config.enrich, config.output.tables(), config.profiles
    if section is None:
        raise ConfigError("there is no section [profiles].", "the changelog's topic.")

    def enriched(activity: DataFrame, profiles: DataFrame) -> DataFrame:
        return stream_table(
            activity, profiles, enrich.on, how="left", as_of="event_time", order=OFFSET
        )

    sink = TemporalJoin(
        path=places["output.table"],
        waiting=places["output.waiting"],
        misses=places["output.misses"] if config.output.keep_misses_apart else None,
        versions=VersionTable(
            path=places["output.versions"],
            on=enrich.on,
            order=[OFFSET],
            partition=[PARTITION],
            keep=enrich.keep,
        ),
        join=enriched,
        events="activity",
        changes="profiles",
        lateness=section.lateness,
        patience=enrich.patience,
        lag=enrich.lag,
    )
    return config.planned(
        {
            "activity": config.named_input(config.activity),
            "profiles": changelog(config, section),
        },
        each_batch=lambda activity, profiles: tagged(
            activity=activity, profiles=as_versions(profiles, section, enrich.on)
        ),
        sink=sink,
    )


def changelog(config: EnrichedActivity, section: TopicSection) -> Input:
    """Return the changelog's input; a tombstone has no time but its record's own."""
    time = F.coalesce(quoted(section.time), F.col("timestamp"))
    format = json_format(section.event_schema, tombstones="row")
    on = config.enrich.on
    if on not in format.schema.fieldNames() or format.schema[on].nullable:
        raise ConfigError(
            f"profiles.schema has no {on!r} that is NOT NULL: a record without it would pass for a "
            "tombstone.",
            "the key of enrich.on as a field that is never null.",
            f'schema = "{on} string not null, ..."',
        )
    return Input(
        reading=config.reading(
            section, section, format, time=time, keep=["key", "partition", "offset"]
        )
    )


def as_versions(profiles: DataFrame, section: TopicSection, on: str) -> DataFrame:
    """Return the changelog as a log of versions; a record without a value ends the profile of its
    key."""
    key = F.col("key").cast("string").try_cast(profiles.schema[on].dataType)
    keyed = profiles.withColumns({"deleted": quoted(on).isNull(), on: F.coalesce(quoted(on), key)})
    placed = keyed.drop(section.time, "key").withColumnsRenamed(
        {"partition": PARTITION, "offset": OFFSET}
    )
    log = versions(placed, deleted="deleted")
    return log.drop("deleted")


if __name__ == "__main__":
    command(
        "enriched_activity",
        EnrichedActivity,
        job,
        "Give each activity of a user the user's profile, from Kafka to Delta.",
        result="taken up",
    )
