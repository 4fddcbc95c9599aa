"""`tidegate resume`: resume paused tables of the job replicate."""

from __future__ import annotations

from typing import Annotated

import typer

from ..replication import request_resume

ControlTable = Annotated[
    str, typer.Argument(help="The control table of the job replicate: output.table.")
]
Topics = Annotated[list[str], typer.Argument(help="The topics whose tables are paused.")]
Recreate = Annotated[
    bool,
    typer.Option(
        "--recreate",
        help="Create new tables with the columns of the next records. Move the previous tables "
        "away before, and take a snapshot with the connector.",
    ),
]
SkipLost = Annotated[
    bool,
    typer.Option(
        "--skip-lost",
        help="Continue without the records that the topic has deleted since the pause. Take a "
        "snapshot with the connector after this.",
    ),
]


def resume(
    control_table: ControlTable,
    topics: Topics,
    recreate: Recreate = False,
    skip_lost: SkipLost = False,
) -> None:
    """Resume paused tables of a replicated database.

    The job, running or at its next start, takes the request into account with its next batch, and
    then catches up in parts, while the other tables continue. Correct the cause of the pause first:
    `tidegate status` shows it.
    """
    request_resume(control_table, topics, recreate=recreate, skip_lost=skip_lost)
    typer.echo(f"{', '.join(topics)}: resumed with the next batches of the job.")
