"""Maintain a table and its history from a Debezium or Maxwell changelog: Kafka to Delta.

spark-submit jobs/customer_history.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate.jobs import run_built_in_job

if __name__ == "__main__":
    run_built_in_job("customer_history")
