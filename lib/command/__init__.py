"""The command `tidegate`: run a job without code, see where its records went, fill a topic, begin.

Each of its commands is a function of a module of its own here.
"""

from __future__ import annotations

import typer

from ..jobs import READY
from ..runtime.cli import entry
from .changes import changes
from .classes import classes
from .forget import forget
from .init import init
from .produce import produce
from .redrive import redrive
from .rescale import rescale
from .size import size
from .status import status
from .topics import topics

REPLAY = "Run a job over its log again, into tables beside its own, compare them, and switch."
COMPARE = "Compute a job's rows anew as one batch over its log, and compare them with its table."

EXAMINE = "Do every check that a start of a job does, and tell what was found; nothing is changed."

app = typer.Typer(
    name="tidegate",
    help="Stream jobs from Kafka to Delta: run them, and see where each record went.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
jobs = typer.Typer(no_args_is_help=True, help="Run a job that needs no code, from a TOML file.")
app.add_typer(jobs, name="run")
compared = typer.Typer(
    no_args_is_help=True, help="Compare a job's table with the batch over its log."
)
app.add_typer(compared, name="compare")
replayed = typer.Typer(
    no_args_is_help=True,
    help="Run a changed job over its log again, beside itself; compare, then switch.",
)
app.add_typer(replayed, name="replay")
examined = typer.Typer(no_args_is_help=True, help="Check what a start of a job would check.")
app.add_typer(examined, name="doctor")
for name, ready in READY.items():
    run = entry(ready.model, ready.build, about=ready.about, result=ready.result, shipped=False)
    jobs.command(name)(run)
    compare = entry(ready.model, ready.build, about=COMPARE, shipped=False, compares=True)
    compared.command(name)(compare)
    replay = entry(ready.model, ready.build, about=REPLAY, shipped=False, replays=True)
    replayed.command(name)(replay)
    doctor = entry(ready.model, ready.build, about=EXAMINE, shipped=False, examines=True)
    examined.command(name)(doctor)
for command in (status, topics, produce, redrive, changes, forget, rescale, size, classes, init):
    app.command()(command)


def main() -> None:
    """Run the command, and end with its exit code."""
    app()
