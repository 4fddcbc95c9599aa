"""Small disks that tests fill, and folders that they make read-only; root alone can mount both."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = 4096


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a disk at a new folder."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a disk can be mounted by root alone, and not in every container")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def filled(disk: Path, pages: int) -> Path:
    """Fill a disk except for some pages; return the file that fills it."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        free = os.statvfs(disk).f_bavail
        file.write(b"\0" * PAGE * max(free - pages, 0))
    return filler


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only, which modes of files are not for root."""
    bind = ["mount", "--bind", str(folder), str(folder)]
    if os.getuid() != 0 or subprocess.run(bind, capture_output=True).returncode != 0:
        pytest.skip("a folder can be mounted by root alone, and not in every container")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
