"""Join each event of any topic with a row of a Delta table, without code: Kafka to Delta.

spark-submit jobs/enrich.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate import run_job_command
from tidegate.jobs.enrich import DESCRIPTION, Enrich, job

if __name__ == "__main__":
    run_job_command(Enrich, job, about=DESCRIPTION, result_label="enriched")
