"""Join each event of any topic with a row of a Delta table, without code: Kafka to Delta.

spark-submit jobs/enrich.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate.jobs import run_built_in_job

if __name__ == "__main__":
    run_built_in_job("enrich")
