"""Files of this machine, made without a program for each.

Hadoop's own file system for `file:` starts `chmod` for each file that it makes, and Spark's way of
renaming a file of a checkpoint starts `readlink` four times: some twenty processes for a batch with
state, and a third of its CPU time. What stands in here makes the same files, with the same check
sums and permissions, by calls of Java's own. It is for a driver that is the whole of Spark; the
executors of a cluster may not have the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ...jvm import has_class
from ..locations import local

_FILES = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
_FILES_KEY = "fs.file.impl"
_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_CHECKPOINTS_KEY = "spark.sql.streaming.checkpointFileManagerClass"


def use_bare_files(spark: SparkSession) -> None:
    """Let a session of one machine make its local files itself, where it has the jar for it."""
    alone = (spark.conf.get("spark.master", None) or "").startswith("local")
    if alone and has_class(spark, _FILES):
        spark.conf.set(_FILES_KEY, _FILES)
        # Spark has a file system of Hadoop's own at hand before the jar is on its class path.
        spark.conf.set(f"{_FILES_KEY}.disable.cache", "true")


@contextmanager
def bare_checkpoint(spark: SparkSession, path: str) -> Iterator[None]:
    """Let the queries that start in this block write their checkpoints by renaming files.

    Only where the checkpoint is on this machine: there both of Spark's ways look whether the file
    is there, and rename. In HDFS its other way renames in one step.
    """
    before = spark.conf.get(_CHECKPOINTS_KEY, None)
    bare = spark.conf.get(_FILES_KEY, None) == _FILES
    if not bare or before is not None or local(path) is None:
        yield
        return
    spark.conf.set(_CHECKPOINTS_KEY, _CHECKPOINTS)
    try:
        yield
    finally:
        spark.conf.unset(_CHECKPOINTS_KEY)
