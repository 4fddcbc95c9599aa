"""Aggregate the columns of any topic in event-time windows, without code: Kafka to Delta.

spark-submit jobs/windows.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate import run_job_command
from tidegate.jobs.windows import DESCRIPTION, Windows, job

if __name__ == "__main__":
    run_job_command(Windows, job, about=DESCRIPTION)
