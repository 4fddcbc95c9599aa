"""Maintain each user's timeline, a materialized view of three changelogs: Kafka to Delta.

spark-submit jobs/timelines.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate.jobs import run_built_in_job

if __name__ == "__main__":
    run_built_in_job("timelines")
