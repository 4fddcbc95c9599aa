"""Shards of long test targets; CI runs one shard per commit, in turn."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from typing import TypeVar
from zlib import crc32

from tidegate.spark.jars import project_root

Test = TypeVar("Test")


def due(tests: Sequence[Test], parts: int, commit: str) -> list[Test]:
    """Return the shard of a commit: every nth test, so that each shard has some parameters of a
    function."""
    return list(tests[int(commit, 16) % parts :: parts])


def is_due(test: str, parts: int, commit: str) -> bool:
    """Return whether a test, by its id, is in the shard of a commit."""
    return (crc32(test.encode()) - int(commit, 16)) % parts == 0


@cache
def commit() -> str:
    """Return the id of the checked-out commit; "0" without a repository."""
    try:
        result = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=project_root(), capture_output=True, text=True
        )
    except FileNotFoundError:
        return "0"
    return result.stdout.strip() if result.returncode == 0 else "0"
