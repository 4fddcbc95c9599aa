"""Give each activity of a user the user's profile: Kafka in, Delta out, each record exactly once.

spark-submit jobs/enriched_activity.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from tidegate.errors import ConfigError
from tidegate.formats import keyed_json
from tidegate.joins import Lookup
from tidegate.runtime import Job, command
from tidegate.runtime.config import (
    Config,
    Duration,
    InputSection,
    OutputSection,
    Section,
    Table,
    Wait,
)
from tidegate.sinks import Append, Snapshot, TemporalJoin, VersionTable

TIME = "event_time"
PARTITION = "profile_partition"
OFFSET = "profile_offset"


class EnrichSection(Section):
    """[enrich]: which profile an event meets.

    "snapshot": that of the Delta table `profiles` as it is at the moment. "history": that of the
    event's time, by the Delta table `profiles` with valid_from and valid_to. "changelog": the same
    by the changelog of [profiles].
    """

    way: Literal["snapshot", "history", "changelog"]
    on: str = "user_id"
    profiles: str | None = None
    patience: Wait = "0 seconds"
    lag: Duration | None = None
    keep: Wait | None = None


class Tables(OutputSection):
    """[output]: the target; for the changelog its versions, waiting events and misses too."""

    table: Table = "activity"
    versions: Table = "profile_versions"
    waiting: Table = "waiting"
    misses: Table = "misses"
    keep_misses_apart: bool = False


class EnrichedActivity(Config, name="enriched_activity"):
    """The job's configuration: conf/jobs/enriched_activity.toml tells each key."""

    activity: InputSection
    profiles: InputSection | None = None
    enrich: EnrichSection
    output: Tables

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
    """Return the job of a configuration."""
    if config.enrich.way == "changelog" and config.profiles is not None:
        return from_changelog(config, config.profiles)
    return from_table(config, config.enrich.profiles or "")


def from_table(config: EnrichedActivity, profiles: str) -> Job:
    """Meet a Delta table: as it is, or where it is a history, as it was at the event's time."""
    as_of = TIME if config.enrich.way == "history" else None
    own = Lookup(config.enrich.on, how="left", as_of=as_of)
    return config.as_job(
        inputs={"activity": config.as_input(config.activity)},
        sink=Snapshot(table=profiles, join=own, sink=Append(config.output.table)),
    )


def from_changelog(config: EnrichedActivity, profiles: InputSection) -> Job:
    """Keep the profiles by their changelog; an event waits until that has passed its time."""
    enrich = config.enrich
    rows = keyed_json(
        profiles.event_schema, key=enrich.on, time=profiles.time, place=(PARTITION, OFFSET)
    )
    inputs = {
        "activity": config.as_input(config.activity),
        "profiles": config.as_input(profiles, format=rows),
    }

    sink = TemporalJoin(
        config.output.table,
        waiting=config.output.waiting,
        misses=config.output.misses if config.output.keep_misses_apart else None,
        versions=VersionTable(
            config.output.versions,
            on=enrich.on,
            order=[OFFSET],
            partition=[PARTITION],
            deleted="deleted",
            keep=enrich.keep,
        ),
        events="activity",
        changes="profiles",
        lateness=profiles.lateness,
        patience=enrich.patience,
        lag=enrich.lag,
    )
    return config.as_job(
        inputs=inputs,
        sink=sink,
    )


if __name__ == "__main__":
    command(
        EnrichedActivity,
        job,
        about="Give each activity of a user the user's profile, from Kafka to Delta.",
        result="taken up",
    )
