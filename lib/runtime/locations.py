"""Where tables and checkpoints lie: paths made whole, and kept apart from each other."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path

from ..errors import ArgumentError

_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*)://")


def local(path: str) -> Path | None:
    """Return a path on this machine, or None for one in another file system."""
    if _SCHEME.match(path):
        return Path(path.removeprefix("file://")) if path.startswith("file://") else None
    return Path(path)


def whole(path: str, root: str = "") -> str:
    """Make a path absolute and plain: relative to `root`, without `..`, and with links of this machine followed.

    >>> whole("a/../b", "s3a://bucket/jobs")
    's3a://bucket/jobs/b'
    """
    if not _SCHEME.match(path) and not path.startswith("/") and root:
        path = f"{root}/{path}"
    path = re.sub(r"^file:/+", "/", path)
    match = _SCHEME.match(path)
    if match is None:
        return os.path.realpath(path)
    host, _, rest = path[match.end() :].partition("/")
    return f"{match.group()}{host}" + posixpath.normpath(f"/{rest}").rstrip("/")


def below(path: str, root: str) -> bool:
    """Return whether a path is in a folder, at whatever depth."""
    return path.startswith(root.rstrip("/") + "/")


def keep_apart(tables: Iterable[tuple[str, str]], checkpoint: str) -> None:
    """Refuse tables within one another, and a checkpoint that shares a folder with a table.

    `tables` are pairs of a name, for the error, and a path. A checkpoint inside a table is allowed
    where the folder's name begins with `_`: VACUUM leaves such a folder alone.

    Raises ArgumentError.
    """
    placed = [(name, whole(path)) for name, path in tables]
    for (one, path), (other, outer) in permutations(placed, 2):
        if path == outer or below(path, outer):
            raise ArgumentError(
                f"{one} is {path}, and {other} is {outer}.", "folders that do not hold one another."
            )
    home = whole(checkpoint)
    for name, path in placed:
        if home == path or below(path, home):
            raise ArgumentError(
                f"the checkpoint is {home}, and {name} is {path}.",
                "a folder of the checkpoint's own.",
            )
        inside = home.removeprefix(path + "/") if below(home, path) else "_"
        if not inside.startswith("_") or inside.startswith("_delta_log"):
            raise ArgumentError(
                f"the checkpoint is {home}, inside {name}, where VACUUM would delete it.",
                "a folder outside every table, or one in a table whose name begins with '_'.",
                f"{path}.checkpoint",
            )
