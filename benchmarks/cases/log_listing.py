"""Measure how long it takes to list the log of a table on the local disk.

python -m benchmarks.cases.log_listing [--commits 2500]

A commit writes four files: two of Delta, each with a checksum file. The benchmark lists as many
empty files, by the file system of the library and by that of Hadoop. The best of several runs
counts."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from benchmarks.support.contestant_process import bench_session
from tidegate.jvm.spark_internals import java_class, jvm_session

SYSTEMS = {"tidegate": None, "Hadoop": "org.apache.hadoop.fs.LocalFileSystem"}
"""By name: the class of a file system; None: that of the session."""
_RUNS = 10


def main(
    commits: Annotated[int, typer.Option(min=1, help="Number of commits in the log.")] = 2_500,
) -> None:
    """Measure, and print microseconds a file."""
    spark = bench_session()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        for version in range(commits):
            for name in (f"{version:020}.json", f"{version:020}.crc"):
                (Path(folder) / name).touch()
                (Path(folder) / f".{name}.crc").touch()
        for label, kind in SYSTEMS.items():
            seconds = min(list_log(spark, folder, kind) for _ in range(_RUNS))
            print(f"{label:14} {seconds / commits / 4 * 1e6:.1f} µs a file")
    spark.stop()


def list_log(spark: SparkSession, folder: str, kind: str | None) -> float:
    """Return the seconds of a listing."""
    path = java_class(spark, "org.apache.hadoop.fs.Path")(f"file:{folder}")
    conf = jvm_session(spark).sessionState().newHadoopConf()
    if kind is not None:
        conf.set("fs.file.impl", kind)
        conf.set("fs.file.impl.disable.cache", "true")
    system = path.getFileSystem(conf)
    started_at = time.monotonic()
    system.listStatus(path)
    return time.monotonic() - started_at


if __name__ == "__main__":
    typer.run(main)
