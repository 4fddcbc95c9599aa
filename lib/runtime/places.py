"""Where a job keeps its checkpoint, and the tables beside its target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..sinks import SideTable

if TYPE_CHECKING:
    from .job import Job


@dataclass(frozen=True, kw_only=True)
class Places:
    """A job's checkpoint, and the tables beside its target; late rows by input."""

    checkpoint: str
    dead: SideTable
    late: Mapping[str, SideTable]
    gaps: SideTable


def places_of(job: Job) -> Places:
    """Return where a job keeps them: where it says, and else beside its sink's table."""
    beside = job.sink.path.rstrip("/")
    steps = {name: f"late_{name}" for name in job.inputs}
    given = dict(job.late) if isinstance(job.late, Mapping) else {}
    if len(job.inputs) == 1:
        steps = dict.fromkeys(job.inputs, "late")
    if isinstance(job.late, str):
        given = dict.fromkeys(job.inputs, job.late)
    aside = partial(SideTable, layout=job.side_layout)
    return Places(
        checkpoint=job.checkpoint or f"{beside}.checkpoint",
        dead=aside(job.dead or f"{beside}.dead_letters", step="dead", also=job.dead_topic),
        late={
            name: aside(given.get(name, f"{beside}.{step}"), step=step)
            for name, step in steps.items()
        },
        gaps=aside(job.gaps or f"{beside}.gaps", step="gaps"),
    )
