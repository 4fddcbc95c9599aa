"""Making the archive of the classes that Spark loads."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...arrow_function import arrow_function
from ...errors import SetupError
from ...jvm import end_jvm
from .class_archive import SILENT
from .installation import java as java_path
from .logs import spark_log
from .session import quiet, spark_session


def archive(place: Path) -> None:
    """Run some of what jobs do in a JVM of its own, and keep the classes that it has loaded.

    It is for a process that does nothing else, since a process can start one JVM. The file gets its
    name when it is whole: a JVM can crash by a part of one.

    Raises SetupError where there is a session already, the folder cannot be written to, or the JVM
    leaves no archive.
    """
    if SparkSession.getActiveSession() is not None:
        raise SetupError("there is a Spark session already.", "a process without one.")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix="classes-", dir=place.parent)
    except OSError as fault:
        raise SetupError(
            f"{place.parent} cannot be written to: {fault.strerror}.", "a folder that can be."
        ) from None
    with folder:
        part = Path(folder.name) / place.name
        java = f"-XX:ArchiveClassesAtExit={part} -XX:+UseSerialGC {SILENT} {spark_log()}"
        settings = {
            "spark.driver.defaultJavaOptions": java,
            "spark.ui.enabled": "false",
            # The one that starts workers complains where the JVM ends.
            "spark.python.use.daemon": "false",
        }
        spark = spark_session("classes", master="local[2]", conf=settings)
        quiet(spark)
        _load_classes(spark, Path(folder.name))
        end_jvm(spark)
        if not part.exists():
            raise SetupError(
                f"the JVM of {java_path()} left no archive of its classes.",
                "HotSpot, of Java 17 or 21, which archives the classes that it has loaded.",
            )
        part.replace(place)


def _load_classes(spark: SparkSession, folder: Path) -> None:
    """Write a Delta table by a stream of windows, merge into the table, and read it."""
    table = str(folder / "table")
    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    writer = _windows(rates).writeStream.format("delta")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(table).awaitTermination()
    found = spark.read.format("delta").load(table)
    merge = DeltaTable.forPath(spark, table).alias("old").merge(found.alias("new"), "false")
    merge.whenNotMatchedInsertAll().execute()
    found.groupBy("key").count().collect()


def _windows(rates: DataFrame) -> DataFrame:
    """Count by windows and by what a Python function of Arrow arrays makes of a column."""

    def last_bits(values: pa.Array) -> pa.Array:
        return pc.bit_wise_and(values, 3)

    key = arrow_function(last_bits, "bigint")(F.col("value"))
    windows = rates.withWatermark("timestamp", "1 second").withColumn("key", key)
    return windows.groupBy(F.window("timestamp", "1 second"), "key").agg(F.count("*").alias("n"))
