"""How many tasks read a topic."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from ..local_cores import local_cores

_A_CORE = 4
"""So many that cores end together where partitions are of different lengths."""
_DIVIDING = {"minpartitions", "maxrecordsperpartition"}
"""Options by which a caller says how many tasks there are."""


def in_few_tasks(rows: DataFrame, options: Iterable[str]) -> DataFrame:
    """Let a task read several partitions, where there are more than four for each core.

    Spark reads each partition by a task of its own, which costs some 25 ms of a core however little
    it reads, most of it for Python and for code that Spark generates. A cluster is left to that:
    cores of it may join later.

    options: the names of those that the reader has.
    """
    if is_remote() or _DIVIDING & {name.lower() for name in options}:
        return rows
    cores = local_cores(rows.sparkSession.conf.get("spark.master") or "")
    return rows.coalesce(_A_CORE * cores) if cores else rows
