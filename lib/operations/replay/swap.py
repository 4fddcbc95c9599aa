"""Swap: replace the tables and the checkpoint of a job by those of its replay, and back."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from ...checkpoint.lineage_files import LineageFiles
from ...errors import ArgumentError, CheckpointError, FencedError
from ...job.job import Job, require_job
from ...jvm import clear_table_cache
from ...paths import local_path
from ...spark.job_session import in_job_session
from ...spark.spark_errors import explain_disk_errors
from ...startup.environment import written_paths
from ...startup.swap_journal import (
    BACKUP_SUFFIX,
    REPLAY_SUFFIX,
    SwapFolder,
    SwapJournal,
    folder_inode,
    outermost_folders,
    read_swap_journal,
    swap_journal_path,
    write_swap_journal,
)
from ..offline_lease import OfflineLease
from .manifest import final_replay_batch, load_or_create_manifest
from .replay import as_replay_job


@in_job_session
def swap_tables(job: Job, spark: SparkSession, *, back: bool = False) -> list[str]:
    """Replace the tables and the checkpoint of a job by those of its replay; return their paths.

    The job's own folders move to the same paths with the suffix ".before". back: move them back,
    and the replay to the suffix ".replay". A journal records the folders, which are then renamed
    one after the other, the checkpoint last. Readers of a table see no table for the moment between
    its two renames. After a kill, call it again to finish; until then the job does not start.

    Raises:
        ArgumentError: for paths that are not local: object stores cannot rename a folder, and the
            configuration and the catalog name the replay's paths instead.
        CheckpointError: if there is nothing to swap in, a folder already exists, or one of the two
            jobs has not ended.
        FencedError: if a driver was started meanwhile.
        SetupError: for a full or read-only disk.

    >>> swap_tables(changed_job, spark)                                        # doctest: +SKIP
    ['/data/views', '/data/views.checkpoint']
    """
    require_job(job)
    suffixes = (BACKUP_SUFFIX, REPLAY_SUFFIX)
    incoming_suffix, outgoing_suffix = suffixes if back else suffixes[::-1]
    _require_local_folders(job, incoming_suffix)
    journal_path = swap_journal_path(job)
    swap = read_swap_journal(journal_path)
    with explain_disk_errors(written_paths(job, spark)):
        if swap is None:
            swap = _plan_swap(job, incoming_suffix, outgoing_suffix)
            if not back:
                replay_job = as_replay_job(job)
                manifest = load_or_create_manifest(job, replay_job.locations.checkpoint, spark)
                final_replay_batch(replay_job, manifest, spark)
            checkpoint = swap.folders[-1].path
            own_files, incoming_files = (
                LineageFiles(spark, path) for path in (checkpoint, f"{checkpoint}{incoming_suffix}")
            )
            if back:
                # No job starts on a replaced checkpoint, so nothing else replaces such a claim.
                incoming_files.delete_unwritten_claims()
            leases = [OfflineLease.claim_ended(files) for files in (own_files, incoming_files)]
            # The journal prevents further starts; a driver started before it has a newer epoch.
            write_swap_journal(journal_path, swap)
            try:
                for lease in leases:
                    lease.require_not_fenced()
            except FencedError:
                journal_path.unlink()
                raise
        elif swap.incoming_suffix != incoming_suffix:
            raise CheckpointError(
                f"cannot swap the tables of {job.name!r}",
                f"a swap in the other direction is unfinished: {journal_path}",
                f"finish it first: tidegate replay JOB {swap.command_options}",
            )
        finish_swap(swap, journal_path)
    clear_table_cache(spark)
    return [folder.path for folder in swap.folders]


def _require_local_folders(job: Job, incoming_suffix: str) -> None:
    remote_paths = [place for place in outermost_folders(job) if local_path(place) is None]
    if remote_paths:
        raise ArgumentError(
            f"cannot swap {', '.join(remote_paths)}: not on this machine",
            "folders of a local file system, which can be renamed",
            f"change the job's configuration to the paths that end in {incoming_suffix}, where it "
            "resumes; and for tables in a catalog, ALTER TABLE ... SET LOCATION to these paths",
        )


def _plan_swap(job: Job, incoming_suffix: str, outgoing_suffix: str) -> SwapJournal:
    """Return the folders to swap; raise CheckpointError if they cannot be swapped."""
    folders = []
    for path in outermost_folders(job):
        if Path(f"{path}{outgoing_suffix}").exists():
            raise CheckpointError(
                f"{path}{outgoing_suffix} already exists",
                f"the swap renames {path} to it",
                "move or delete the existing folder",
            )
        incoming = Path(f"{path}{incoming_suffix}")
        folders.append(SwapFolder(path, folder_inode(Path(path)), folder_inode(incoming)))
    checkpoint = folders[-1]
    if checkpoint.incoming_inode is None or checkpoint.outgoing_inode is None:
        missing_suffix = "" if checkpoint.outgoing_inode is None else incoming_suffix
        is_replay_missing = incoming_suffix == REPLAY_SUFFIX
        raise CheckpointError(
            f"no checkpoint {checkpoint.path}{missing_suffix}",
            "the job has not run, or has no replay"
            if is_replay_missing
            else "no replay was swapped in",
            "run tidegate replay JOB first" if is_replay_missing else "",
        )
    return SwapJournal(incoming_suffix, outgoing_suffix, folders)


def finish_swap(swap: SwapJournal, journal_path: Path) -> None:
    """Do the renames of a journal that are still to be done, then delete it."""
    for folder in swap.folders:
        _swap_folder(folder, swap.incoming_suffix, swap.outgoing_suffix)
    journal_path.unlink()


def _swap_folder(folder: SwapFolder, incoming_suffix: str, outgoing_suffix: str) -> None:
    suffixes = ("", incoming_suffix, outgoing_suffix)
    current, incoming, outgoing = (Path(f"{folder.path}{each}") for each in suffixes)
    if folder.outgoing_inode is not None and folder_inode(current) == folder.outgoing_inode:
        current.rename(outgoing)
    # rename() would replace an empty folder.
    is_expected = folder.incoming_inode is not None and not current.exists()
    if is_expected and folder_inode(incoming) == folder.incoming_inode:
        incoming.rename(current)
    inodes = (folder_inode(current), folder_inode(outgoing))
    if inodes != (folder.incoming_inode, folder.outgoing_inode):
        raise CheckpointError(
            f"cannot finish the swap of {folder.path}",
            f"{current} or {outgoing} was moved or restored during the swap",
            "move the folders back to the names that they had",
        )
