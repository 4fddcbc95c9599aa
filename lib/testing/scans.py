"""What Spark read while something ran: files and rows of each Delta table, by its own metrics."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from ..jvm import executions, scans

_PLACE = re.compile(r"(?:Delta|Tahoe\w*)FileIndex[^\[]*\[(?:file:)?([^\],]+)")
_LENGTH = "spark.sql.maxMetadataStringLength"


@dataclass
class Read:
    """Files opened and rows that came out of them, over all scans of a table."""

    files: int = 0
    rows: int = 0
    scans: list[tuple[int, int]] = field(default_factory=list)


class Scans:
    """Collects what is read inside a `with` block, by the name of the table's folder.

    A table that is read three times counts three times. Log and statistics of the tables are not
    counted.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.tables: dict[str, Read] = defaultdict(Read)

    def __enter__(self) -> Scans:
        # Spark shortens the place that a scan tells of to 100 letters.
        self._spark.conf.set(_LENGTH, "10000")
        self._first = executions(self._spark)
        return self

    def __exit__(self, *_: object) -> None:
        self._spark.conf.unset(_LENGTH)
        for description, metrics in scans(self._spark, self._first):
            place = _PLACE.search(description)
            if place is None:
                continue
            files = metrics.get("number of files read", 0)
            rows = metrics.get("number of output rows", 0)
            read = self.tables[Path(place.group(1)).name]
            read.files += files
            read.rows += rows
            read.scans.append((files, rows))
