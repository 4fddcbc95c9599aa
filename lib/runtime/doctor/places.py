"""What stands around a job's tables and its checkpoint: room, properties, what a kill has left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from ...commit.epochs import require_no_rescaling
from ...commit.once import untouched
from ...durations import microseconds
from ...errors import TidegateError
from ..job import Job
from ..process.room import existing
from ..query.partitions import partitions, unlike
from ..query.places import LOW_DISK, written
from ..query.preflight import Preflight
from .findings import Concern

_LOGS = ("offsets", "commits")
_MEMORY = "delta.logRetentionDuration"
_APPEND_ONLY = "delta.appendOnly"
_LASTING = "30 days"
"""Delta's own."""


def room(job: Job) -> str:
    """Tell what is free on each disk that the job writes to, and which folders it may not write."""
    free: dict[int, str] = {}
    short = False
    closed = []
    for place in written(job):
        folder = existing(place)
        if folder is None:
            continue
        number = shutil.disk_usage(folder).free
        short = short or number < LOW_DISK
        free.setdefault(folder.stat().st_dev, f"{number / 1024**2:,.0f} MiB free under {folder}")
        if not os.access(folder, os.W_OK):
            closed.append(str(folder))
    told = "; ".join(free.values()) or "no place of this machine"
    if closed:
        return Concern(f"{told}; not to be written to: {', '.join(dict.fromkeys(closed))}")
    return Concern(f"{told}; less than {LOW_DISK / 1024**3:.0f} GiB") if short else told


def properties(spark: SparkSession, path: str) -> str:
    """Tell the properties of a table that a job minds.

    Raises TableError for a table that forgets which batches it holds.
    """
    log = untouched(spark, path)
    if log.id is None:
        return "no table yet"
    state = log.require_memory()
    told = []
    kept = state.property(_MEMORY)
    if kept is not None and _shorter(kept):
        told.append(
            f"{_MEMORY} = {kept}: a batch that was begun longer ago than that is refused, since "
            "the table no longer says of what it was"
        )
    if (state.property(_APPEND_ONLY) or "").lower() == "true":
        told.append(f"{_APPEND_ONLY} = true: sinks that merge, and --resume-from-table, fail")
    return Concern("; ".join(told)) if told else "none that a job minds"


def last_start(preflight: Preflight) -> str:
    """Tell whether the driver that was started last has said that it ended."""
    noted = preflight.noted
    if noted is None:
        return "none"
    if noted.ended:
        return f"epoch {noted.epoch}, which has ended"
    return Concern(
        f"epoch {noted.epoch}, which has not said that it ended: it runs, or was killed. A start "
        "takes its place: the older one then writes no more"
    )


def state(preflight: Preflight) -> str:
    """Tell in how many partitions the state is, and whether the session asks for others."""
    require_no_rescaling(preflight.noted, preflight.logs.path)
    told = unlike(preflight.spark, preflight.logs)
    if told:
        return Concern("; ".join(told))
    number = partitions(preflight.logs)
    return "none in a checkpoint" if number is None else f"in {number} partitions"


def check_sums(checkpoint: Path, preflight: Preflight) -> str:
    """Name the check sums that a killed writer has left without their file.

    Spark takes one for a second query on the checkpoint when it writes the file that it is of.
    """
    left = orphans(checkpoint)
    if not left:
        return "none without its file"
    noted = preflight.noted
    runs = noted is not None and not noted.ended
    return Concern(
        f"left over by a killed run, and no second query: {', '.join(map(str, left))}; to be "
        f"deleted while the job is stopped{', which is to be seen first' if runs else ''}"
    )


def orphans(checkpoint: Path) -> list[Path]:
    """Return the check sums in a checkpoint's logs whose file is not there."""
    return [
        file
        for log in _LOGS
        for file in sorted((checkpoint / log).glob(".*.crc"))
        if not (file.parent / file.name[1:].removesuffix(".crc")).exists()
    ]


def _shorter(kept: str) -> bool:
    try:
        return microseconds(kept.lower().removeprefix("interval ")) < microseconds(_LASTING)
    except TidegateError:
        return False
