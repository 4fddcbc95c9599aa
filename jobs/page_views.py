"""Count page views in event-time windows: Kafka in, Delta out, each record exactly once.

It is the job `windows`, with the file conf/jobs/page_views.toml.

spark-submit jobs/page_views.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate.jobs.windows import Windows, job
from tidegate.runtime import command

__all__ = ["PageViews", "job"]


class PageViews(Windows, name="page_views"):
    """The job's configuration: conf/jobs/page_views.toml tells each key."""


if __name__ == "__main__":
    command(PageViews, job, about="Count page views in event-time windows, from Kafka to Delta.")
