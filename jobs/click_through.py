"""Join searches with their clicks, and count click-through rates: Kafka to Delta.

spark-submit jobs/click_through.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate.jobs import run_built_in_job

if __name__ == "__main__":
    run_built_in_job("click_through")
