"""[window] by its kind: each section gives the window that it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from ...errors import ConfigError, TidegateError
from ...windows import Cumulative, Hopping, Session, Sliding, Tumbling
from .base import Section
from .values import Columns, Duration, Span, Wait


class _OneKind(Section):
    """What the kinds share: the columns that make groups, and what becomes of windows later on.

    emission: "final" for windows that come out once, "updates" for those that are shown while open.
    corrections: for so long after it was late, a row still corrects its windows.
    where: a condition in SQL on the input's columns; other rows are left out.
    """

    kind: str
    by: Columns = Field(description="columns of the input: a window for each of their values")
    emission: Literal["final", "updates"] = "final"
    corrections: Wait | None = None
    where: str | None = None

    @model_validator(mode="after")
    def _holds(self) -> _OneKind:
        try:
            self.value()
        except TidegateError as error:
            raise ConfigError(error.given, error.allowed, error.hint) from None
        return self

    def value(self) -> Tumbling | Hopping | Sliding | Session | Cumulative:
        """Return the window."""
        raise NotImplementedError

    @property
    def changing(self) -> bool:
        """Whether windows can change after they came out."""
        return self.emission == "updates" or self.corrections is not None


class TumblingSection(_OneKind):
    """[window] of kind "tumbling": side by side; with a zone those of its calendar."""

    kind: Literal["tumbling"] = "tumbling"
    size: Span
    zone: str | None = None

    def value(self) -> Tumbling:
        """Return the window."""
        return Tumbling(self.size, zone=self.zone)


class HoppingSection(_OneKind):
    """[window] of kind "hopping": of one size, a hop apart."""

    kind: Literal["hopping"]
    size: Duration
    hop: Duration

    def value(self) -> Hopping:
        """Return the window."""
        return Hopping(self.size, self.hop)


class SlidingSection(_OneKind):
    """[window] of kind "sliding": one for each event, which do not change once they are out."""

    kind: Literal["sliding"]
    size: Duration
    emission: Literal["final"] = "final"
    corrections: None = None

    def value(self) -> Sliding:
        """Return the window."""
        return Sliding(self.size)


class SessionSection(_OneKind):
    """[window] of kind "session": events nearer to each other than the gap.

    A size that stands in the file counts for nothing, so that `--set` can change the kind.
    """

    kind: Literal["session"]
    gap: Duration

    @model_validator(mode="before")
    @classmethod
    def _without_size(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {key: value for key, value in given.items() if key != "size"}

    def value(self) -> Session:
        """Return the window."""
        return Session(self.gap)


class CumulativeSection(_OneKind):
    """[window] of kind "cumulative": growing by a step up to a size, by a zone's calendar too."""

    kind: Literal["cumulative"]
    step: Span
    size: Span
    zone: str | None = None

    def value(self) -> Cumulative:
        """Return the window."""
        return Cumulative(self.step, self.size, zone=self.zone)


def _kind_said(given: Any) -> Any:
    return {"kind": "tumbling", **given} if isinstance(given, Mapping) else given


WindowSection = Annotated[
    TumblingSection | HoppingSection | SlidingSection | SessionSection | CumulativeSection,
    Field(discriminator="kind"),
    BeforeValidator(_kind_said),
]
"""[window] of any kind, by its key `kind`; tumbling, where the key is not given."""
