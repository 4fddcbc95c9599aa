"""Join each activity of a user with the user's profile, exactly once: Kafka to Delta."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from ..config import (
    Config,
    Duration,
    InputSection,
    NonNegativeDuration,
    OutputSection,
    Section,
    Table,
)
from ..errors import ConfigError
from ..formats import upsert_json_format
from ..job.job import Job
from ..joins import LookupJoin
from ..sinks import Append, SnapshotJoin, TemporalJoin, VersionedTable

DESCRIPTION = "Join each activity of a user with the user's profile, from Kafka to Delta."

EVENT_TIME = "event_time"
PARTITION = "profile_partition"
OFFSET = "profile_offset"


class EnrichSection(Section):
    """[enrich]: the source of profiles.

    "snapshot": the current rows of the Delta table `profiles`. "history": the rows of `profiles` as
    of the event time, by valid_from and valid_to. "changelog": the rows as of the event time, by
    the changelog topic of [profiles].
    """

    mode: Literal["snapshot", "history", "changelog"]
    on: str = "user_id"
    profiles: str | None = None
    retry_for: NonNegativeDuration = "0 seconds"
    max_changelog_lag: Duration | None = None
    retention: NonNegativeDuration | None = None


class Tables(OutputSection):
    """[output]: the target; for a changelog also its versions, pending and unmatched events."""

    table: Table = "activity"
    versions: Table = "profile_versions"
    waiting: Table = "waiting"
    unmatched: Table = "misses"
    separate_unmatched: bool = False


class EnrichedActivity(Config, name="enriched_activity"):
    """The job's configuration; conf/jobs/enriched_activity.toml documents each key."""

    activity: InputSection
    profiles: InputSection | None = None
    enrich: EnrichSection
    output: Tables

    @model_validator(mode="after")
    def _require_profiles(self) -> EnrichedActivity:
        mode = self.enrich.mode
        if mode == "changelog" and self.profiles is None:
            raise ConfigError(
                "missing section: [profiles], for enrich.mode 'changelog'", "the changelog topic"
            )
        if mode != "changelog" and self.enrich.profiles is None:
            raise ConfigError(
                f"missing key: enrich.profiles, for enrich.mode {mode!r}",
                "the path of a Delta table",
                "--set enrich.profiles=/data/profiles",
            )
        return self


def job(config: EnrichedActivity) -> Job:
    """Return the job of a configuration."""
    if config.enrich.mode == "changelog" and config.profiles is not None:
        return job_from_changelog(config, config.profiles)
    return job_from_table(config, config.enrich.profiles or "")


def job_from_table(config: EnrichedActivity, profiles: str) -> Job:
    """Return the job that joins with a Delta table: a snapshot, or a history."""
    as_of = EVENT_TIME if config.enrich.mode == "history" else None
    lookup_join = LookupJoin(config.enrich.on, how="left", as_of=as_of)
    return config.as_job(
        inputs={"activity": config.as_input(config.activity)},
        sink=SnapshotJoin(table=profiles, join=lookup_join, sink=Append(config.output.table)),
    )


def job_from_changelog(config: EnrichedActivity, profiles: InputSection) -> Job:
    """Return the job that joins with a changelog; an event waits until the changelog passes it."""
    enrich = config.enrich
    profile_format = upsert_json_format(
        profiles.event_schema, key=enrich.on, time=profiles.time, log_position=(PARTITION, OFFSET)
    )
    inputs = {
        "activity": config.as_input(config.activity),
        "profiles": config.as_input(profiles, format=profile_format),
    }
    sink = TemporalJoin(
        config.output.table,
        pending_table=config.output.waiting,
        unmatched=config.output.unmatched if config.output.separate_unmatched else None,
        versions=VersionedTable(
            config.output.versions,
            key=enrich.on,
            order=[OFFSET],
            partition=[PARTITION],
            deleted="deleted",
            retention=enrich.retention,
        ),
        events="activity",
        changes="profiles",
        watermark_delay=profiles.watermark_delay,
        retry_for=enrich.retry_for,
        max_changelog_lag=enrich.max_changelog_lag,
    )
    return config.as_job(inputs=inputs, sink=sink)
