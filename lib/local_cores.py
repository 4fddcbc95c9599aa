"""The cores of a Spark that runs on one machine."""

from __future__ import annotations

import os


def local_cores(master: str) -> int:
    """Return the cores that a local master uses, and 0 for a cluster.

    >>> local_cores("local[2]"), local_cores("local"), local_cores("spark://host:7077")
    (2, 1, 0)
    """
    if not master.startswith("local") or master.startswith("local-cluster"):
        return 0
    number = master.removeprefix("local").strip("[]").split(",")[0]
    return int(number) if number.isdigit() else 1 if not number else len(os.sched_getaffinity(0))
