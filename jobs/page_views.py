"""Count page views in event-time windows: Kafka in, Delta out, each record exactly once.

spark-submit jobs/page_views.py [--config PATH] [--set section.key=value]... [--show-config] [--verbose]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import model_validator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from rich.console import Console

from lib.aggregates import Aggregate, count, largest, mean, total
from lib.errors import ConfigError
from lib.runtime.config import load
from lib.runtime.exit_codes import guarded
from lib.runtime.job import Job, Limits
from lib.runtime.paths import project_root
from lib.runtime.run import run, write_summary
from lib.runtime.secrets import resolved
from lib.runtime.sections import (
    InputSection,
    JobSection,
    KafkaSection,
    LimitsSection,
    OutputSection,
    Section,
    TriggerSection,
    WindowSection,
)
from lib.runtime.session import quiet, session
from lib.runtime.shown import table
from lib.runtime.stop import leave
from lib.sinks import Append, Rejected, Sink, Upsert
from lib.sources import KafkaSource, Reading, json_format
from lib.windows import closes, hopping, sliding, tumbling
from lib.windows import session as sessions

TIME = "event_time"


class PageViews(Section):
    """The job's configuration: conf/jobs/page_views.toml tells each key."""

    job: JobSection = JobSection()
    kafka: KafkaSection
    input: InputSection
    window: WindowSection
    output: OutputSection = OutputSection()
    limits: LimitsSection = LimitsSection()
    trigger: TriggerSection = TriggerSection()

    @model_validator(mode="after")
    def _keyed(self) -> PageViews:
        if self.window.kind == "sliding" and self.output.sink == "upsert":
            raise ConfigError(
                "output.sink is 'upsert', and window.kind 'sliding'; events at one instant would replace each other.",
                "append for sliding windows.",
                "--set output.sink=append",
            )
        return self


def views(events: DataFrame, window: WindowSection) -> DataFrame:
    """Aggregate the clicks in the configured windows."""
    aggs: dict[str, Aggregate] = {
        "views": count(),
        "mean_ms": mean("ms"),
        "slowest_ms": largest("ms"),
        "bytes": total("bytes"),
    }
    if window.kind == "hopping":
        return hopping(events, window.size or "", window.hop or "", by=window.by, aggs=aggs, time=TIME)
    if window.kind == "sliding":
        return sliding(events, window.size or "", by=window.by, aggs=aggs, time=TIME)
    if window.kind == "session":
        return sessions(events, window.gap or "", by=window.by, aggs=aggs, time=TIME)
    return tumbling(events, window.size or "", by=window.by, aggs=aggs, time=TIME)


def late_from(window: WindowSection) -> Column:
    """Give the instant from which a click is late."""
    length = window.gap if window.kind == "session" else window.size
    return closes(window.kind, F.col(TIME), length or "", hop=window.hop)


def job(config: PageViews) -> Job:
    """Put the job together."""
    kafka, source, output = config.kafka, config.input, config.output
    places: dict[str, str] = output.tables()
    path = places["output.table"]
    keys = ["window", *config.window.by]
    sink: Sink = Append(path=path) if output.sink == "append" else Upsert(path=path, keys=keys)
    return Job(
        name=config.job.name,
        reading=Reading(
            source=KafkaSource(**kafka.model_dump(exclude={"options"}), options=resolved(kafka.options)),
            format=json_format(source.event_schema),
            time=source.time,
            lateness=source.lateness,
            future_tolerance=source.future_tolerance,
            value_cap=source.value_cap,
        ),
        transform=lambda events: views(events, config.window),
        sink=sink,
        checkpoint=output.place(output.checkpoint),
        dead=Rejected(path=places["output.dead_letters"], step="dead"),
        late=Rejected(path=places["output.late"], step="late"),
        closes=late_from(config.window),
        limits=Limits(**config.limits.model_dump()),
        every=config.trigger.interval if config.trigger.kind == "continuous" else None,
    )


def main(
    config: Annotated[Path | None, typer.Option(help="TOML file.", show_default="conf/jobs/page_views.toml")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value, any number of times.")] = None,
    show_config: Annotated[bool, typer.Option("--show-config", help="Show the merged configuration and end.")] = False,
    summary: Annotated[Path | None, typer.Option(help="Write the run's numbers to this JSON file.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Spark's warnings, and whole traces of errors.")] = False,
) -> None:
    """Count page views in event-time windows, from Kafka to Delta.

    Exit codes: 0 done, or stopped by SIGTERM or Ctrl-C after its batch; 2 configuration; 3 source; 4 too many dead
    letters; 5 table and checkpoint do not fit; 6 rows do not add up; 7 setup; 8 other writers of the table; 1 anything
    else; 130, 143 stopped at once by a second signal.
    """
    code = guarded(lambda: work(config, set_ or (), show_config, summary, verbose), verbose=verbose)
    leave(code)


def work(config: Path | None, overrides: Sequence[str], show: bool, summary: Path | None, verbose: bool) -> None:
    """Do what the command line asks for."""
    default = project_root() / "conf" / "jobs" / "page_views.toml"
    loaded = load(PageViews, config or (default if default.is_file() else None), overrides)
    if show:
        Console(width=None if sys.stdout.isatty() else 160).print(table(loaded))
        return
    spark = session(loaded.config.job.name)
    quiet(spark, "WARN" if verbose else "FATAL")
    done = run(job(loaded.config), spark)
    print(
        f"{done.job}: {done.batches} batches in {done.seconds:.1f} s: {done.rows_in:,} rows read, {done.rows_out:,} "
        f"written, {done.late:,} late, {done.dead:,} dead{', stopped as asked' if done.stopped else ''}",
        file=sys.stderr,
    )
    if summary is not None:
        write_summary(done, summary)
    spark.stop()


if __name__ == "__main__":
    typer.run(main)
