"""The command line of jobs: options, exit codes, and the run itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pyspark.sql import SparkSession

from ..config.job_config import Config
from ..config.loading import config_table, load_config
from ..engine.runner import describe_open_results, run
from ..errors import ArgumentError
from ..job.job import Job
from ..operations.compare import compare as compare_with_log
from ..operations.compare import require_agreement
from ..operations.doctor import examine_job, render_findings, require_no_errors
from ..operations.late_replay import merge_late_rows
from ..operations.replay.comparison import render_comparison, require_replay_agreement
from ..operations.replay.replay import replay as replay_job
from ..operations.replay.swap import swap_tables
from ..process.exit_codes import EXIT_CODES, run_with_exit_code
from ..process.shutdown import defer_interrupt, exit_now, exit_on_interrupt
from ..spark.jars import project_root
from ..spark.session import set_log_level, spark_session
from ..spark.spark_errors import explain_disk_errors
from ..spark.spark_logging import configure_logging
from ..startup.swap_journal import BACKUP_SUFFIX, REPLAY_SUFFIX
from ..telemetry.console import plain_console
from ..telemetry.stats import Summary, write_summary

ConfigModel = TypeVar("ConfigModel", bound=Config)

ConfigFileOption = Annotated[
    Path | None,
    typer.Option(help="Configuration file (TOML); a script has conf/jobs/<job>.toml by default."),
]
OverridesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a key: section.key=value; repeatable."
    ),
]
ResumeFromTableOption = Annotated[
    bool,
    typer.Option(
        "--resume-from-table",
        help="Recover from a lost checkpoint: resume at the offsets of the target's last commit.",
    ),
]
BackfillOption = Annotated[
    bool,
    typer.Option(
        "--backfill",
        help="With a new checkpoint: process all existing records as one batch, then stream.",
    ),
]
RecreateOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OUTPUT",
        help="Re-create the missing table of this output, empty; or start a new output with the "
        "next batch. 'all' re-creates all missing tables. Repeatable.",
    ),
]
ShowConfigOption = Annotated[
    bool, typer.Option("--show-config", help="Print each value and its source, and exit.")
]
SummaryFileOption = Annotated[
    Path | None, typer.Option(help="Write the totals of the run to this JSON file.")
]
ReportFileOption = Annotated[
    Path | None,
    typer.Option(help="Write an HTML report of the run: metrics, charts and dead letters."),
]
MergeLateRowsOption = Annotated[
    bool,
    typer.Option("--replay-late", help="Merge the table of late rows into the windows and exit."),
]
DoctorOption = Annotated[
    bool,
    typer.Option("--doctor", help="Run the checks of a start, print the findings and exit."),
]
CompareOption = Annotated[
    bool,
    typer.Option("--compare", help="Recompute the target as one batch, compare the two and exit."),
]
IgnoredColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN", help="With --compare or --replay: exclude this column; repeatable."
    ),
]
ReplayOption = Annotated[
    bool,
    typer.Option(
        "--replay",
        help="Run the job over its records again, into separate tables; compare them and exit.",
    ),
]
SwapOption = Annotated[
    bool,
    typer.Option("--swap", help="Replace the tables of the job by those of its replay and exit."),
]
SwapBackOption = Annotated[
    bool, typer.Option("--back", help="With --swap: restore the previous tables.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="With --replay: print the comparison as JSON.")
]
LogJsonOption = Annotated[bool, typer.Option("--log-json", help="Log one JSON object per line.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="Log Spark's warnings and complete stack traces.")
]


def run_job_command(
    model: type[ConfigModel],
    build: Callable[[ConfigModel], Job],
    *,
    about: str,
    result_label: str = "written",
) -> None:
    """Run a job as a command-line program with tidegate's options and exit codes; never return.

    model: the configuration class. Its name is that of the default configuration file:
        <name>.toml next to the program, or conf/jobs/<name>.toml of this project.
    build: returns the job of a configuration.
    about: the first line of the help.
    result_label: the label of output rows in the summary line.

    >>> run_job_command(PageViews, job, about="Count page views.")             # doctest: +SKIP
    """
    app = typer.Typer(add_completion=False)
    command = build_job_command(model, build, about=about, result_label=result_label)
    app.command(epilog=EXIT_CODE_HELP)(command)
    app()


def build_job_command(
    model: type[ConfigModel],
    build: Callable[[ConfigModel], Job],
    *,
    about: str,
    result_label: str = "written",
    use_shipped_config: bool = True,
    compare_by_default: bool = False,
    replay_by_default: bool = False,
    doctor_by_default: bool = False,
) -> Callable[..., None]:
    """Return the function of a job's command; it exits the process.

    The other arguments are those of `run_job_command`.

    use_shipped_config: use the job's default configuration file if --config is missing.
    compare_by_default, replay_by_default, doctor_by_default: what the command does without an
        option that says otherwise.
    """

    def main(
        config: ConfigFileOption = None,
        set_: OverridesOption = None,
        show_config: ShowConfigOption = False,
        summary: SummaryFileOption = None,
        report: ReportFileOption = None,
        merge_late: MergeLateRowsOption = False,
        resume_from_table: ResumeFromTableOption = False,
        recreate: RecreateOption = None,
        backfill: BackfillOption = False,
        doctor: DoctorOption = doctor_by_default,
        compare: CompareOption = compare_by_default,
        ignore: IgnoredColumnsOption = None,
        replay: ReplayOption = replay_by_default,
        swap: SwapOption = False,
        swap_back: SwapBackOption = False,
        as_json: JsonOption = False,
        log_json: LogJsonOption = False,
        verbose: VerboseOption = False,
    ) -> None:
        def run_command() -> None:
            if replay and backfill:
                raise ArgumentError(
                    "invalid option: --backfill with --replay",
                    "a replay, which processes the job's records as a stream",
                    "remove --backfill",
                )
            width = None if sys.stdout.isatty() else 160
            console = plain_console(highlight=True, width=width)
            config_file = config
            if config is None and use_shipped_config:
                config_file = _shipped_config_path(model.name)
            loaded_config = load_config(model, config_file, set_ or ())
            if show_config:
                console.print(config_table(loaded_config))
                return
            log = configure_logging(as_json=log_json)
            settings = loaded_config.config
            with defer_interrupt():
                spark = spark_session(settings.job.name, **dict(settings.spark))
            exit_on_interrupt()
            set_log_level(spark, "WARN" if verbose else "FATAL")
            start_options: dict[str, Any] = {
                "resume_from_table": resume_from_table,
                "recreate": recreate or (),
            }
            job = build(settings)
            if doctor:
                findings = examine_job(job, spark, **start_options)
                console.print(render_findings(findings))
                require_no_errors(findings)
            elif swap or swap_back:
                run_swap(job, spark, back=swap_back)
            elif replay:
                run_replay(job, spark, ignore or (), as_json=as_json)
            elif compare:
                run_compare(job, spark, ignore or ())
            elif merge_late:
                log.info("%s: %s late rows merged", job.name, f"{merge_late_rows(job, spark):,}")
            else:
                job = replace(job, backfill_threshold=0) if backfill else job
                job = replace(job, report=str(report)) if report else job
                run_summary = run(job, spark, **start_options)
                log.info("%s", format_summary(run_summary, result_label))
                open_results = describe_open_results(job, spark)
                if open_results is not None:
                    log.info("%s: %s", run_summary.job, open_results)
                if summary is not None:
                    with explain_disk_errors([str(summary)]):
                        write_summary(run_summary, summary)
            spark.stop()

        exit_now(run_with_exit_code(run_command, verbose=verbose))

    main.__doc__ = about
    return main


def run_compare(job: Job, spark: SparkSession, ignore: Sequence[str]) -> None:
    """Compare a job's target with a batch run over its records; raise if they differ."""
    differences = compare_with_log(job, spark, ignore=ignore)
    require_agreement(job, differences)
    typer.echo(f"{job.sink.path}: {differences}.")


def run_replay(job: Job, spark: SparkSession, ignore: Sequence[str], *, as_json: bool) -> None:
    """Replay a job and print the comparison; raise if the tables differ."""
    comparison = replay_job(job, spark, ignore=ignore)
    if comparison is None:
        typer.echo(f"the replay of {job.name!r} was stopped; run it again to resume it.")
        return
    if as_json:
        typer.echo(json.dumps(comparison.as_dict()))
    else:
        plain_console(soft_wrap=True).print(render_comparison(comparison))
    require_replay_agreement(job, comparison)


def run_swap(job: Job, spark: SparkSession, *, back: bool) -> None:
    """Replace the tables of a job by those of its replay, or restore the previous ones."""
    paths = swap_tables(job, spark, back=back)
    suffix = REPLAY_SUFFIX if back else BACKUP_SUFFIX
    typer.echo(f"{job.name}: swapped {', '.join(paths)}; the replaced tables end in {suffix}.")


EXIT_CODE_HELP = "\n".join(
    [
        "Exit codes:",
        "0: done, or stopped by SIGTERM or Ctrl-C after the running batch",
        "1: any other failure",
        *(f"{code}: {meaning}" for code, meaning in sorted(dict(EXIT_CODES.values()).items())),
        "130, 143: stopped immediately by a second signal",
    ]
)
"""The help text of the exit codes."""


def _shipped_config_path(name: str) -> Path | None:
    """Return the job's default configuration file: next to the program, or of this project."""
    for folder in (Path(sys.argv[0]).parent, project_root() / "conf" / "jobs"):
        file = folder / f"{name}.toml"
        if file.is_file():
            return file
    return None


def format_summary(summary: Summary, result_label: str) -> str:
    """Return the totals of a run as one line; rare ones only if they are not 0."""
    parts = [
        f"{summary.rows_in:,} rows read",
        f"{summary.rows_out:,} {result_label}",
        f"{summary.late_rows:,} late",
        f"{summary.dead_letters:,} dead letters",
    ]
    rare_counts = (
        ("filtered out", summary.filtered_rows),
        ("discarded", summary.discarded_rows),
        ("clamped", summary.clamped_rows),
        ("overflows", summary.overflows),
        ("lost offsets", summary.lost_offsets),
        ("batches skipped", summary.skipped_batches),
    )
    parts += [f"{number:,} {name}" for name, number in rare_counts if number]
    parts += ["stopped on request"] if summary.stopped else []
    batches = f"{summary.job}: {summary.batches} batches in {summary.seconds:.1f} s"
    return f"{batches}: {', '.join(parts)}"
