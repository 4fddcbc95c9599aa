"""The command line that all jobs share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from .config.job_config import Config
from .config.load import load
from .config.shown import table
from .job import Job
from .process.exit_codes import guarded
from .process.installation import project_root
from .process.session import quiet, spark_session
from .process.stop import leave
from .query.replay import replay_late
from .query.run import run, write_summary
from .summary import Summary

Model = TypeVar("Model", bound=Config)

EXIT_CODES = """Exit codes: 0 done, or stopped by SIGTERM or Ctrl-C after its batch; 2 configuration; 3 source; 4 too
many dead letters; 5 table and checkpoint do not fit; 6 rows do not add up; 7 setup; 8 other writers of the table; 1
anything else; 130, 143 stopped at once by a second signal."""

File = Annotated[Path | None, typer.Option(help="TOML file.", show_default="conf/jobs/<job>.toml")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="section.key=value, any number of times.")
]
ShowConfig = Annotated[
    bool, typer.Option("--show-config", help="Show the merged configuration and end.")
]
SummaryFile = Annotated[
    Path | None, typer.Option(help="Write the run's numbers to this JSON file.")
]
ReplayLate = Annotated[
    bool, typer.Option("--replay-late", help="Merge the late table into the windows, and end.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Spark's warnings, and whole traces of errors.")
]


def command(
    name: str,
    model: type[Model],
    build: Callable[[Model], Job],
    about: str,
    *,
    result: str = "written",
) -> None:
    """Run a job from the command line, with the options and exit codes of all jobs; does not return.

    `name` is the job's and that of its file conf/jobs/<name>.toml, which counts where no other is
    given; `model` validates the configuration, and `build` makes the job of it. `about` is the
    help's first line, `result` what the last line calls the rows that came out."""

    def main(
        config: File = None,
        set_: Overrides = None,
        show_config: ShowConfig = False,
        summary: SummaryFile = None,
        replay: ReplayLate = False,
        verbose: Verbose = False,
    ) -> None:
        def work() -> None:
            loaded = load(model, config or _shipped(name), set_ or ())
            if show_config:
                Console(width=None if sys.stdout.isatty() else 160).print(table(loaded))
                return
            spark = spark_session(loaded.config.job.name)
            quiet(spark, "WARN" if verbose else "FATAL")
            if replay:
                merged = replay_late(build(loaded.config), spark)
                print(f"{loaded.config.job.name}: {merged:,} late rows merged", file=sys.stderr)
            else:
                done = run(build(loaded.config), spark)
                print(_told(done, result), file=sys.stderr)
                if summary is not None:
                    write_summary(done, summary)
            spark.stop()

        leave(guarded(work, verbose=verbose))

    main.__doc__ = f"{about}\n\n{EXIT_CODES}"
    typer.run(main)


def _shipped(name: str) -> Path | None:
    file = project_root() / "conf" / "jobs" / f"{name}.toml"
    return file if file.is_file() else None


def _told(done: Summary, result: str) -> str:
    stopped = ", stopped as asked" if done.stopped else ""
    return (
        f"{done.job}: {done.batches} batches in {done.seconds:.1f} s: {done.rows_in:,} rows read, "
        f"{done.rows_out:,} "
        f"{result}, {done.late:,} late, {done.dead:,} dead{stopped}"
    )
