"""[window]: one section model per kind of window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from ..windows import Cumulative, Hopping, Session, Sliding, Tumbling, Window
from .config_types import (
    CalendarDuration,
    Columns,
    Duration,
    NonNegativeDuration,
    Section,
    config_errors,
    matching_arguments,
)

_ZONE = "time zone of a calendar, such as Europe/Berlin"


class _WindowSection(Section):
    """Keys that all kinds of windows share."""

    window_class: ClassVar[type[Window]]
    kind: str
    by: Columns = Field(description="grouping columns of the input")
    emit: Literal["final", "changes"] = Field(
        default="final",
        description="once, after the watermark passes the window's end; or after each batch that "
        "changes the window",
    )
    allowed_lateness: NonNegativeDuration | None = Field(
        default=None, description="late rows within this time still correct their windows"
    )
    where: str | None = Field(
        default=None, description="SQL condition on the input; other rows are filtered out"
    )

    @model_validator(mode="after")
    def _validate_window(self) -> _WindowSection:
        with config_errors():
            self.to_window()
        return self

    def to_window(self) -> Window:
        """Return the window."""
        return self.window_class(**matching_arguments(self, self.window_class))

    @property
    def can_change(self) -> bool:
        """Whether a window can change after it was emitted."""
        return self.emit == "changes" or self.allowed_lateness is not None


class TumblingSection(_WindowSection):
    """[window] of kind "tumbling": adjacent windows of one size; with `zone`, of its calendar."""

    window_class: ClassVar = Tumbling
    kind: Literal["tumbling"] = "tumbling"
    size: CalendarDuration = Field(
        description="length of a window; with `zone` also 1 day, 1 week, 1 month of the calendar"
    )
    zone: str | None = Field(default=None, description=_ZONE)


class HoppingSection(_WindowSection):
    """[window] of kind "hopping": overlapping windows of one size, one per hop."""

    window_class: ClassVar = Hopping
    kind: Literal["hopping"]
    size: Duration = Field(description="length of a window")
    hop: Duration = Field(description="time from the start of a window to that of the next")


class SlidingSection(_WindowSection):
    """[window] of kind "sliding": one window per event, ending at the event; emitted once."""

    window_class: ClassVar = Sliding
    kind: Literal["sliding"]
    size: Duration = Field(description="length of a window")
    emit: Literal["final"] = Field(
        default="final", description="once, after the watermark passes the window's end"
    )
    allowed_lateness: None = Field(default=None, description="not supported")


class SessionSection(_WindowSection):
    """[window] of kind "session": events less than `gap` apart.

    The section ignores `size`, so that `--set window.kind=session` works with any file.
    """

    window_class: ClassVar = Session
    kind: Literal["session"]
    gap: Duration = Field(description="pause between two events that ends a session")

    @model_validator(mode="before")
    @classmethod
    def _drop_size(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {key: value for key, value in values.items() if key != "size"}


class CumulativeSection(_WindowSection):
    """[window] of kind "cumulative": windows that grow by `step` up to `size`."""

    window_class: ClassVar = Cumulative
    kind: Literal["cumulative"]
    step: CalendarDuration = Field(description="by how much a window grows")
    size: CalendarDuration = Field(description="length after which windows start again")
    zone: str | None = Field(default=None, description=_ZONE)


def _default_kind(values: Any) -> Any:
    return {"kind": "tumbling", **values} if isinstance(values, Mapping) else values


WindowSection = Annotated[
    TumblingSection | HoppingSection | SlidingSection | SessionSection | CumulativeSection,
    Field(discriminator="kind"),
    BeforeValidator(_default_kind),
]
"""[window] of any kind, selected by `kind`; tumbling by default."""
