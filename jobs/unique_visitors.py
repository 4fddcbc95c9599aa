"""Count visitors by page and minute, hour and day, in mergeable sketches: Kafka to Delta.

spark-submit jobs/unique_visitors.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate.jobs import run_built_in_job

if __name__ == "__main__":
    run_built_in_job("unique_visitors")
