"""`tidegate redrive`: send dead letters back to their topic, each exactly once."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from ..errors import ArgumentError
from ..jvm import delta_state, local_folders
from ..kafka.admin import Cluster
from ..kafka.redrive import OFFSET_COLUMNS, RedriveLog
from ..spark.spark_errors import explain_disk_errors
from .command_session import command_session
from .kafka_options import Options, Servers

Table = Annotated[str, typer.Argument(help="The table of dead letters of a job.")]
Where = Annotated[
    str | None, typer.Option(help="SQL condition on the dead letters: \"reason LIKE '%page%'\".")
]
RepairExpression = Annotated[
    str | None,
    typer.Option(help="SQL expression of the new value; `value` is the old one as text."),
]
RepairedFile = Annotated[
    Path | None,
    typer.Option(help="JSON lines with topic, partition, offset, value: the dead letters to send."),
]
TargetTopic = Annotated[
    str | None, typer.Option(help="Send to this topic instead of the original one.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Count the dead letters; send none, and use no broker.")
]
_IS_RESULT = "topic IS NULL"
_REPAIRED_SCHEMA = "topic STRING, partition INT, offset BIGINT, value STRING"


def redrive(
    table: Table,
    servers: Servers = "localhost:9092",
    where: Where = None,
    repair: RepairExpression = None,
    repaired: RepairedFile = None,
    to: TargetTopic = None,
    dry_run: DryRun = False,
    option: Options = None,
) -> None:
    """Send dead letters back to their topic, unchanged or repaired, each exactly once.

    The command can be repeated, also after an interruption: it skips dead letters that were sent.
    """
    if repair is not None and repaired is not None:
        raise ArgumentError("invalid options: --repair and --repaired", "one of the two")
    cluster = Cluster(servers, option or ())
    spark = command_session("redrive")
    _require_dead_letters(spark, table)
    redrive_log = RedriveLog(spark, table, cluster)
    explained_errors = explain_disk_errors([redrive_log.path, *local_folders(spark)])
    # A dry run must not stop a run that is sending.
    exclusive_producer = nullcontext() if dry_run else redrive_log.exclusive_producer()
    with explained_errors, exclusive_producer as producer:
        dead_letters = spark.read.format("delta").load(table)
        repaired_values = None if repaired is None else _read_repaired_file(dead_letters, repaired)
        unsent = redrive_log.unsent_letters(dead_letters).persist()
        repaired_letters = _apply_repair(unsent, where or "true", repair, repaired_values).persist()
        try:
            destination = F.lit(to) if to else F.col("topic")
            letters = repaired_letters.withColumn("destination", destination)
            sendable = letters.where(f"NOT is_cut AND NOT is_null AND NOT ({_IS_RESULT})")
            sent, remaining = sendable.count(), unsent.count()
            if sent and producer is not None:
                sent = redrive_log.send_letters(producer, sendable)
                remaining -= sent
            typer.echo(f"{sent:,} dead letters {'would be ' if dry_run else ''}sent.")
            _print_unsent(repaired_letters)
            typer.echo(f"{remaining:,} remain in {table}.")
            if dry_run and (number := redrive_log.open_entries().count()):
                typer.echo(
                    f"{number:,} belong to a redrive that has not finished. Without --dry-run, the "
                    "command searches their topics first, and sends only those that are missing."
                )
        finally:
            repaired_letters.unpersist()
            unsent.unpersist()


def _print_unsent(letters: DataFrame) -> None:
    for condition, reason in (
        (_IS_RESULT, "they are result rows that the sink rejected, not records"),
        ("is_cut", "the table stores only the start of their value"),
        (f"is_null AND NOT is_cut AND NOT ({_IS_RESULT})", "their repaired value is null"),
    ):
        if number := letters.where(condition).count():
            typer.echo(f"{number:,} were not sent: {reason}.")


def _require_dead_letters(spark: SparkSession, table: str) -> None:
    state = delta_state(spark, table)
    needed = {*OFFSET_COLUMNS, "key", "value", "value_bytes", "headers", "reason"}
    missing = needed if state.version < 0 else needed - set(state.schema().fieldNames())
    if missing:
        columns = ", ".join(sorted(missing))
        problem = "not a Delta table" if state.version < 0 else f"missing columns {columns}"
        raise ArgumentError(
            f"invalid table: {table!r}; {problem}",
            "the table of dead letters of a job",
            "/data/views.dead_letters",
        )


def _apply_repair(
    dead_letters: DataFrame, where: str, repair: str | None, repaired: DataFrame | None
) -> DataFrame:
    """Return the selected letters with new values, and the columns `is_cut` and `is_null`."""
    is_truncated = F.octet_length("value") < F.col("value_bytes")
    marked = dead_letters.withColumn("is_cut", F.coalesce(is_truncated, F.lit(False)))
    # Casts between binary and text keep the bytes unchanged.
    selected = marked.withColumn("value", F.col("value").cast("string")).where(where)
    is_null = F.col("value").isNull()
    if repaired is not None:
        letters = selected.drop("value").join(repaired, [*OFFSET_COLUMNS])
        letters = letters.withColumn("is_cut", F.lit(False))
    elif repair is not None:
        letters = selected.withColumn("value", F.expr(repair).cast("string"))
    else:
        letters = selected
        is_null = F.lit(False)
    return letters.withColumns({"is_null": is_null, "value": F.col("value").cast("binary")})


def _read_repaired_file(dead_letters: DataFrame, repaired: Path) -> DataFrame:
    """Return the rows of a file of repaired values; raise for a row without a dead letter."""
    if not repaired.is_file():
        raise ArgumentError(f"missing file: {repaired}", "a file of JSON lines")
    reader = dead_letters.sparkSession.read.schema(_REPAIRED_SCHEMA).option("mode", "FAILFAST")
    rows = reader.json(str(repaired))
    duplicate = rows.groupBy(*OFFSET_COLUMNS).count().where("count > 1").head()
    if duplicate is not None:
        raise ArgumentError(
            f"invalid --repaired: {repaired} has {_format_record_offset(duplicate)} twice",
            "one row per dead letter",
        )
    unknown = rows.join(dead_letters, [*OFFSET_COLUMNS], "left_anti").head()
    if unknown is not None:
        raise ArgumentError(
            f"invalid --repaired: {_format_record_offset(unknown)} is not in the table",
            "topic, partition and offset of a dead letter",
        )
    return rows


def _format_record_offset(row: Row) -> str:
    return f"{row['topic']}, partition {row['partition']}, offset {row['offset']}"
