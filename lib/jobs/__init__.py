"""The built-in jobs: a TOML file defines topics, columns and tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..config import Config
from . import (
    abandoned_checkouts,
    accounts,
    click_through,
    customer_history,
    deduplicated,
    enrich,
    enriched_activity,
    join,
    page_views,
    replicate,
    reservations,
    standing_queries,
    timelines,
    unique_visitors,
    window_alarms,
    windows,
)
from .enrich import Enrich
from .job_command import run_job_command
from .join import Join
from .windows import Windows

__all__ = ["BUILT_IN_JOBS", "BuiltInJob", "Enrich", "Join", "Windows", "run_built_in_job"]


@dataclass(frozen=True)
class BuiltInJob:
    """A built-in job: its configuration model, and the function that builds the job.

    description: the first line of its help.
    result_label: the label of output rows in the summary line.

    >>> BUILT_IN_JOBS["join"].result_label
    'joined'
    """

    model: type[Config]
    build: Callable[[Any], Any]
    description: str
    result_label: str = "written"


BUILT_IN_JOBS = {
    built_in.model.name: built_in
    for built_in in (
        BuiltInJob(windows.Windows, windows.job, windows.DESCRIPTION),
        BuiltInJob(join.Join, join.job, join.DESCRIPTION, result_label="joined"),
        BuiltInJob(enrich.Enrich, enrich.job, enrich.DESCRIPTION, result_label="enriched"),
        BuiltInJob(
            abandoned_checkouts.AbandonedCheckouts,
            abandoned_checkouts.job,
            abandoned_checkouts.DESCRIPTION,
            result_label="abandoned checkouts",
        ),
        BuiltInJob(accounts.Accounts, accounts.job, accounts.DESCRIPTION, result_label="events"),
        BuiltInJob(
            window_alarms.AlarmsConfig,
            window_alarms.job,
            window_alarms.DESCRIPTION,
            result_label="windows",
        ),
        BuiltInJob(
            click_through.ClickThrough,
            click_through.job,
            click_through.DESCRIPTION,
            result_label="searches and clicks joined",
        ),
        BuiltInJob(
            customer_history.CustomerHistory,
            customer_history.job,
            customer_history.DESCRIPTION,
            result_label="changes",
        ),
        BuiltInJob(
            deduplicated.EventDeduplication,
            deduplicated.job,
            deduplicated.DESCRIPTION,
            result_label="distinct events",
        ),
        BuiltInJob(
            enriched_activity.EnrichedActivity,
            enriched_activity.job,
            enriched_activity.DESCRIPTION,
            result_label="enriched",
        ),
        BuiltInJob(page_views.PageViews, page_views.job, page_views.DESCRIPTION),
        BuiltInJob(
            replicate.Replicate,
            replicate.job,
            replicate.DESCRIPTION,
            result_label="changes",
        ),
        BuiltInJob(
            reservations.Reservations,
            reservations.job,
            reservations.DESCRIPTION,
            result_label="commands",
        ),
        BuiltInJob(
            standing_queries.StandingQueries,
            standing_queries.job,
            standing_queries.DESCRIPTION,
            result_label="documents",
        ),
        BuiltInJob(
            timelines.Timelines,
            timelines.job,
            timelines.DESCRIPTION,
            result_label="changes of posts, follows and users",
        ),
        BuiltInJob(
            unique_visitors.UniqueVisitors,
            unique_visitors.job,
            unique_visitors.DESCRIPTION,
            result_label="merged into the sketches",
        ),
    )
}
"""The built-in jobs by name."""


def run_built_in_job(name: str) -> None:
    """Run a built-in job as a command line program; see `run_job_command`.

    >>> run_built_in_job("windows")                                            # doctest: +SKIP
    """
    built_in = BUILT_IN_JOBS[name]
    run_job_command(
        built_in.model,
        built_in.build,
        about=built_in.description,
        result_label=built_in.result_label,
    )
