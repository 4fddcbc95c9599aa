"""How many tasks read a topic."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from ..local_cores import local_cores
from ._ranges import Ranges

_RECORDS = 10_000
"""To read so many takes a task about twice as long as it costs by itself."""
_PARTITIONS = 8
"""For so many a task may wait for the broker, one after the other."""
_A_CORE = 4
"""So many that cores end together where partitions are of different lengths."""
_DIVIDING = {"minpartitions", "maxrecordsperpartition"}
"""Options by which a caller says how many tasks there are."""


def in_few_tasks(
    rows: DataFrame, options: Iterable[str], ranges: Ranges | None = None
) -> DataFrame:
    """Let a task read several partitions: of more than four for each core, and of short ranges.

    Spark reads each partition by a task of its own, which costs some 25 ms of a core however little
    it reads, most of it for Python and for code that Spark generates; and each task writes a file.
    On a cluster long ranges keep that: cores of it may join later.

    options: the names of those that the reader has.
    ranges: what is read, where that is known.
    """
    if is_remote() or _DIVIDING & {name.lower() for name in options}:
        return rows
    cores = local_cores(rows.sparkSession.conf.get("spark.master") or "")
    limits = [_A_CORE * cores] if cores else []
    if ranges is not None:
        limits.append(_worth(ranges))
    return rows.coalesce(min(limits)) if limits else rows


def _worth(ranges: Ranges) -> int:
    """Return how many tasks are worth what they cost."""
    sizes = [stop - first for parts in ranges.values() for first, stop in parts.values()]
    return max(ceil(sum(sizes) / _RECORDS), ceil(len(sizes) / _PARTITIONS))
