"""The command line that all jobs share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import typer
from pyspark.sql import SparkSession
from rich.console import Console

from ..errors import ArgumentError
from ._options import (
    Back,
    Backlog,
    Compare,
    Doctor,
    File,
    From,
    Ignore,
    Json,
    LogJson,
    Overrides,
    Recreate,
    ReplayLate,
    Replays,
    ReportFile,
    Resume,
    ShowConfig,
    SummaryFile,
    Switches,
    Verbose,
)
from .config.job_config import Config
from .config.load import load
from .config.shown import table
from .doctor import examine, require_sound, shown
from .job import Job
from .process.exit_codes import CODES, guarded
from .process.installation import project_root
from .process.logs import log_to
from .process.session import quiet, spark_session
from .process.stop import leave
from .query.compare import compare as against_log
from .query.compare import require_agreement
from .query.late_rows import replay_late
from .query.run import run
from .query.waiting import waiting
from .replaying.found import require_agreement as require_held
from .replaying.places import NEW, OLD
from .replaying.replay import replay as over_again
from .replaying.shown import shown as held_as_table
from .replaying.start import Start, parsed
from .replaying.switch import switch
from .summary import Summary, write_summary

Model = TypeVar("Model", bound=Config)


def command(
    model: type[Model], build: Callable[[Model], Job], *, about: str, result: str = "written"
) -> None:
    """Run a job from the command line, with the options and exit codes of all jobs; never return.

    model: validates the configuration. Its name is that of its file, which counts where no other is
        given: <name>.toml beside the program, or conf/jobs/<name>.toml of this project.
    build: makes the job of a configuration.
    about: the first line of the help.
    result: what the last line calls the rows that came out.
    """
    typer.run(entry(model, build, about=about, result=result))


def entry(
    model: type[Model],
    build: Callable[[Model], Job],
    *,
    about: str,
    result: str = "written",
    shipped: bool = True,
    compares: bool = False,
    replays: bool = False,
    examines: bool = False,
) -> Callable[..., None]:
    """Return the function that a command line calls to run a job; it never returns.

    The arguments are those of `command`. shipped: whether a file that comes with the job counts
    where none is given. compares, replays, examines: whether the command compares, replays, or
    does the checks of a start, where nothing else is asked for.
    """

    def main(
        config: File = None,
        set_: Overrides = None,
        show_config: ShowConfig = False,
        summary: SummaryFile = None,
        report: ReportFile = None,
        late: ReplayLate = False,
        resume_from_table: Resume = False,
        recreate: Recreate = None,
        backlog: Backlog = False,
        doctor: Doctor = examines,
        compare: Compare = compares,
        ignore: Ignore = None,
        again: Replays = replays,
        from_: From = None,
        switch_: Switches = False,
        back: Back = False,
        as_json: Json = False,
        log_json: LogJson = False,
        verbose: Verbose = False,
    ) -> None:
        def work() -> None:
            if again and backlog:
                raise ArgumentError(
                    "--backlog is given, for a replay.",
                    "a replay, which reads what the job has read as a stream.",
                    "leave --backlog out.",
                )
            if from_ and not again:
                raise ArgumentError(
                    "--from is given, and nothing is replayed.",
                    "--from with --replay.",
                    "the start of a new checkpoint is input.start.",
                )
            start = parsed(from_ or ())
            file = config or (_shipped(model.name) if shipped else None)
            loaded = load(model, file, set_ or ())
            if show_config:
                Console(width=None if sys.stdout.isatty() else 160).print(table(loaded))
                return
            log = log_to(as_json=log_json)
            own = loaded.config.spark
            spark = spark_session(
                loaded.config.job.name, preset=own.preset, partitions=own.partitions
            )
            quiet(spark, "WARN" if verbose else "FATAL")
            ways: dict[str, Any] = {
                "resume_from_table": resume_from_table,
                "recreate": recreate or (),
            }
            if doctor:
                findings = examine(build(loaded.config), spark, **ways)
                Console(width=None if sys.stdout.isatty() else 160).print(shown(findings))
                require_sound(findings)
            elif switch_ or back:
                switched(build(loaded.config), spark, back=back)
            elif again:
                job = build(loaded.config)
                replayed(job, spark, ignore or (), as_json=as_json, start=start)
            elif compare:
                compared(build(loaded.config), spark, ignore or ())
            elif late:
                merged = replay_late(build(loaded.config), spark)
                log.info("%s: %s late rows merged", loaded.config.job.name, f"{merged:,}")
            else:
                job = build(loaded.config)
                job = replace(job, backlog=0) if backlog else job
                job = replace(job, report=str(report)) if report else job
                done = run(job, spark, **ways)
                log.info("%s", _told(done, result))
                still_open = waiting(job, spark, done)
                if still_open is not None:
                    log.info("%s: %s", done.job, still_open)
                if summary is not None:
                    write_summary(done, summary)
            spark.stop()

        leave(guarded(work, verbose=verbose))

    main.__doc__ = f"{about}\n\n{exit_codes()}"
    return main


def compared(job: Job, spark: SparkSession, ignore: Sequence[str]) -> None:
    """Compare a job's target with its log, and say what was found; raise where they differ."""
    found = against_log(job, spark, ignore=ignore)
    require_agreement(job, found)
    typer.echo(f"{job.sink.path}: {found}.")


def replayed(
    job: Job,
    spark: SparkSession,
    ignore: Sequence[str],
    *,
    as_json: bool,
    start: Start | None = None,
) -> None:
    """Replay a job, and say what was found; raise where the tables differ."""
    found = over_again(job, spark, ignore=ignore, start=start)
    if found is None:
        typer.echo(f"the replay of {job.name!r} was stopped; it goes on when it is started again.")
        return
    if as_json:
        typer.echo(json.dumps(found.as_dict()))
    else:
        Console(highlight=False, soft_wrap=True).print(held_as_table(found))
    require_held(job, found)


def switched(job: Job, spark: SparkSession, *, back: bool) -> None:
    """Put a replay in the place of its job, or back again, and say so."""
    places = switch(job, spark, back=back)
    kept = NEW if back else OLD
    typer.echo(f"{job.name}: switched {', '.join(places)}; what was there ends in {kept} now.")


def exit_codes() -> str:
    """Return what the exit codes mean, one a line, for the help."""
    meanings = dict(sorted(CODES.values()))
    lines = [
        "0: done, or stopped by SIGTERM or Ctrl-C after the running batch",
        "1: any other failure",
        *(f"{code}: {meaning}" for code, meaning in meanings.items()),
        "130, 143: stopped at once by a second signal",
    ]
    # \b keeps click from filling the lines up.
    return "\b\nExit codes:\n" + "\n".join(lines)


def _shipped(name: str) -> Path | None:
    """Return the file of a job that is given none: beside the program, or this project's own."""
    for folder in (Path(sys.argv[0]).parent, project_root() / "conf" / "jobs"):
        file = folder / f"{name}.toml"
        if file.is_file():
            return file
    return None


def _told(done: Summary, result: str) -> str:
    stopped = ", stopped as asked" if done.stopped else ""
    filtered = f", {done.filtered:,} left out by where" if done.filtered else ""
    return (
        f"{done.job}: {done.batches} batches in {done.seconds:.1f} s: {done.rows_in:,} rows read, "
        f"{done.rows_out:,} "
        f"{result}, {done.late:,} late, {done.dead:,} dead{filtered}{stopped}"
    )
