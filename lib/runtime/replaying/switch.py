"""A replay's tables and checkpoint in the place of the job's, and back again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from ...commit.epochs import EpochFiles, require_no_rescaling
from ...commit.fence import claimed
from ...errors import ArgumentError, CheckpointError, FencedError
from ...jvm import forget_tables
from ..job import Job
from ..locations import local
from .beside import beside
from .carried import carry
from .exchange import exchange
from .journal import Folder, Switch, journal_of, read, write
from .noted import Noted, at_the_end, noted
from .places import NEW, OLD, outermost


def switch(job: Job, spark: SparkSession, *, back: bool = False) -> list[str]:
    """Put a replay's tables and checkpoint in the place of the job's; return these places.

    Those of the job are kept, under the same paths with ".before" behind; back: puts these in place
    again, and the replay beside them. The tables change names one after the other, the checkpoint
    last, each in one step where the system can exchange two folders (Linux, macOS): a reader of a
    table finds the one or the other. Killed in the middle it is finished by calling it again; until
    then the job does not start.

    The tables of a replay that began in the middle get what the job has of before first, each in
    one commit: results that the replay leaves out, and side rows of records before its start.

    Raises:
        ArgumentError: for paths that are not on this machine: elsewhere a folder cannot be renamed
            in one step, and the configuration names the replay's paths instead.
        CheckpointError: where there is nothing to put in place, or something is in the way, or one
            of the two has not ended; for a replay from the middle with other windows, another join
            or another reading than the job, whose results do not fit to those of before.
        TableError: for a replay from the middle whose table lacks a column of the job's.
        FencedError: where a driver was started meanwhile.
    """
    comes, leaves = (OLD, NEW) if back else (NEW, OLD)
    _require_here(job, comes)
    journal = journal_of(job)
    under_way = read(journal)
    if under_way is None:
        under_way = _begun(job, comes, leaves)
        replayed = None if back else _at_its_end(job, spark)
        epochs = _claim(under_way, spark)
        if replayed is not None:
            carry(beside(job), replayed, spark)
            # A table may be there now that was not.
            under_way = _begun(job, comes, leaves)
        # From here on no driver starts; one that did meanwhile has a newer epoch.
        write(journal, under_way)
        if any(EpochFiles(spark, path).newest() != epoch for path, epoch in epochs.items()):
            journal.unlink()
            raise FencedError(
                f"a driver of {job.name!r} was started while its tables were to be switched.",
                "a job and a replay that have ended.",
                "stop that driver.",
            )
    elif (under_way.comes, under_way.leaves) != (comes, leaves):
        raise CheckpointError(
            f"a switch {'' if back else 'back '}is under way: {journal}.",
            "the same switch again, which finishes it.",
            "--switch" if back else "--switch --back",
        )
    for folder in under_way.folders:
        rename(folder, comes, leaves)
    forget_tables(spark)
    journal.unlink()
    return [folder.place for folder in under_way.folders]


def _at_its_end(job: Job, spark: SparkSession) -> Noted:
    """Return what a replay began with; refuse one that is not at its end."""
    new = beside(job)
    at = noted(job, new.places.checkpoint, spark)
    at_the_end(new, at, spark)
    return at


def _require_here(job: Job, comes: str) -> None:
    elsewhere = [place for place in outermost(job) if local(place) is None]
    if elsewhere:
        raise ArgumentError(
            f"{', '.join(elsewhere)}: not on this machine.",
            "folders of a local file system, which change names in one step.",
            f"leave both where they are, and let the configuration name the paths that end in "
            f"{comes}: the job goes on there.",
        )


def _begun(job: Job, comes: str, leaves: str) -> Switch:
    """Look at all folders, and refuse what cannot be switched."""
    folders = []
    for place in outermost(job):
        if Path(f"{place}{leaves}").exists():
            raise CheckpointError(
                f"{place}{leaves} is in the way.",
                "no folder of that name: it is what the one in its place is to be called.",
                "move it away, or delete it if it is of no use any more.",
            )
        folders.append(Folder(place, _inode(Path(place)), _inode(Path(f"{place}{comes}"))))
    checkpoint = folders[-1]
    if checkpoint.comes is None or checkpoint.leaves is None:
        missing = checkpoint.place if checkpoint.leaves is None else f"{checkpoint.place}{comes}"
        raise CheckpointError(
            f"there is no checkpoint {missing}.",
            "a job that has run, and its replay."
            if comes == NEW
            else "a replay that was switched.",
            "tidegate replay JOB first." if comes == NEW else "",
        )
    return Switch(comes, leaves, folders)


def _claim(begun: Switch, spark: SparkSession) -> dict[str, int]:
    """Claim both checkpoints, so that no driver of before writes any more; return the epochs.

    Raises CheckpointError where one of the two has a driver that may still write.
    """
    checkpoint = begun.folders[-1].place
    epochs = {}
    for path in (checkpoint, f"{checkpoint}{begun.comes}"):
        files = EpochFiles(spark, path)
        identity = files.read()
        require_no_rescaling(identity, path)
        if identity is None or not identity.ended or files.newest() != identity.epoch:
            raise CheckpointError(
                f"{path} has not ended: its driver runs, or was killed.",
                "a job and a replay that have ended.",
                "stop the job; one that was killed is started once more, and ends.",
            )
        epochs[path] = claimed(files)
        files.write(replace(identity, epoch=epochs[path]))
    return epochs


def rename(folder: Folder, comes: str, leaves: str) -> None:
    """Do what is left to do at one place."""
    place, beside, aside = (Path(f"{folder.place}{end}") for end in ("", comes, leaves))
    here, there = _inode(place), _inode(beside)
    both = folder.comes is not None and folder.leaves is not None
    if both and here == folder.leaves and there == folder.comes and exchange(place, beside):
        here, there = there, here
    if folder.leaves is not None and here == folder.leaves:
        place.rename(aside)
        here = None
    if folder.leaves is not None and there == folder.leaves:
        beside.rename(aside)
    if folder.comes is not None and here is None and there == folder.comes:
        beside.rename(place)
    at = (_inode(place), _inode(aside))
    if at != (folder.comes, folder.leaves):
        raise CheckpointError(
            f"{place} and {aside} are not the folders that were to be there: somebody has moved "
            "or restored one of them in the middle of the switch.",
            "the folders as the switch left them.",
            "put them back under the names that they had.",
        )


def _inode(path: Path) -> int | None:
    """Return the number by which the file system knows a folder, whatever its name."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None
