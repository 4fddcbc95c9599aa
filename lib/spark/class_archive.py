"""Creation of the class data sharing (CDS) archive of Spark's classes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ..arrow_kernels import arrow_udf
from ..errors import SetupError
from ..jvm import stop_jvm
from .jars import java_path
from .session import CDS_LOGGING_OFF, set_log_level, spark_session
from .spark_logging import spark_log_option


def create_class_archive(archive_path: Path) -> None:
    """Run a small job in a JVM, and archive the classes that the JVM has loaded.

    The calling process must do nothing else, because a process can start only one JVM. The file
    appears atomically, because a JVM can crash with an incomplete archive.

    Raises SetupError if a session is active, the folder is not writable, or the JVM writes no
    archive.
    """
    if SparkSession.getActiveSession() is not None:
        raise SetupError("a Spark session is active", remedy="run this in a new process")
    try:
        archive_path.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix="classes-", dir=archive_path.parent)
    except OSError as error:
        raise SetupError(
            f"cannot write to {archive_path.parent}", str(error.strerror), "a writable folder"
        ) from None
    with folder:
        partial_file = Path(folder.name) / archive_path.name
        settings = {
            "spark.driver.defaultJavaOptions": f"-XX:ArchiveClassesAtExit={partial_file} "
            f"-XX:+UseSerialGC {CDS_LOGGING_OFF} {spark_log_option()}",
            "spark.ui.enabled": "false",
            # The worker daemon logs an error when the JVM exits.
            "spark.python.use.daemon": "false",
        }
        spark = spark_session("classes", master="local[2]", conf=settings)
        set_log_level(spark)
        _load_classes(spark, folder.name)
        stop_jvm(spark)
        if not partial_file.exists():
            raise SetupError(
                f"the JVM of {java_path()} wrote no class archive",
                remedy="use HotSpot of Java 17 or 21",
            )
        partial_file.replace(archive_path)


def _load_classes(spark: SparkSession, folder: str) -> None:
    """Write a Delta table with a windowed stream and an Arrow UDF, merge into it, and read it."""

    def last_bits(values: pa.Array) -> pa.Array:
        return pc.bit_wise_and(values, 3)

    table = f"{folder}/table"
    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    keyed = rates.withColumn("key", arrow_udf(last_bits, "bigint")(F.col("value")))
    timed = keyed.withWatermark("timestamp", "1 second")
    counts = timed.groupBy(F.window("timestamp", "1 second"), "key").agg(F.count("*").alias("n"))
    writer = counts.writeStream.format("delta")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start(table).awaitTermination()
    table_rows = spark.read.format("delta").load(table)
    merge = DeltaTable.forPath(spark, table).alias("old").merge(table_rows.alias("new"), "false")
    merge.whenNotMatchedInsertAll().execute()
    table_rows.groupBy("key").count().collect()
