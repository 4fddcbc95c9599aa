"""`tidegate rescale`: a checkpoint's state in another number of partitions."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ..runtime import spark_session
from ..runtime.process.exit_codes import guarded
from ..runtime.process.session import quiet
from ..runtime.rescaling.rescale import rescale as rescaled
from ..runtime.rescaling.state import planned

Place = Annotated[str, typer.Argument(help="The checkpoint's folder: output.checkpoint.")]
To = Annotated[int, typer.Option("--to", help="In how many partitions the state is to be.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")]


def rescale(checkpoint: Place, to: To, dry_run: Dry = False) -> None:
    """Put the state of a job that has ended into another number of partitions.

    A checkpoint keeps the number that it began with, whatever spark.sql.shuffle.partitions says.
    Run it again after a kill: it goes on where it was, and until then the job does not start.
    """

    def work() -> None:
        spark = spark_session("tidegate rescale")
        quiet(spark)
        plan = planned(spark, checkpoint, to)
        typer.echo(str(plan))
        if dry_run or not plan.needed:
            return
        began = time.monotonic()
        rescaled(spark, plan)
        typer.echo(
            f"{plan.identity.job}: the state is in {to} partitions, after "
            f"{time.monotonic() - began:.1f} s; the next start goes on with it."
        )

    raise typer.Exit(guarded(work))
