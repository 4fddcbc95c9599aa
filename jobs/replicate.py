"""Replicate a whole database from its Debezium topics: Kafka to Delta.

spark-submit jobs/replicate.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate.jobs import run_built_in_job

if __name__ == "__main__":
    run_built_in_job("replicate")
