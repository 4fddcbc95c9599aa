"""Handle commands in log order, each once: Kafka to Delta.

spark-submit jobs/reservations.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate.jobs import run_built_in_job

if __name__ == "__main__":
    run_built_in_job("reservations")
