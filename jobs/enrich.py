"""Give each event of any topic the row of a Delta table, without code: Kafka in, Delta out.

spark-submit jobs/enrich.py --config FILE [--set section.key=value]... [--show-config] [--verbose]
"""

from __future__ import annotations

from tidegate.jobs.enrich import ABOUT, Enrich, job
from tidegate.runtime import command

if __name__ == "__main__":
    command(Enrich, job, about=ABOUT, result="taken up")
