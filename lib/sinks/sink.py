"""What a sink is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pyspark.sql import DataFrame

from ..commit.batch import Batch
from ..commit.outcome import Outcome


class Sink(Protocol):
    """One Delta table or several that take each batch exactly once."""

    @property
    def path(self) -> str:
        """The path of the target: the Delta table for which there is the job."""

    @property
    def step(self) -> str:
        """The target's step in the application id; no two steps of a job share one."""

    def tables(self) -> list[tuple[str, str]]:
        """Return the path and the step of every table that is written, in the order of writing."""

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the batch's rows, or skip them when the table already has this batch.

        frames: by the name "rows" what the job's transform has made; in a job without one, the rows
        of each input by the input's name.
        """


def remade(sink: Sink) -> frozenset[str]:
    """Return the steps whose table a sink makes anew where it is gone, out of its other tables.

    A sink of such a table says so by an attribute `remade`. Every other table that is gone stops
    the job, as its rows would be missing.
    """
    return frozenset(getattr(sink, "remade", ()))


def compacts(sink: Sink) -> bool:
    """Return whether a sink puts the files of its tables together itself.

    Such a sink has a method `compact`, of the session.
    """
    return hasattr(sink, "compact")


def reads_once(sink: Sink) -> bool:
    """Return whether a sink reads its rows once, in the write of its only commit.

    Such a sink says so by an attribute `reads_once`. Its rows need not be kept.
    """
    return bool(getattr(sink, "reads_once", False))


def require_fits(sink: Sink, frames: Callable[[], Mapping[str, DataFrame]]) -> bool:
    """Refuse frames whose columns the sink's tables do not take; nothing is read or written.

    A sink that knows it before a batch has a method `require_fits`, of the frames, which are asked
    for then alone. Returns whether it does.

    Raises:
        ColumnError, TableError: for other columns, types or another layout.
    """
    look = getattr(sink, "require_fits", None)
    if look is None:
        return False
    look(frames())
    return True
