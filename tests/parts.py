"""Which part of a long target's tests is due: CI takes them by turns, commit by commit."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import TypeVar

from tidegate.runtime.process.installation import project_root

Test = TypeVar("Test")


def due(tests: Sequence[Test], parts: int, commit: str) -> list[Test]:
    """Return the part of tests that is due at a commit: each so-manyth, so that of tests which
    stand together, as those of one function with several values, some are in each part."""
    return list(tests[int(commit, 16) % parts :: parts])


def commit() -> str:
    """Return the id of the commit that is checked out; zero where there is no repository."""
    try:
        told = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=project_root(), capture_output=True, text=True
        )
    except FileNotFoundError:
        return "0"
    return told.stdout.strip() if told.returncode == 0 else "0"
