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
        help="Create new tables with the columns of the next records. First move the previous "
        "tables away, and take a snapshot with the connector.",
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

    Correct the cause of the pause first: `tidegate status` shows it. The job reads the request with
    its next batch. The resumed tables then catch up in several batches, while the other tables
    continue.
    """
    request_resume(control_table, topics, recreate=recreate, skip_lost=skip_lost)
    typer.echo(f"{', '.join(topics)}: resumed with the next batches of the job.")
