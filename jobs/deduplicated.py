"""Take the duplicates out of a topic with redelivery: Kafka in, Delta out, each event once.

spark-submit jobs/deduplicated.py [--config PATH] [--set section.key=value]... [--show-config] [--verbose]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import Field, model_validator
from pyspark.sql import functions as F
from rich.console import Console

from lib.columns import microseconds
from lib.errors import ConfigError
from lib.runtime.config import load
from lib.runtime.exit_codes import guarded
from lib.runtime.job import Job, Limits
from lib.runtime.paths import project_root
from lib.runtime.run import run, write_summary
from lib.runtime.secrets import resolved
from lib.runtime.sections import (
    Duration,
    InputSection,
    JobSection,
    KafkaSection,
    LimitsSection,
    Names,
    OutputSection,
    Section,
    TriggerSection,
)
from lib.runtime.session import quiet, session
from lib.runtime.shown import table
from lib.runtime.stop import leave
from lib.sinks import Append, Rejected, Sink
from lib.sinks.unseen import Unseen
from lib.sketches import BloomTable, decided, deduplicate
from lib.sources import KafkaSource, Reading, json_format

TIME = "event_time"
PLACE = ("topic", "partition", "offset")


class KeySection(Section):
    """[deduplicate]: what makes two events the same, and how far back that is known.

    Within `horizon` the answer is exact. With `keys`, the number of different keys planned for, a key that came in any
    earlier batch is set aside too, and a new one by mistake with the probability `false_positives`.
    """

    key: Names
    horizon: Duration
    hold: Duration
    keys: int | None = Field(default=None, gt=0)
    false_positives: float = Field(default=0.001, ge=1e-9, lt=1)
    refuse_at: float = Field(default=2.0, gt=1)

    @model_validator(mode="after")
    def _held(self) -> KeySection:
        if microseconds(self.hold) > microseconds(self.horizon):
            raise ConfigError(
                f"deduplicate.hold is {self.hold!r}, longer than deduplicate.horizon, {self.horizon!r}.",
                "a hold as long as the horizon, or shorter.",
            )
        return self


class Tables(OutputSection):
    """[output]: as for every job, and two more tables: `repeated`, the rows set aside, and `seen`, the filter."""

    table: str = "events"
    repeated: str = "repeated"
    seen: str = "seen"
    checkpoint: str = "_checkpoints/deduplicated"
    sink: Literal["append"] = "append"

    def tables(self) -> dict[str, str]:
        """Give each table's key and place."""
        more = {f"output.{key}": self.place(getattr(self, key)) for key in ("repeated", "seen")}
        return super().tables() | more


class NamedJob(JobSection):
    """[job]: the name, which is part of every commit and must stay the same over restarts."""

    name: str = Field(default="deduplicated", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")


class Deduplicated(Section):
    """The job's configuration: conf/jobs/deduplicated.toml tells each key."""

    job: NamedJob = NamedJob()
    kafka: KafkaSection
    input: InputSection
    deduplicate: KeySection
    output: Tables = Tables()
    limits: LimitsSection = LimitsSection()
    trigger: TriggerSection = TriggerSection()


def job(config: Deduplicated) -> Job:
    """Put the job together."""
    kafka, source, output, same = config.kafka, config.input, config.output, config.deduplicate
    places = output.tables()
    reading = Reading(
        source=KafkaSource(**kafka.model_dump(exclude={"options"}), options=resolved(kafka.options)),
        format=json_format(source.event_schema),
        time=source.time,
        lateness=source.lateness,
        future_tolerance=source.future_tolerance,
        value_cap=source.value_cap,
        keep=PLACE,
    )
    fields = {name.lower() for name in reading.format.schema.fieldNames()}
    order = [f"kafka_{name}" if name in fields else name for name in PLACE]
    return Job(
        name=config.job.name,
        reading=reading,
        transform=lambda events: deduplicate(events, same.key, same.horizon, hold=same.hold, order=order, time=TIME),
        sink=sink(same, places, [TIME, *order]),
        checkpoint=output.place(output.checkpoint),
        dead=Rejected(path=places["output.dead_letters"], step="dead"),
        late=Rejected(path=places["output.late"], step="late"),
        closes=decided(F.col(TIME), same.hold),
        limits=Limits(**config.limits.model_dump()),
        every=config.trigger.interval if config.trigger.kind == "continuous" else None,
    )


def sink(same: KeySection, places: dict[str, str], order: Sequence[str]) -> Sink:
    """Give the sink: one that remembers keys past the horizon, where it is told how many there will be."""
    if same.keys is None:
        return Append(path=places["output.table"])
    return Unseen(
        path=places["output.table"],
        repeated=places["output.repeated"],
        seen=places["output.seen"],
        known=BloomTable(key=same.key, keys=same.keys, false_positives=same.false_positives),
        order=order,
        refuse_at=same.refuse_at,
    )


def main(
    config: Annotated[Path | None, typer.Option(help="TOML file.", show_default="conf/jobs/deduplicated.toml")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value, any number of times.")] = None,
    show_config: Annotated[bool, typer.Option("--show-config", help="Show the merged configuration and end.")] = False,
    summary: Annotated[Path | None, typer.Option(help="Write the run's numbers to this JSON file.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Spark's warnings, and whole traces of errors.")] = False,
) -> None:
    """Take the duplicates out of a topic with redelivery, from Kafka to Delta.

    Exit codes: 0 done, or stopped by SIGTERM or Ctrl-C after its batch; 2 configuration, or a filter that is full; 3
    source; 4 too many dead letters; 5 table and checkpoint do not fit; 6 rows do not add up; 7 setup; 8 other writers
    of the table; 1 anything else; 130, 143 stopped at once by a second signal.
    """
    code = guarded(lambda: work(config, set_ or (), show_config, summary, verbose), verbose=verbose)
    leave(code)


def work(config: Path | None, overrides: Sequence[str], show: bool, summary: Path | None, verbose: bool) -> None:
    """Do what the command line asks for."""
    default = project_root() / "conf" / "jobs" / "deduplicated.toml"
    loaded = load(Deduplicated, config or (default if default.is_file() else None), overrides)
    if show:
        Console(width=None if sys.stdout.isatty() else 160).print(table(loaded))
        return
    spark = session(loaded.config.job.name)
    quiet(spark, "WARN" if verbose else "FATAL")
    done = run(job(loaded.config), spark)
    print(
        f"{done.job}: {done.batches} batches in {done.seconds:.1f} s: {done.rows_in:,} rows read, {done.rows_out:,} "
        f"unlike all within the horizon, {done.late:,} late, {done.dead:,} dead"
        f"{', stopped as asked' if done.stopped else ''}",
        file=sys.stderr,
    )
    if summary is not None:
        write_summary(done, summary)
    spark.stop()


if __name__ == "__main__":
    typer.run(main)
