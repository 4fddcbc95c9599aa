"""Aggregate any topic's columns in event-time windows, without code: Kafka in, Delta out.

spark-submit jobs/windows.py --config FILE [--set section.key=value]... [--show-config] [--verbose]
"""

from __future__ import annotations

from tidegate.jobs.windows import ABOUT, Windows, job
from tidegate.runtime import command

if __name__ == "__main__":
    command(Windows, job, about=ABOUT)
