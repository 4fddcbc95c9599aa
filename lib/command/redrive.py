"""`tidegate redrive`: dead letters that were repaired go back to their topic, once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from ..errors import ArgumentError
from ..jvm import delta_state
from ..runtime import spark_session
from ..runtime.process.exit_codes import guarded
from .kafka import Cluster, Options, Servers
from .redriven import PLACE, Redriven

Table = Annotated[str, typer.Argument(help="The job's table of dead letters.")]
Where = Annotated[
    str | None, typer.Option(help="Which dead letters, in SQL: \"reason LIKE '%page%'\".")
]
Repair = Annotated[
    str | None,
    typer.Option(help="The new value, in SQL; `value` is the old one as text. Null sends none."),
]
Repaired = Annotated[
    Path | None,
    typer.Option(help="JSON lines of topic, partition, offset and value: those alone are sent."),
]
To = Annotated[str | None, typer.Option(help="Another topic than that of the record.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Say how many would go, and send none.")]
_FILE = "topic STRING, partition INT, offset BIGINT, value STRING"


def redrive(
    table: Table,
    servers: Servers = "localhost:9092",
    where: Where = None,
    repair: Repair = None,
    repaired: Repaired = None,
    to: To = None,
    dry_run: Dry = False,
    option: Options = None,
) -> None:
    """Send dead letters back to their topic, as they are or repaired, each once.

    A letter that was sent is not sent again, however often this is run and wherever it is killed.
    """

    def work() -> None:
        if repair is not None and repaired is not None:
            raise ArgumentError("there are --repair and --repaired.", "one of the two.")
        cluster = Cluster(servers, option or ())
        spark = spark_session("tidegate redrive")
        _require_dead_letters(spark, table)
        notes = Redriven(spark, table, cluster)
        with notes.turn() as producer:
            dead = spark.read.format("delta").load(table)
            given = None if repaired is None else _file(dead, repaired)
            rest = notes.unsent(dead).persist()
            fixed = _fixed(rest, where or "true", repair, given).persist()
            try:
                letters = fixed.withColumn("destination", F.lit(to) if to else F.col("topic"))
                whole = letters.where("NOT cut AND NOT refused")
                number, left = whole.count(), rest.count()
                if number and not dry_run:
                    number = notes.send(producer, whole)
                    left -= number
                typer.echo(f"{number:,} dead letters {'would go' if dry_run else 'went'} back.")
                _tell_unsent(fixed)
                typer.echo(f"{left:,} are left in {table}.")
            finally:
                fixed.unpersist()
                rest.unpersist()

    raise typer.Exit(guarded(work))


def _tell_unsent(letters: DataFrame) -> None:
    cut, refused = letters.where("cut").count(), letters.where("refused AND NOT cut").count()
    if cut:
        typer.echo(f"{cut:,} were not sent: the table has only the beginning of their value.")
    if refused:
        typer.echo(f"{refused:,} were not sent: they are repaired to null.")


def _require_dead_letters(spark: SparkSession, table: str) -> None:
    """Refuse a path that is no table of dead letters."""
    state = delta_state(spark, table)
    needed = {*PLACE, "key", "value", "value_bytes", "headers", "reason"}
    missing = needed if state.version < 0 else needed - set(state.schema().fieldNames())
    if missing:
        what = "is no Delta table" if state.version < 0 else f"has no {', '.join(sorted(missing))}"
        raise ArgumentError(
            f"{table} {what}.", "a job's table of dead letters.", "/data/views.dead_letters"
        )


def _fixed(
    dead: DataFrame, where: str, repair: str | None, repaired: DataFrame | None
) -> DataFrame:
    """Return the chosen letters with their new value, and whether they cannot be sent."""
    short = F.octet_length("value") < F.col("value_bytes")
    marked = dead.withColumn("cut", F.coalesce(short, F.lit(False)))
    # Spark takes bytes for text, and text for bytes, as they are.
    chosen = marked.withColumn("value", F.col("value").cast("string")).where(where)
    if repaired is not None:
        new = chosen.drop("value").join(repaired, [*PLACE])
        return _binary(new.withColumn("cut", F.lit(False)), refused=F.col("value").isNull())
    if repair is None:
        return _binary(chosen, refused=F.lit(False))
    made = F.expr(repair).cast("string")
    return _binary(chosen.withColumn("value", made), refused=F.col("value").isNull())


def _binary(letters: DataFrame, *, refused: Column) -> DataFrame:
    return letters.withColumns({"refused": refused, "value": F.col("value").cast("binary")})


def _file(dead: DataFrame, repaired: Path) -> DataFrame:
    """Return what a file of repaired values has; refuse a row that is of no dead letter."""
    if not repaired.is_file():
        raise ArgumentError(f"there is no file {repaired}.", "a file of JSON lines.")
    reader = dead.sparkSession.read.schema(_FILE).option("mode", "FAILFAST")
    rows = reader.json(str(repaired))
    again = rows.groupBy(*PLACE).count().where("count > 1").head()
    if again is not None:
        raise ArgumentError(
            f"{repaired} has {_place(again)} twice.", "one row for each dead letter."
        )
    unknown = rows.join(dead, [*PLACE], "left_anti").head()
    if unknown is not None:
        raise ArgumentError(
            f"{repaired} has {_place(unknown)}, which is no dead letter of the table.",
            "topic, partition and offset as the table has them.",
        )
    return rows


def _place(row: Row) -> str:
    return f"{row['topic']}, partition {row['partition']}, offset {row['offset']}"
