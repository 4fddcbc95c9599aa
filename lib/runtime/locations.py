"""Where tables and checkpoints lie: paths made whole, and kept apart from each other."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path

from pyarrow.fs import FileSystem, LocalFileSystem

from ..errors import ArgumentError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")


def local(path: str) -> Path | None:
    """Return a path on this machine, or None for one in another file system."""
    scheme, rest = _parted(path)
    return Path(rest) if scheme in ("", "file") else None


def whole(path: str, root: str = "") -> str:
    """Make a path absolute and plain: without `..`, and with links of this machine followed.

    A path without a scheme that does not begin with a slash is relative to `root`. A scheme may
    stand without a host.

    >>> whole("a/../b", "s3a://bucket/jobs"), whole("DBFS:/jobs//b")
    ('s3a://bucket/jobs/b', 'dbfs:/jobs/b')
    """
    scheme, rest = _parted(path)
    if not scheme and not path.startswith("/") and root:
        scheme, rest = _parted(f"{root}/{path}")
    if scheme in ("", "file"):
        return os.path.realpath(rest)
    host = ""
    if rest.startswith("//"):
        name, _, rest = rest[2:].partition("/")
        host = f"//{name}"
    plain = posixpath.normpath(f"/{rest.lstrip('/')}").rstrip("/")
    return f"{scheme}:{host}{plain or ('' if host.strip('/') else '/')}"


def _parted(path: str) -> tuple[str, str]:
    """Return a path's scheme in small letters, empty where there is none, and what follows it."""
    match = _SCHEME.match(path)
    if match is None:
        return "", path
    scheme = match[1].lower()
    rest = path[match.end() :]
    return scheme, f"/{rest.lstrip('/')}" if scheme == "file" else rest


def file_system(root: str) -> tuple[FileSystem, str]:
    """Return the file system of a whole path, for Arrow, and the path in it."""
    if root.startswith("/"):
        return LocalFileSystem(), root
    files, path = FileSystem.from_uri(re.sub("^s3a:", "s3:", root))
    return files, path.rstrip("/")


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
