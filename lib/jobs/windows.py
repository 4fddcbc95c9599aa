"""The job `windows`: windowed aggregates of a topic's columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field, model_validator

from ..columns import quote_name
from ..config import Config, InputSection, OptionValue, Section, Table, WindowSection, config_errors
from ..config.aggregate_text import Aggregates, parse_aggregates
from ..config.input_sections import declared_fields, require_declared
from ..errors import ConfigError
from ..job.job import Job
from ..secrets import resolve_secrets
from ..sinks import CorrectedWindows, FanOut, Mirror, Sink
from ..stores import PostgresStore
from ..windows import WindowAggregation
from .output_sections import DATE, TargetOutputSection

DESCRIPTION = "Aggregate a topic's columns in event-time windows, from Kafka to Delta."
_WINDOW = "window"
_CHANGE_COLUMNS = ("version", "final", "partials")
WINDOW_BOUNDS = ("window_start", "window_end")
"""The columns of the mirrored table that replace the struct `window`."""


class MirrorSection(Section):
    """[mirror]: a PostgreSQL table with one row per window and its by columns."""

    table: str = Field(description="name of the table, optionally with its schema")
    host: str = Field(default="localhost", description="host of the server")
    port: int = Field(default=5432, ge=1, le=65_535, description="port of the server")
    database: str = Field(default="postgres", description="name of the database")
    user: str = Field(default="postgres", description="user of the database")
    password: OptionValue | None = Field(
        default=None, description="the password, as `env:NAME` or `file:PATH`"
    )
    tls: bool = Field(default=False, description="require TLS and verify the server")
    certificates: str | None = Field(
        default=None, description="PEM file of the certificate authorities of the server"
    )

    def sink(self, path: str, by: Sequence[str], aggregates: Iterable[str]) -> Sink:
        """Return the sink of final windows, with its secret resolved.

        path: the table of batches that PostgreSQL already has.
        """
        store_options = self.model_dump()
        if self.password is not None:
            store_options |= resolve_secrets({"password": str(self.password)}, "mirror")
        with config_errors("mirror"):
            store = PostgresStore(**store_options)
        start, end = WINDOW_BOUNDS
        columns = {start: f"{_WINDOW}.start", end: f"{_WINDOW}.end"}
        columns |= {name: quote_name(name) for name in (*by, *aggregates)}
        return Mirror(path, store=store, key=[*WINDOW_BOUNDS, *by], columns=columns)


class WindowTables(TargetOutputSection):
    """[output]: the windows, late rows, the log of corrections, and the mirrored batches."""

    late_rows: Table = "late_rows"
    corrections: Table = "corrections"
    mirror_batches: Table = Field(
        default="mirrored", description="batches that were written to PostgreSQL, with [mirror]"
    )
    sink: Literal["append", "upsert"] = "append"


class Windows(Config, name="windows"):
    """The configuration of the job `windows`; conf/jobs/windows.toml documents each key.

    >>> from tidegate.config import load_config
    >>> from tidegate.spark.jars import project_root
    >>> file = project_root() / "conf" / "jobs" / "windows.toml"
    >>> job(load_config(Windows, file, [], {}).config).name
    'windows'
    """

    input: InputSection
    window: WindowSection
    aggregates: Aggregates
    mirror: MirrorSection | None = None
    output: WindowTables

    @model_validator(mode="after")
    def _require_matching_sections(self) -> Windows:
        if self.window.kind == "sliding" and self.output.sink == "upsert":
            raise ConfigError(
                "invalid output.sink: 'upsert' with window.kind = 'sliding'; events with the same "
                "time would replace each other",
                "'append' for sliding windows",
                "--set output.sink=append",
            )
        if self.mirror is not None and (self.window.can_change or self.window.kind == "sliding"):
            raise ConfigError(
                "invalid section: [mirror] with sliding windows, or windows that can change",
                "final windows, with one row per window and by columns",
                "a job with tidegate.sinks.Mirror(..., position=...)",
            )
        return self

    @model_validator(mode="after")
    def _require_declared_columns(self) -> Windows:
        require_declared(self.input, [self.input.time], "input.time")
        require_declared(self.input, self.window.by, "window.by")
        fields = declared_fields(self.input.event_schema)
        if fields is not None:
            parse_aggregates(self.aggregates, fields)
        return self

    @model_validator(mode="after")
    def _require_valid_columns(self) -> Windows:
        reserved = [_WINDOW, *self.window.by, *(WINDOW_BOUNDS if self.mirror else ())]
        if self.window.can_change:
            reserved += _CHANGE_COLUMNS
        elif self.output.has_date:
            reserved.append(DATE)
        for name in self.aggregates:
            if name.lower() in map(str.lower, reserved):
                raise ConfigError(
                    f"invalid aggregates.{name}: duplicate column name",
                    f"names other than {', '.join(reserved)}",
                    f"{name}_value",
                )
            reserved.append(name)
        if self.output.has_date and self.window.can_change:
            raise ConfigError(
                f"invalid layout in [output]: the table of windows that can change has no {DATE}",
                "a table of final windows, or a layout by window.start or the by columns",
                "--set output.cluster_by=window.start",
            )
        self.output.require_columns([_WINDOW, *self.window.by, *self.aggregates])
        return self


def job(config: Windows) -> Job:
    """Return the job of a configuration.

    Raises ConfigError for columns that the input does not have.
    """
    window = config.window
    input_stream = config.as_input(config.input, where=window.where)
    fields = input_stream.format.schema.fieldNames()
    aggregation = WindowAggregation(
        window.to_window(),
        by=window.by,
        aggs=parse_aggregates(config.aggregates, fields),
    )
    return config.as_job(
        inputs={"input": input_stream},
        transform=aggregation,
        sink=sink(config, aggregation),
        emit=window.emit,
        allowed_lateness=window.allowed_lateness,
        late_rows=config.output.late_rows,
    )


def sink(config: Windows, aggregation: WindowAggregation) -> Sink:
    """Return the sink: `CorrectedWindows` if windows can change, else an append or upsert."""
    window = config.window
    output = config.output
    if window.can_change:
        log = None if window.allowed_lateness is None else output.corrections
        return CorrectedWindows(
            output.table, aggregation=aggregation, log=log, layout=output.layout
        )
    start = f"{_WINDOW}.start"
    target = output.append_sink(start)
    if output.sink == "upsert":
        target = output.upsert_sink([_WINDOW, *window.by], start)
    if config.mirror is None:
        return target
    mirror = config.mirror.sink(output.mirror_batches, window.by, config.aggregates)
    return FanOut(target, other_sinks=[mirror])
