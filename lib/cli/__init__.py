"""The command `tidegate`: run built-in jobs, and operate jobs, tables and topics.

Each command is a function in its own module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import typer

from ..jobs import BUILT_IN_JOBS
from ..jobs.job_command import EXIT_CODE_HELP, build_job_command
from ..process.exit_codes import run_with_exit_code
from .class_archive_command import class_archive
from .erase_command import erase
from .init_command import init
from .produce_command import produce
from .publish_changes_command import publish_changes
from .redrive_command import redrive
from .rescale_command import rescale
from .resume_command import resume
from .sizing_command import sizing
from .status_command import status
from .topics_command import topics
from .version_option import VersionOption

_GROUPS = {
    "run": "Run a built-in job with a TOML configuration file.",
    "compare": "Verify a job's table: recompute it as one batch, and compare the two.",
    "replay": "Run a job over its records again, into separate tables; compare, then swap.",
    "doctor": "Run all checks of a job's start and print the findings, without changing anything.",
}
"""The groups of commands, with one command per built-in job."""


def _add_job_group(name: str, help: str) -> None:
    group = typer.Typer(no_args_is_help=True, help=help)
    app.add_typer(group, name=name)
    for job_name, built_in in BUILT_IN_JOBS.items():
        command = build_job_command(
            built_in.model,
            built_in.build,
            about=built_in.description if name == "run" else help,
            result_label=built_in.result_label,
            use_shipped_config=False,
            compare_by_default=name == "compare",
            replay_by_default=name == "replay",
            doctor_by_default=name == "doctor",
        )
        group.command(job_name, epilog=EXIT_CODE_HELP)(command)


def _with_exit_code(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def run(**options: Any) -> None:
        raise typer.Exit(run_with_exit_code(partial(command, **options)))

    return run


app = typer.Typer(
    name="tidegate",
    help="Streaming jobs from Kafka to Delta: run them, and monitor and repair their results.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _common_options(version: VersionOption = False) -> None:
    """Options of the command without a subcommand."""


for group_name, group_help in _GROUPS.items():
    _add_job_group(group_name, group_help)
for command in (
    *(status, topics, produce, redrive, publish_changes),
    *(resume, erase, rescale, sizing, class_archive, init),
):
    app.command(epilog=EXIT_CODE_HELP)(_with_exit_code(command))


def main() -> None:
    """Run the command line, and exit with its exit code."""
    app()
