"""`tidegate erase`: permanent deletion of a data subject's rows, verified by a scan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ArgumentError, ErasureIncompleteError
from ..operations.erasure import erase as erase_data_subject
from ..paths import is_below, normalize_path
from ..spark.spark_errors import explain_disk_errors
from .command_session import command_session

Roots = Annotated[
    list[str],
    typer.Argument(help="Folders with tables and checkpoints: output.root of jobs, and others."),
]
Where = Annotated[
    list[str],
    typer.Option(help="COLUMN=VALUE, or TABLE:COLUMN=VALUE for one table; repeatable."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Report matches without any change.")]
JobsStopped = Annotated[
    bool,
    typer.Option("--stopped", help="Confirm that jobs with other checkpoint folders are stopped."),
]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print the report as a JSON object.")]
ReportFile = Annotated[
    str | None, typer.Option("--report", help="Also write the report to this JSON file.")
]


def erase(
    roots: Roots,
    where: Where,
    dry_run: DryRun = False,
    stopped: JobsStopped = False,
    as_json: JsonOutput = False,
    report: ReportFile = None,
) -> None:
    """Delete a data subject's rows from tables and their old files, and verify the deletion.

    The command fails if data that identifies the subject remains. Run it again after an
    interruption to resume it.
    """
    _require_outside_roots(report, roots)
    result = erase_data_subject(
        command_session("erase"), roots, where, dry_run=dry_run, jobs_stopped=stopped
    )
    report_json = json.dumps(result.as_dict(), indent=1)
    if report is not None:
        with explain_disk_errors([report]):
            Path(report).write_text(f"{report_json}\n", encoding="utf-8")
    typer.echo(report_json if as_json else result.format_text())
    if not result.is_clean and not dry_run:
        places = sum(each.identifies_subject for each in result.remaining)
        raise ErasureIncompleteError(
            f"erasure is incomplete: {places} places still identify the data subject",
            remedy="the report lists a fix for each place",
        )


def _require_outside_roots(report: str | None, roots: list[str]) -> None:
    """Raise ArgumentError if the report, which identifies the subject, is below a scanned root."""
    file = None if report is None else normalize_path(report)
    if file is not None and any(is_below(file, normalize_path(root)) for root in roots):
        raise ArgumentError(f"invalid --report: {report!r}", "a file outside all roots")
