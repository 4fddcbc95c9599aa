"""Join each activity of a user with the user's profile, exactly once: Kafka to Delta.

spark-submit jobs/enriched_activity.py [--config FILE] [--set section.key=value]... [--show-config]
[--verbose]
"""

from __future__ import annotations

from tidegate.jobs import run_built_in_job

if __name__ == "__main__":
    run_built_in_job("enriched_activity")
