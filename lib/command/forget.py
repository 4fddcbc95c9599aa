"""`tidegate forget`: one person's data deleted from the tables below some folders, and proved."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from ..errors import ArgumentError, NotForgottenError
from ..runtime import spark_session
from ..runtime.forgetting import forget as forgotten
from ..runtime.locations import below, whole
from ..runtime.process.exit_codes import guarded

Roots = Annotated[
    list[str], typer.Argument(help="Folders with tables and checkpoints: output.root, and others.")
]
Where = Annotated[
    list[str],
    typer.Option(help="COLUMN=VALUE, or TABLE:COLUMN=VALUE for one table; several may be given."),
]
Dry = Annotated[bool, typer.Option("--dry-run", help="Tell what is there, and change nothing.")]
Stopped = Annotated[
    bool, typer.Option("--stopped", help="Jobs whose checkpoints are elsewhere have ended.")
]
Machine = Annotated[bool, typer.Option("--json", help="Print the report as a JSON object.")]
Kept = Annotated[
    str | None, typer.Option("--report", help="Write the report to this file too, as JSON.")
]


def forget(
    roots: Roots,
    where: Where,
    dry_run: Dry = False,
    stopped: Stopped = False,
    as_json: Machine = False,
    report: Kept = None,
) -> None:
    """Delete one person's rows for good, from tables and their older files, and prove it.

    Ends with code 12 where something that tells of the person is still there. Run it again after a
    kill: it goes on where it was.
    """

    def work() -> None:
        _require_outside(report, roots)
        done = forgotten(_session(), roots, where, dry_run=dry_run, stopped=stopped)
        told = json.dumps(done.as_dict(), indent=1)
        if report is not None:
            Path(report).write_text(f"{told}\n", encoding="utf-8")
        typer.echo(told if as_json else done.text())
        if not done.clean and not dry_run:
            raise NotForgottenError(
                f"{sum(each.counts for each in done.left)} places still tell of the person.",
                hint="the report says of each what can be done.",
            )

    raise typer.Exit(guarded(work))


def _session() -> SparkSession:
    """Return a session of which the JVM prints to standard error: Delta's VACUUM prints a line."""
    printed = os.dup(1)
    try:
        os.dup2(2, 1)
        return spark_session("tidegate forget")
    finally:
        os.dup2(printed, 1)
        os.close(printed)


def _require_outside(report: str | None, roots: list[str]) -> None:
    """Refuse a report among what is scanned: it tells of the person itself."""
    if report is not None and any(below(whole(report), whole(root)) for root in roots):
        raise ArgumentError(f"--report {report} is below a root.", "a file outside of all roots.")
