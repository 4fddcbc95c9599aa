"""Aggregates of any topic's columns, in event-time windows, by configuration alone."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from ..columns import require_free
from ..errors import ColumnError, ConfigError
from ..runtime.config import Config, InputSection, Table, WindowSection
from ..runtime.config.aggregate_text import Aggregates, aggregates_of
from ..runtime.job import Job
from ..sinks import Corrected, FanOut, Sink
from ..windows import Windowed
from .mirrored import BOUNDS, MirrorSection
from .tables import DATE, LaidOutSection

ABOUT = "Aggregate a topic's columns in event-time windows, from Kafka to Delta."
_WINDOW = "window"
_OF_CHANGES = ("version", "final", "partials")


class WindowTables(LaidOutSection):
    """[output]: the windows, the late rows, the log of corrections, and the batches mirrored."""

    late: Table = "late_rows"
    corrections: Table = "corrections"
    mirrored: Table = "mirrored"
    sink: Literal["append", "upsert"] = "append"


class Windows(Config, name="windows"):
    """The job's configuration: conf/jobs/windows.toml tells each key."""

    input: InputSection
    window: WindowSection
    aggregates: Aggregates
    mirror: MirrorSection | None = None
    output: WindowTables

    @model_validator(mode="after")
    def _keyed(self) -> Windows:
        if self.window.kind == "sliding" and self.output.sink == "upsert":
            raise ConfigError(
                "output.sink is 'upsert', and window.kind 'sliding'; events at one instant would "
                "replace each other.",
                "append for sliding windows.",
                "--set output.sink=append",
            )
        return self

    @model_validator(mode="after")
    def _mirrored(self) -> Windows:
        if self.mirror is not None and (self.window.changing or self.window.kind == "sliding"):
            raise ConfigError(
                "there is [mirror], and the windows change after they came out, or slide.",
                "final windows, which have one row for each window and its by columns.",
                "a job of your own: tidegate.sinks.Mirror with a position.",
            )
        return self

    @model_validator(mode="after")
    def _named_once(self) -> Windows:
        taken = [_WINDOW, *self.window.by, *(BOUNDS if self.mirror else ())]
        taken += _OF_CHANGES if self.window.changing else [DATE] if self.output.dated else []
        try:
            require_free(taken, self.aggregates)
        except ColumnError:
            clash = [name for name in self.aggregates if name.lower() in map(str.lower, taken)]
            raise ConfigError(
                f"aggregates.{clash[0]} is the name of another column of the result.",
                f"names other than {', '.join(taken)}.",
                f"{clash[0]}_value",
            ) from None
        return self

    @model_validator(mode="after")
    def _parted(self) -> Windows:
        if self.output.dated and self.window.changing:
            raise ConfigError(
                f"[output] names {DATE}, and windows change after they came out: their table has "
                "no such column.",
                "a table of final windows, or a layout by window.start or the by columns.",
                "--set output.cluster_by=window.start",
            )
        self.output.require_columns([_WINDOW, *self.window.by, *self.aggregates])
        return self


def job(config: Windows) -> Job:
    """Return the job of a configuration.

    Raises ConfigError for columns that the input's schema does not have.
    """
    window = config.window
    given = config.as_input(config.input)
    fields = given.reading.format.schema.fieldNames()
    _require_fields(window.by, fields)
    views = Windowed(
        window.value(),
        by=window.by,
        aggs=aggregates_of(config.aggregates, fields),
        where=window.where,
    )
    return config.as_job(
        inputs={"input": given},
        transform=views,
        sink=sink(config, views),
        emission=window.emission,
        corrections=window.corrections,
        late=config.output.late,
    )


def sink(config: Windows, views: Windowed) -> Sink:
    """Return the sink: one that changes windows after they came out, where the job asks for it."""
    window = config.window
    output = config.output
    if window.changing:
        log = None if window.corrections is None else output.corrections
        return Corrected(output.table, windowed=views, log=log, layout=output.layout)
    start = f"{_WINDOW}.start"
    upserted = output.sink == "upsert"
    target = output.upsert([_WINDOW, *window.by], start) if upserted else output.append(start)
    if config.mirror is None:
        return target
    return FanOut(target, also=[config.mirror.sink(output.mirrored, window.by)])


def _require_fields(by: list[str], fields: list[str]) -> None:
    unknown = [name for name in by if name not in fields]
    if unknown:
        raise ConfigError(
            f"window.by names {', '.join(unknown)}.",
            f"the fields of the input: {', '.join(fields)}.",
        )
