"""Paths of tables and checkpoints: normalization, and checks that they do not overlap."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path

from pyarrow.fs import FileSystem, LocalFileSystem

from .errors import ArgumentError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")


def local_path(path: str) -> Path | None:
    """Return a path of the local file system, or None for another file system.

    >>> local_path("file:/data"), local_path("s3a://bucket/data")
    (PosixPath('/data'), None)
    """
    scheme, rest = _split_scheme(path)
    return Path(rest) if scheme in ("", "file") else None


def normalize_path(path: str, root: str = "") -> str:
    """Return an absolute path without `..`, and with local symbolic links resolved.

    A path without a scheme and a leading slash is relative to `root`. A scheme does not require a
    host.

    >>> normalize_path("a/../b", "s3a://bucket/jobs"), normalize_path("DBFS:/jobs//b")
    ('s3a://bucket/jobs/b', 'dbfs:/jobs/b')
    """
    scheme, rest = _split_scheme(path)
    if not scheme and not path.startswith("/") and root:
        scheme, rest = _split_scheme(f"{root}/{path}")
    if scheme in ("", "file"):
        return os.path.realpath(rest)
    host = ""
    if rest.startswith("//"):
        name, _, rest = rest[2:].partition("/")
        host = f"//{name}"
    normalized = posixpath.normpath(f"/{rest.lstrip('/')}").rstrip("/")
    return f"{scheme}:{host}{normalized or ('' if host.strip('/') else '/')}"


def _split_scheme(path: str) -> tuple[str, str]:
    """Return the scheme in lower case, empty if missing, and the rest of the path."""
    match = _SCHEME.match(path)
    if match is None:
        return "", path
    scheme = match[1].lower()
    rest = path[match.end() :]
    return scheme, f"/{rest.lstrip('/')}" if scheme == "file" else rest


def arrow_file_system(root: str) -> tuple[FileSystem, str]:
    """Return Arrow's file system for a normalized path, and the path in it."""
    if root.startswith("/"):
        return LocalFileSystem(), root
    files, path = FileSystem.from_uri(re.sub("^s3a:", "s3:", root))
    return files, path.rstrip("/")


def is_below(path: str, root: str) -> bool:
    """Return whether a path is inside a folder, at any depth.

    >>> is_below("/data/a/b", "/data"), is_below("/data", "/data")
    (True, False)
    """
    return path.startswith(root.rstrip("/") + "/")


def require_disjoint(tables: Iterable[tuple[str, str]], checkpoint: str) -> None:
    """Raise ArgumentError for nested tables, and for a checkpoint that overlaps with a table.

    `tables` are pairs of a name for the error and a path. A checkpoint may be inside a table if the
    name of its folder starts with `_`, since VACUUM ignores such folders.
    """
    normalized = [(name, normalize_path(path)) for name, path in tables]
    for (first_name, path), (second_name, second_path) in permutations(normalized, 2):
        if path == second_path or is_below(path, second_path):
            raise ArgumentError(
                f"invalid {first_name}: {path!r} overlaps with {second_name}, {second_path!r}",
                "folders that do not contain each other",
            )
    checkpoint_path = normalize_path(checkpoint)
    for name, path in normalized:
        if checkpoint_path == path or is_below(path, checkpoint_path):
            raise ArgumentError(
                f"invalid checkpoint: {checkpoint_path!r} contains {name}, {path!r}",
                "a separate folder for the checkpoint",
            )
        relative_path = (
            checkpoint_path.removeprefix(path + "/") if is_below(checkpoint_path, path) else "_"
        )
        if not relative_path.startswith("_") or relative_path.startswith("_delta_log"):
            raise ArgumentError(
                f"invalid checkpoint: {checkpoint_path!r} is inside {name}; VACUUM would delete it",
                "a folder outside all tables, or a folder inside a table with a leading '_'",
                f"{path}.checkpoint",
            )
