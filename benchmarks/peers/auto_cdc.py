"""The changelog in an AUTO CDC flow of Spark's declarative pipelines, several times in one session.

Command line: QUERY SERVERS LABEL RUNS TOLERANCE FOLDER. It runs at most RUNS times, until two
consecutive times agree within TOLERANCE. FOLDER/LABEL.runs has the start and end of each run in
milliseconds.

The target is an Iceberg table: AUTO CDC requires row-level operations of Spark, which Delta does
not implement. After a run its rows are copied to Delta, where they are compared."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark import pipelines
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import (
    create_dataflow_graph,
    handle_pipeline_events,
    start_run,
)
from pyspark.sql import DataFrame, SparkSession

from benchmarks.contestants.changelog_queries import parse_changes
from benchmarks.contestants.window_queries import read_kafka
from benchmarks.peers.installing import CATALOG, CLASSES, JARS
from benchmarks.peers.marks import run_and_record
from benchmarks.peers.topics import CHANGES
from benchmarks.support.contestant_process import DRIVER
from benchmarks.support.order_table import KEY
from tidegate.spark.jars import jars
from tidegate.spark.presets import preset_settings
from tidegate.spark.session import default_settings

LAKE, TABLE, SOURCE = "lake", "orders", "changes"
METADATA = "__spark_autocdc_metadata"
"""The column that the flow adds."""


def connect_session(warehouse: str) -> SparkSession:
    """Return a session of a Spark Connect server in this process, as pipelines require."""
    settings = {
        **default_settings(),
        **preset_settings("small"),
        **DRIVER,
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraClassPath": f"{jars('spark')[0].parent}/*:{JARS}/iceberg/*:{CLASSES}",
        f"spark.sql.catalog.{LAKE}": CATALOG,
        f"spark.sql.catalog.{LAKE}.warehouse": warehouse,
    }
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def define_pipeline(spark: SparkSession, servers: str) -> None:
    """Define the table and the flow of its changes."""

    @pipelines.temporary_view(name=SOURCE)
    def changes() -> DataFrame:
        return parse_changes(read_kafka(spark, servers, CHANGES))

    pipelines.create_streaming_table(TABLE)
    pipelines.create_auto_cdc_flow(
        target=TABLE,
        source=SOURCE,
        keys=[KEY],
        sequence_by="lsn",
        apply_as_deletes="op = 'd'",
        except_column_list=["op", "lsn"],
        stored_as_scd_type=1,
    )


def run(spark: SparkSession, servers: str, folder: Path) -> tuple[int, int]:
    """Run the pipeline over existing changes, and return its start and end.

    These are the calls of the command `spark-pipelines run`, which starts a session for each run.
    """
    started_at = time.time_ns()
    # A name with hyphens is not accepted.
    database = folder.name.replace("-", "_")
    graph = create_dataflow_graph(
        spark, default_catalog=LAKE, default_database=database, sql_conf=None
    )
    with graph_element_registration_context(SparkConnectGraphElementRegistry(spark, graph)):
        define_pipeline(spark, servers)
    events = start_run(
        spark,
        graph,
        full_refresh=None,
        full_refresh_all=False,
        refresh=None,
        dry=False,
        storage=(folder / "storage").as_uri(),
    )
    handle_pipeline_events(events)
    ended_at = time.time_ns()
    table = f"{LAKE}.{database}.{TABLE}"
    spark.table(table).drop(METADATA).write.format("delta").save(str(folder / "table"))
    spark.sql(f"DROP TABLE {table}")
    return started_at // 1_000_000, ended_at // 1_000_000


def main(query: str, servers: str, label: str, runs: str, tolerance: str, folder: str) -> None:
    """Run the pipeline until it is warm, and record the start and end of each run."""
    del query
    spark = connect_session(f"{folder}/{LAKE}")

    def one(name: str) -> tuple[int, int]:
        return run(spark, servers, Path(folder) / name)

    run_and_record(one, label, runs, tolerance, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
