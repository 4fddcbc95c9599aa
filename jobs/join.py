"""Join any two topics by key and time, without code: Kafka in, Delta out.

spark-submit jobs/join.py --config FILE [--set section.key=value]... [--show-config] [--verbose]
"""

from __future__ import annotations

from tidegate.jobs.join import ABOUT, Join, job
from tidegate.runtime import command

if __name__ == "__main__":
    command(Join, job, about=ABOUT, result="joined")
