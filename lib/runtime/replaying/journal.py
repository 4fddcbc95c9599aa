"""What is written down of a switch of folders before it begins, until it is done."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import CheckpointError
from ..job import Job
from ..locations import local
from .places import OLD, outermost

_ENDING = ".switch.json"


@dataclass(frozen=True)
class Folder:
    """One place of a job, and the inodes of what leaves it and what comes; None for nothing."""

    place: str
    leaves: int | None
    comes: int | None


@dataclass(frozen=True)
class Switch:
    """A switch under way: what comes has names that end in `comes`, what leaves gets `leaves`."""

    comes: str
    leaves: str
    folders: Sequence[Folder]


def require_no_switch(job: Job) -> None:
    """Refuse to start a job whose tables are being switched.

    Raises:
        CheckpointError: which says how to finish it.
    """
    if local(job.places.checkpoint) is None:
        return
    under_way = read(journal_of(job))
    if under_way is not None:
        back = " --back" if under_way.comes == OLD else ""
        raise CheckpointError(
            f"the tables of {job.name!r} are being switched: {journal_of(job)}.",
            "a switch that is finished.",
            f"--switch{back} again, which finishes it. Nothing was written.",
        )


def journal_of(job: Job) -> Path:
    """Return the file that is there while the folders of a job are switched."""
    return Path(f"{local(outermost(job)[-1])}{_ENDING}")


def read(journal: Path) -> Switch | None:
    """Return the switch that is under way; None without one."""
    try:
        found = json.loads(journal.read_bytes())
    except FileNotFoundError:
        return None
    return Switch(found["comes"], found["leaves"], [Folder(**each) for each in found["folders"]])


def write(journal: Path, begun: Switch) -> None:
    """Write a switch down, whole or not at all."""
    part = journal.with_name(f"{journal.name}.part")
    with part.open("w", encoding="utf-8") as file:
        json.dump(asdict(begun), file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(journal)
