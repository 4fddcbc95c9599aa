"""`tidegate rescale`: change the number of partitions of a checkpoint's state."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ..operations.rescale import plan_rescale
from ..operations.rescale import rescale as rescale_state
from .command_session import command_session

CheckpointFolder = Annotated[
    str, typer.Argument(help="The checkpoint's folder: output.checkpoint.")
]
PartitionCount = Annotated[int, typer.Option("--to", help="The new number of partitions.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan without any change.")]


def rescale(checkpoint: CheckpointFolder, to: PartitionCount, dry_run: DryRun = False) -> None:
    """Change the number of partitions of the state of a stopped job.

    A checkpoint fixes the number at its first start; spark.sql.shuffle.partitions has no effect
    later. Run the command again after an interruption to resume it; until then the job does not
    start.
    """
    spark = command_session("rescale")
    plan = plan_rescale(spark, checkpoint, to)
    typer.echo(str(plan))
    if dry_run or not plan.is_needed:
        return
    started = time.monotonic()
    rescale_state(spark, plan)
    typer.echo(
        f"{plan.lineage.job}: the state has {to} partitions, after "
        f"{time.monotonic() - started:.1f} s; the next start uses it."
    )
