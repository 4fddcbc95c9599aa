"""Which jobs can have rows that are late by the log alone; all others are refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..errors import ArgumentError

if TYPE_CHECKING:
    from .job import Job

_SPLITTING = ("minpartitions", "maxrecordsperpartition")


def require_by_log(job: Job) -> None:
    """Refuse inputs whose rows are late by the log where something else would decide too.

    Raises:
        ArgumentError: which says what stands in the way.
    """
    if not job.by_log:
        return
    reason = next(_reasons(job), None)
    if reason is not None:
        raise ArgumentError(
            f"watermarks is 'log', and the job has {reason}.",
            "final results of windows, joins or deduplication, of inputs that all have it.",
            "watermarks='partition'",
        )


def _reasons(job: Job) -> Iterator[str]:
    if not all(given.by_log for given in job.inputs.values()):
        yield "an input with other watermarks"
    if job.emission == "updates" or job.corrections is not None or job.merges:
        yield "windows that change after they came out"
    if not job.keeps_state:
        yield "no transform that says which rows are late"
    if any(given.reading.source.on_data_loss == "record" for given in job.inputs.values()):
        yield "an input with on_data_loss='record', which goes on past records that nobody read"


def require_unsplit(idle: object, options: Iterable[str]) -> None:
    """Refuse an input whose watermark hangs on a clock, or whose partitions several tasks read.

    Raises:
        ArgumentError: which says what stands in the way.
    """
    if idle is not None:
        raise ArgumentError(
            f"watermarks is 'log', with idle {idle!r}: a clock would decide which rows are late.",
            "watermarks='log' without idle, or idle with other watermarks.",
        )
    splitting = [name for name in options if name.lower() in _SPLITTING]
    if splitting:
        raise ArgumentError(
            f"watermarks is 'log', with the option {splitting[0]!r}, by which several tasks read "
            "one partition.",
            "a task for each partition.",
        )
