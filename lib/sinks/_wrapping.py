"""What is common to sinks that change a batch's rows and hand them on."""

from __future__ import annotations

from dataclasses import dataclass

from .sink import Sink, remade


@dataclass(frozen=True, kw_only=True)
class Wrapping:
    """A sink around another, whose tables it writes."""

    sink: Sink

    @property
    def path(self) -> str:
        """The path of the sink's target."""
        return self.sink.path

    @property
    def step(self) -> str:
        """The step of the sink's target."""
        return self.sink.step

    @property
    def remade(self) -> frozenset[str]:
        """The steps that the sink makes anew by itself."""
        return remade(self.sink)

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables of the sink."""
        return self.sink.tables()
