"""Shards of long test targets; CI runs one shard per commit, in turn."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import TypeVar

from tidegate.spark.jars import project_root

Test = TypeVar("Test")


def due(tests: Sequence[Test], parts: int, commit: str) -> list[Test]:
    """Return the shard of a commit: every nth test, so that each shard has some parameters of a
    function."""
    return list(tests[int(commit, 16) % parts :: parts])


def commit() -> str:
    """Return the id of the checked-out commit; "0" without a repository."""
    try:
        result = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=project_root(), capture_output=True, text=True
        )
    except FileNotFoundError:
        return "0"
    return result.stdout.strip() if result.returncode == 0 else "0"
