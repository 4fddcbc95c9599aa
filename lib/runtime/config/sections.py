"""The sections of a job's configuration: which keys there are, and what each may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from ...columns import microseconds
from ...errors import ArgumentError, ColumnTypeError, ConfigError
from ...sources import KafkaSource
from ...windows._calendar import calendar, fixed, is_period
from ...windows._grid import steps
from ..locations import below, keep_apart, whole
from .secrets import resolved


def _checked(least: int) -> Callable[[Any], str]:
    def check(text: Any) -> str:
        try:
            microseconds(text, least=least)
        except ColumnTypeError as error:
            # pydantic takes ValueErrors for its report and lets a TypeError through.
            raise ConfigError(error.given, error.allowed) from None
        return str(text)

    return check


def _span(text: Any) -> str:
    return text if is_period(text) else _checked(1)(text)


def _listed(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


Duration = Annotated[str, BeforeValidator(_checked(1))]
Span = Annotated[str, BeforeValidator(_span)]
Wait = Annotated[str, BeforeValidator(_checked(0))]
_NEED = {
    "tumbling": {"size"},
    "hopping": {"size", "hop"},
    "sliding": {"size"},
    "session": {"gap"},
    "cumulative": {"size", "step"},
}
JobName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Names = Annotated[list[str], BeforeValidator(_listed)]
# Strict, since "17" or 17 would else be a time in 1970.
Moment = Annotated[AwareDatetime, Field(strict=True)]
Offsets = dict[str, dict[int, int]]


class Section(BaseModel):
    """What all sections share: no unknown keys, and no value that is silently turned into another
    type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, str_min_length=1)


class JobSection(Section):
    """[job]: the name, which is part of every commit and must stay the same over restarts."""

    name: JobName = "page_views"


class BrokerSection(Section):
    """[kafka] of a job with several inputs: the brokers; `options` pass through to Kafka."""

    servers: str = "localhost:9092"
    options: dict[str, str] = {}


class TopicsSection(Section):
    """Which topics an input reads, from where on, and how many rows a batch."""

    topics: Names = []
    pattern: str | None = None
    partitions: dict[str, list[int]] | None = None
    start: Literal["earliest", "latest"] | Moment | Offsets = "earliest"
    max_rows: int | None = Field(default=1_000_000, gt=0)

    @model_validator(mode="after")
    def _one_choice(self) -> TopicsSection:
        chosen = [key for key in ("topics", "pattern", "partitions") if getattr(self, key)]
        if len(chosen) != 1:
            raise ConfigError(
                f"names {' and '.join(chosen) or 'no topic'}.",
                "exactly one of topics, pattern, partitions.",
                'topics = ["clicks"]',
            )
        return self

    def source(self, broker: BrokerSection) -> KafkaSource:
        """Return the source, with the brokers' secrets read from where they are kept."""
        named = {key: getattr(self, key) for key in TopicsSection.model_fields}
        return KafkaSource(servers=broker.servers, options=resolved(broker.options), **named)


class KafkaSection(BrokerSection, TopicsSection):
    """[kafka] of a job with one input: the brokers and the topics."""


class TimesSection(Section):
    """The column of the event time, the watermark, and what is done with rows that are not to be
    counted."""

    time: str = "event_time"
    lateness: Wait
    future_tolerance: Duration | None = "1 hour"
    future: Literal["reject", "clamp"] = "reject"
    watermarks: Literal["partition"] | Annotated[int, Field(ge=1)] = 1
    idle: Duration | None = None
    value_cap: int = Field(default=65_536, gt=0)


class InputSection(TimesSection):
    """[input]: the values' schema (DDL) and their event time."""

    event_schema: str = Field(alias="schema")


class TopicSection(TopicsSection, InputSection):
    """One input of a job that has several: its topics, the values' schema (DDL) and their event
    time."""


class WindowSection(Section):
    """[window]: the kind, its durations, and the columns that make groups.

    A session has no size, and one that stands in the file counts for nothing, so that `--set` can
    change the kind. With a zone, tumbling and cumulative windows are of its calendar. Windows that
    are shown while they are open, or that late rows change, are kept by their merged partials,
    which sliding windows do not have."""

    kind: Literal["tumbling", "hopping", "sliding", "session", "cumulative"] = "tumbling"
    size: Span | None = None
    hop: Duration | None = None
    gap: Duration | None = None
    step: Span | None = None
    zone: str | None = None
    by: Names = ["page"]
    emission: Literal["final", "updates"] = "final"
    corrections: Wait | None = None

    @model_validator(mode="after")
    def _durations(self) -> WindowSection:
        need = _NEED[self.kind]
        have = {key for key in ("size", "hop", "gap", "step") if getattr(self, key) is not None}
        if need != have - ({"size"} if self.kind == "session" else set()):
            raise ConfigError(
                f"window.kind is {self.kind!r}, with "
                f"{' and '.join(sorted(have)) or 'no duration'}.",
                f"for {self.kind}: {' and '.join(sorted(need, reverse=True))}.",
                " ".join(f"--set window.{key}='10 seconds'" for key in sorted(need, reverse=True)),
            )
        if self.kind == "sliding" and self.kept:
            raise ConfigError(
                f"window.kind is 'sliding', with emission {self.emission!r} and corrections "
                f"{self.corrections!r}.",
                "emission 'final' and no corrections for sliding windows.",
            )
        self._require_lengths()
        if self.size and self.hop and microseconds(self.hop) > microseconds(self.size):
            raise ConfigError(
                f"window.hop is {self.hop!r}, longer than window.size, {self.size!r}; there would "
                "be gaps.",
                "a hop as long as the size, or shorter.",
            )
        return self

    @property
    def kept(self) -> bool:
        """Whether windows can change after they came out."""
        return self.emission == "updates" or self.corrections is not None

    def _require_lengths(self) -> None:
        if self.zone is not None and self.kind not in ("tumbling", "cumulative"):
            raise ConfigError(
                f"window.zone is {self.zone!r}, with window.kind {self.kind!r}.",
                "a zone for tumbling and cumulative.",
            )
        try:
            if self.kind == "cumulative":
                steps(self.step or "", self.size or "", "0 seconds", self.zone)
            elif self.zone is not None:
                calendar(self.size or "", self.zone, what="window.size")
            elif self.size is not None:
                fixed(self.size, "window.size")
        except ArgumentError as error:
            raise ConfigError(error.given, error.allowed, error.hint) from None


class TablesSection(Section):
    """[output]: the root folder (absolute, or relative to the working directory), and below it the tables.

    TABLES names the keys that are tables; a job with more of them has a section of its own, which
    names them too."""

    TABLES: ClassVar[tuple[str, ...]] = ("table", "dead_letters")

    root: Annotated[str, AfterValidator(whole)] = Field(default=".run", validate_default=True)
    table: str
    dead_letters: str = "dead_letters"
    checkpoint: str

    @model_validator(mode="after")
    def _apart(self) -> TablesSection:
        for key, path in self.tables().items():
            if not below(path, self.root):
                raise ConfigError(
                    f"{key} is {path}.", f"a path under output.root, which is {self.root}."
                )
        try:
            keep_apart(self.tables().items(), self.place(self.checkpoint))
        except ArgumentError as error:
            raise ConfigError(error.given, error.allowed, error.hint) from None
        return self

    def place(self, path: str) -> str:
        """Return a path below the root, absolute and plain."""
        return whole(path, self.root)

    def tables(self) -> dict[str, str]:
        """Return each table's key and place."""
        return {f"output.{key}": self.place(getattr(self, key)) for key in self.TABLES}


class OutputSection(TablesSection):
    """[output] of a job with one input."""

    TABLES: ClassVar[tuple[str, ...]] = (*TablesSection.TABLES, "late")

    table: str = "page_views"
    late: str = "late_rows"
    checkpoint: str = "_checkpoints/page_views"
    sink: Literal["append", "upsert"] = "append"


class LimitsSection(Section):
    """[limits]: how many unreadable rows of one batch stop the job, and how many late ones raise an
    alarm."""

    dead_rows: int | None = Field(default=10_000, ge=0)
    dead_ratio: float | None = Field(default=0.1, ge=0, le=1)
    late_rows: int | None = Field(default=None, ge=0)
    late_ratio: float | None = Field(default=0.1, ge=0, le=1)
    min_rows: int = Field(default=1_000, ge=0)


class MetricsSection(Section):
    """[metrics]: the port at which Prometheus finds the run's numbers; none by default."""

    port: int | None = Field(default=None, gt=0, lt=65_536)


class TriggerSection(Section):
    """[trigger]: read what there is and end, or run on and look every `interval`."""

    kind: Literal["available-now", "continuous"] = "available-now"
    interval: Wait = "10 seconds"
