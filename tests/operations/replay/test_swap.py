"""A swap is finished after a SIGKILL at any step; other folders are never replaced."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.kafka_topics import pages_input
from tidegate import Job
from tidegate.checkpoint.lineage import CheckpointLineage
from tidegate.checkpoint.lineage_files import LineageFiles
from tidegate.errors import CheckpointError
from tidegate.operations.replay.swap import finish_swap, swap_tables
from tidegate.sinks import Append
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


def test_tables_are_swapped_back_after_a_kill_between_a_claim_and_its_lineage(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(
        name="pages",
        inputs={"pages": pages_input("127.0.0.1:1", "pages")},
        sink=Append(str(tmp_path / "pages")),
    )
    ended = CheckpointLineage(job=job.name, released=True, epoch=3)
    replaced_checkpoint = f"{job.locations.checkpoint}.before"
    for checkpoint in (job.locations.checkpoint, replaced_checkpoint):
        assert LineageFiles(spark, checkpoint).write(ended, replace=False)
    # What a swap of an earlier version left, killed after it had created the file of its claim.
    assert LineageFiles(spark, replaced_checkpoint).create(4)
    swap_tables(job, spark, back=True)
    for checkpoint in (job.locations.checkpoint, f"{job.locations.checkpoint}.replay"):
        assert LineageFiles(spark, checkpoint).read() == replace(ended, epoch=4)


def _content(path: Path) -> str | None:
    return next((each.name for each in path.iterdir()), None) if path.exists() else None
