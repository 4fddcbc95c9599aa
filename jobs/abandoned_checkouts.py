"""Find checkouts that start and are not paid, as soon as this is certain: Kafka to Delta.

spark-submit jobs/abandoned_checkouts.py [--config FILE] [--set section.key=value]...
[--show-config] [--verbose]
"""

from __future__ import annotations

from tidegate.jobs import run_built_in_job

if __name__ == "__main__":
    run_built_in_job("abandoned_checkouts")
