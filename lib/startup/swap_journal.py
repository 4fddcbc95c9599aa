"""The journal of a swap: which folders of a job a replay is replacing, until the swap is done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..checkpoint.persisted_json import FormatVersion, HashedFile, JsonForm, list_of
from ..errors import CheckpointError
from ..job.job import Job
from ..paths import is_below, local_path, normalize_path

REPLAY_SUFFIX = ".replay"
"""The suffix of the paths of a replay."""
BACKUP_SUFFIX = ".before"
"""The suffix of the paths of tables that a replay has replaced."""
JOURNAL_SUFFIX = ".swap.json"
"""The suffix of the path of a journal, after that of the checkpoint."""


@dataclass(frozen=True)
class SwapFolder:
    """One folder of a swap, by inode before and after it; None for a missing folder."""

    path: str
    outgoing_inode: int | None
    incoming_inode: int | None


@dataclass(frozen=True)
class SwapJournal:
    """A swap in progress.

    New folders have names that end in `incoming_suffix`; replaced folders get `outgoing_suffix`.
    """

    incoming_suffix: str
    outgoing_suffix: str
    folders: Sequence[SwapFolder]

    @property
    def command_options(self) -> str:
        """The options of `tidegate replay JOB` that finish the swap."""
        return "--swap --back" if self.incoming_suffix == BACKUP_SUFFIX else "--swap"


SWAP_FOLDER_FORM = JsonForm(
    SwapFolder,
    {
        "path": "path",
        "outgoing_inode": "outgoing_inode",
        "incoming_inode": "incoming_inode",
    },
)
SWAP_JOURNAL_FILE = HashedFile(
    FormatVersion("tidegate swap", 1),
    JsonForm(
        SwapJournal,
        {
            "incoming_suffix": "incoming_suffix",
            "outgoing_suffix": "outgoing_suffix",
            "folders": ("folders", list_of(SWAP_FOLDER_FORM.codec)),
        },
    ),
    remedy="restore the file from a backup; or compare the folders of the job with those that end "
    f"in {REPLAY_SUFFIX!r} and {BACKUP_SUFFIX!r}, finish the renames, and delete the file.",
)


def replay_paths(job: Job) -> dict[str, str]:
    """Return the replay's path for each path that a job writes."""
    locations = job.locations
    side_tables = [locations.dead_letters, locations.offset_gaps, *locations.late_rows.values()]
    written_paths = [path for path, _ in job.sink.tables()]
    written_paths += [*(table.path for table in side_tables), locations.checkpoint]
    # Outer folders are first, because an inner folder moves with its outer folder.
    new_paths: dict[str, str] = {}
    for path in sorted(written_paths, key=len):
        outer = next((each for each in new_paths if is_below(path, each)), None)
        if outer is None:
            new_paths[path] = f"{path.rstrip('/')}{REPLAY_SUFFIX}"
        else:
            new_paths[path] = f"{new_paths[outer]}{path.removeprefix(outer.rstrip('/'))}"
    return new_paths


def outermost_folders(job: Job) -> list[str]:
    """Return the folders that a job writes, without folders inside others; the checkpoint last."""
    checkpoint = normalize_path(job.locations.checkpoint)
    written_paths = list(dict.fromkeys(normalize_path(path) for path in replay_paths(job)))
    folders = [
        path for path in written_paths if not any(is_below(path, other) for other in written_paths)
    ]
    return sorted(folders, key=lambda path: path == checkpoint)


def require_no_swap(job: Job) -> None:
    """Refuse to start a job whose folders are being swapped.

    Raises CheckpointError, which names the command that finishes the swap.
    """
    if local_path(job.locations.checkpoint) is None:
        return
    swap = read_swap_journal(swap_journal_path(job))
    if swap is not None:
        raise CheckpointError(
            f"the swap of the tables of {job.name!r} is incomplete",
            f"{swap_journal_path(job)} exists. Nothing was written.",
            f"finish it: tidegate replay JOB {swap.command_options}",
        )


def swap_journal_path(job: Job) -> Path:
    """Return the path of the journal, which exists while the folders of a job are swapped."""
    return Path(f"{local_path(outermost_folders(job)[-1])}{JOURNAL_SUFFIX}")


def read_swap_journal(path: Path) -> SwapJournal | None:
    """Return the swap in progress; None if there is none."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    return SWAP_JOURNAL_FILE.from_json(content, str(path))


def write_swap_journal(path: Path, swap: SwapJournal) -> None:
    """Write the journal atomically."""
    temporary_path = path.with_name(f"{path.name}.part")
    with temporary_path.open("w", encoding="utf-8") as file:
        file.write(SWAP_JOURNAL_FILE.to_json(swap))
        file.flush()
        os.fsync(file.fileno())
    temporary_path.replace(path)


def folder_inode(path: Path) -> int | None:
    """Return the inode of a folder, which a rename does not change; None without a folder."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None
