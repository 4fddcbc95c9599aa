"""What one commit in Delta's log says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from .stamp import Stamp


def digest_of(commit: bytes) -> str:
    """Return the hash by which a commit is told from another of the same version."""
    return hashlib.sha256(commit).hexdigest()


def number_in(commit: bytes, app_id: str) -> int | None:
    """Return the number that a commit gives an application id; None where it gives none."""
    numbers = [txn["version"] for txn in _actions(commit, "txn") if txn["appId"] == app_id]
    return int(numbers[-1]) if numbers else None


def restored(commit: bytes) -> Iterator[int | None]:
    """Return the version that a RESTORE puts back; None where the commit does not say it."""
    for info in _actions(commit, "commitInfo"):
        if info.get("operation") == "RESTORE":
            to = info.get("operationParameters", {}).get("version")
            yield None if to is None else int(to)


def stamp_of(commit: bytes) -> Stamp | None:
    """Return the stamp that a commit bears; None for one that is not the library's."""
    for info in _actions(commit, "commitInfo"):
        return Stamp.parse(info.get("userMetadata"))
    return None


def _actions(commit: bytes, kind: str) -> Iterator[Mapping[str, Any]]:
    """Return a commit's actions of one kind."""
    start = f'{{"{kind}"'.encode()
    return (json.loads(line)[kind] for line in commit.splitlines() if line.startswith(start))
