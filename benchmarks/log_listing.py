"""Measure how long the log of a table on this disk takes to be listed.

python -m benchmarks.log_listing [--commits 2500]

A commit leaves four files there: Delta's two, and the check sum of each. Listed are as many, by the
file system that the library lets a session of one machine have, and by Hadoop's own. The files are
empty, for a listing opens none. The best of several times counts."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from tidegate.jvm.session import java_class, jvm_session

from .contest import started

SYSTEMS = {"the library's": None, "Hadoop's own": "org.apache.hadoop.fs.LocalFileSystem"}
"""By name: the class of a file system; None is that of the session."""
_TIMES = 10


def main(
    commits: Annotated[int, typer.Option(min=1, help="Commits in the log.")] = 2_500,
) -> None:
    """Measure, and print microseconds for each file."""
    spark = started()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        for version in range(commits):
            for name in (f"{version:020}.json", f"{version:020}.crc"):
                (Path(folder) / name).touch()
                (Path(folder) / f".{name}.crc").touch()
        for label, kind in SYSTEMS.items():
            seconds = min(listed(spark, folder, kind) for _ in range(_TIMES))
            print(f"{label:14} {seconds / commits / 4 * 1e6:.1f} µs a file")
    spark.stop()


def listed(spark: SparkSession, folder: str, kind: str | None) -> float:
    """Return how many seconds a listing takes, by one of SYSTEMS."""
    path = java_class(spark, "org.apache.hadoop.fs.Path")(f"file:{folder}")
    conf = jvm_session(spark).sessionState().newHadoopConf()
    if kind is not None:
        conf.set("fs.file.impl", kind)
        conf.set("fs.file.impl.disable.cache", "true")
    system = path.getFileSystem(conf)
    began = time.monotonic()
    system.listStatus(path)
    return time.monotonic() - began


if __name__ == "__main__":
    typer.run(main)
