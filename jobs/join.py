"""Join any two topics by key and time, without code: Kafka to Delta.

spark-submit jobs/join.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate import run_job_command
from tidegate.jobs.join import DESCRIPTION, Join, job

if __name__ == "__main__":
    run_job_command(Join, job, about=DESCRIPTION, result_label="joined")
