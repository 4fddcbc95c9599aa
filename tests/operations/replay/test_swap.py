"""A swap is finished after a SIGKILL at any step; other folders are never replaced."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.errors import CheckpointError
from tidegate.operations.replay.swap import finish_swap
from tidegate.startup.swap_journal import (
    SwapFolder,
    SwapJournal,
    folder_inode,
    read_swap_journal,
    write_swap_journal,
)

FOLDERS = {
    "both": ("old", "new"),
    "only_old": ("old", None),
    "only_new": (None, "new"),
    "neither": (None, None),
    "checkpoint": ("old", "new"),
}
STEPS = 7
"""Six renames, and the deletion of the journal."""
KILLED_SWAP = """
import os, signal, sys
from pathlib import Path
from tidegate.operations.replay.swap import finish_swap
from tidegate.startup.swap_journal import read_swap_journal

remaining = int(sys.argv[2])

def killing(step):
    def run(*arguments):
        global remaining
        if not remaining:
            os.kill(os.getpid(), signal.SIGKILL)
        remaining -= 1
        return step(*arguments)
    return run

Path.rename, Path.unlink = killing(Path.rename), killing(Path.unlink)
journal = Path(sys.argv[1])
finish_swap(read_swap_journal(journal), journal)
"""


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return the journal of a swap that has not renamed any folder."""
    folders = []
    for name, (old, new) in FOLDERS.items():
        path, incoming = tmp_path / name, tmp_path / f"{name}.replay"
        for folder, content in ((path, old), (incoming, new)):
            if content is not None:
                folder.mkdir()
                (folder / content).touch()
        folders.append(SwapFolder(str(path), folder_inode(path), folder_inode(incoming)))
    file = tmp_path / "checkpoint.swap.json"
    write_swap_journal(file, SwapJournal(".replay", ".before", folders))
    return file


@pytest.mark.parametrize("steps", range(STEPS))
def test_a_swap_is_finished_after_a_kill_before_any_step(journal: Path, steps: int) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_SWAP, str(journal), str(steps)], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    swap = read_swap_journal(journal)
    assert swap is not None
    finish_swap(swap, journal)
    assert read_swap_journal(journal) is None
    for name, (old, new) in FOLDERS.items():
        assert _content(journal.parent / name) == new
        assert _content(journal.parent / f"{name}.before") == old
        assert not (journal.parent / f"{name}.replay").exists()


def test_a_swap_has_no_further_steps(journal: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED_SWAP, str(journal), str(STEPS)], check=True)
    assert not journal.exists()


@pytest.mark.parametrize(("outgoing", "incoming"), [(1, 2), (1, None), (None, 2)])
def test_a_folder_with_another_inode_is_not_swapped(
    tmp_path: Path, outgoing: int | None, incoming: int | None
) -> None:
    path, journal = tmp_path / "table", tmp_path / "journal"
    path.mkdir()
    swap = SwapJournal(".replay", ".before", [SwapFolder(str(path), outgoing, incoming)])
    write_swap_journal(journal, swap)
    with pytest.raises(CheckpointError, match="moved or restored"):
        finish_swap(swap, journal)
    assert path.exists()
    assert journal.exists()


def test_a_folder_that_appears_during_a_swap_is_not_replaced(journal: Path) -> None:
    swap = read_swap_journal(journal)
    assert swap is not None
    appeared = journal.parent / "only_new"
    appeared.mkdir()
    with pytest.raises(CheckpointError, match="moved or restored"):
        finish_swap(swap, journal)
    assert appeared.exists()
    assert (journal.parent / "only_new.replay").exists()


def _content(path: Path) -> str | None:
    return next((each.name for each in path.iterdir()), None) if path.exists() else None
