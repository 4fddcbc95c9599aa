"""Match documents against stored queries, each match exactly once: Kafka to Delta.

spark-submit jobs/standing_queries.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate.jobs import run_built_in_job

if __name__ == "__main__":
    run_built_in_job("standing_queries")
