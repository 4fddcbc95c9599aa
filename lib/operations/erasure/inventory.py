"""The inventory of a root: its tables, its checkpoints, and the owner of every file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from posixpath import basename, dirname
from typing import Any, Literal

from pyarrow import ArrowInvalid
from pyarrow.fs import FileSelector, FileType

from ...errors import ArgumentError
from ...paths import arrow_file_system, normalize_path

DELTA_LOG = "_delta_log"
_CHANGE_DATA = "_change_data/"
FileKind = Literal["rows", "log", "checkpoint", "other"]


@dataclass(frozen=True)
class File:
    """A file: its path below the root, and the table or checkpoint that owns it.

    is_empty: whether it is an empty folder; only its name is scanned.
    """

    name: str
    owner: str
    file_kind: FileKind
    is_empty: bool = False


@dataclass(frozen=True)
class Inventory:
    """The tables and checkpoints below a root, by their relative paths, and all files."""

    tables: Sequence[str]
    checkpoints: Sequence[str]
    files: Sequence[File]


class Root:
    """A folder and everything below it, local or in an object store.

    Raises ArgumentError if the folder does not exist.
    """

    def __init__(self, path: str) -> None:
        self.path = normalize_path(path)
        try:
            self._system, self._base = arrow_file_system(self.path)
            exists = self._system.get_file_info(self._base).type == FileType.Directory
        except (ArrowInvalid, OSError) as error:
            raise ArgumentError(f"invalid root: {path!r} cannot be read: {error}") from None
        if not exists:
            raise ArgumentError(
                f"invalid root: {self.path!r}", "an existing folder of tables, such as output.root"
            )

    def absolute(self, name: str) -> str:
        """Return the absolute path of a relative one."""
        return f"{self.path.rstrip('/')}/{name}" if name else self.path

    def take_inventory(self) -> Inventory:
        """List all tables, checkpoints and files."""
        names, folders = self._list_paths("")
        # A table that is the root itself has the empty name.
        tables = [dirname(each) for each in folders if basename(each) == DELTA_LOG]
        checkpoints = [
            dirname(each)
            for each in names
            if basename(each) == "metadata" and f"{dirname(each)}/offsets".lstrip("/") in folders
        ]
        files = [_classify_file(each, tables, checkpoints) for each in names]
        files += [
            replace(_classify_file(each, tables, checkpoints), is_empty=True)
            for each in _empty_folders(names, folders)
        ]
        return Inventory(sorted(tables), sorted(checkpoints), files)

    def open(self, name: str) -> Any:
        """Open a file for random access."""
        return self._system.open_input_file(self._system_path(name))

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        with suppress(FileNotFoundError):
            self._system.delete_file(self._system_path(name))

    def delete_folder(self, name: str) -> None:
        """Delete a folder and its contents if it exists."""
        with suppress(FileNotFoundError):
            self._system.delete_dir(self._system_path(name))

    def files_in(self, name: str) -> list[str]:
        """List the files of a folder recursively, by their paths below the root."""
        return self._list_paths(name)[0]

    def delete_empty_folders(self, name: str) -> None:
        """Delete the empty folders of a table, whose names may be partition values."""
        files, folders = self._list_paths(name)
        for each in _empty_folders(files, folders):
            relative_path = each.removeprefix(name).lstrip("/")
            if not relative_path.startswith("_") or relative_path.startswith(_CHANGE_DATA):
                self.delete_folder(each)

    def _list_paths(self, name: str) -> tuple[list[str], set[str]]:
        selector = FileSelector(self._system_path(name), allow_not_found=True, recursive=True)
        infos = self._system.get_file_info(selector)
        files = [self._relative_path(each.path) for each in infos if each.type == FileType.File]
        folders = {
            self._relative_path(each.path) for each in infos if each.type == FileType.Directory
        }
        # An object store may not list folders.
        for each in files:
            while each := dirname(each):
                folders.add(each)
        return sorted(files), folders

    def _system_path(self, name: str) -> str:
        return f"{self._base.rstrip('/')}/{name}" if name else self._base

    def _relative_path(self, path: str) -> str:
        return path.removeprefix(self._base).lstrip("/")


def _empty_folders(files: Sequence[str], folders: set[str]) -> list[str]:
    """Return the folders without files, innermost first."""
    used = {dirname(each) for each in files}
    while inner := {dirname(each) for each in used} - used:
        used |= inner
    return sorted(folders - used, key=len, reverse=True)


def _classify_file(name: str, tables: Sequence[str], checkpoints: Sequence[str]) -> File:
    owners = [each for each in (*tables, *checkpoints) if not each or name.startswith(f"{each}/")]
    owner = max(owners, key=len, default=None)
    if owner is None:
        return File(name, dirname(name), "other")
    if owner in checkpoints:
        return File(name, owner, "checkpoint")
    relative_path = name.removeprefix(owner).lstrip("/")
    return File(name, owner, "log" if relative_path.startswith(f"{DELTA_LOG}/") else "rows")
