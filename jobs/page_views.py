"""Count page views in event-time windows, exactly once: Kafka to Delta.

This is the job `windows` with the file conf/jobs/page_views.toml.

spark-submit jobs/page_views.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate import run_job_command
from tidegate.jobs.windows import Windows, job

__all__ = ["PageViews", "job"]


class PageViews(Windows, name="page_views"):
    """The job's configuration; conf/jobs/page_views.toml documents each key."""


if __name__ == "__main__":
    run_job_command(
        PageViews, job, about="Count page views in event-time windows, from Kafka to Delta."
    )
