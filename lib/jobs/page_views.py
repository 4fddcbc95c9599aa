"""Count page views in event-time windows, exactly once: Kafka to Delta.

This is the job `windows` with the file conf/jobs/page_views.toml.
"""

from __future__ import annotations

from .windows import Windows, job

DESCRIPTION = "Count page views in event-time windows, from Kafka to Delta."

__all__ = ["PageViews", "job"]


class PageViews(Windows, name="page_views"):
    """The job's configuration; conf/jobs/page_views.toml documents each key."""
