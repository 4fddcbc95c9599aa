"""What lies below a root: tables, checkpoints, and every file with what it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyarrow import ArrowInvalid
from pyarrow.fs import FileSelector, FileType

from ...errors import ArgumentError
from ..locations import file_system, whole

LOG = "_delta_log"
_CHANGES = "_change_data/"
Kind = Literal["rows", "log", "checkpoint", "other"]


@dataclass(frozen=True)
class File:
    """A file: its path below the root, and the table or checkpoint that it belongs to.

    empty: whether it is a folder without files, which is but a name.
    """

    name: str
    place: str
    kind: Kind
    empty: bool = False


@dataclass(frozen=True)
class Found:
    """The tables and checkpoints below a root, by their paths below it, and all files."""

    tables: Sequence[str]
    checkpoints: Sequence[str]
    files: Sequence[File]


class Root:
    """A folder with all that is below it, on this machine or in an object store.

    Raises ArgumentError where there is no such folder.
    """

    def __init__(self, path: str) -> None:
        self.path = whole(path)
        try:
            self._system, self._base = file_system(self.path)
            there = self._system.get_file_info(self._base).type == FileType.Directory
        except (ArrowInvalid, OSError) as error:
            raise ArgumentError(f"{path} cannot be read: {error}.") from None
        if not there:
            raise ArgumentError(
                f"there is no folder {self.path}.", "a folder of tables, such as output.root."
            )

    def of(self, name: str) -> str:
        """Return the whole path of what is below the root."""
        return f"{self.path.rstrip('/')}/{name}" if name else self.path

    def find(self) -> Found:
        """List all that is there now."""
        names, folders = self._names("")
        # A table that is the root itself has the empty name.
        tables = [each.removesuffix(LOG).rstrip("/") for each in folders if _last(each) == LOG]
        marks = [each.rpartition("/")[0] for each in names if _last(each) == "metadata"]
        queries = [each for each in marks if f"{each}/offsets".lstrip("/") in folders]
        return Found(
            sorted(tables),
            sorted(queries),
            [
                *(_file(each, tables, queries) for each in names),
                *(
                    replace(_file(each, tables, queries), empty=True)
                    for each in _empty(names, folders)
                ),
            ],
        )

    def open(self, name: str) -> Any:
        """Open a file for reading at any place."""
        return self._system.open_input_file(self._whole(name))

    def delete(self, name: str) -> None:
        """Delete a file; nothing happens where there is none."""
        with suppress(FileNotFoundError):
            self._system.delete_file(self._whole(name))

    def delete_folder(self, name: str) -> None:
        """Delete a folder with all that it has."""
        with suppress(FileNotFoundError):
            self._system.delete_dir(self._whole(name))

    def files_in(self, name: str) -> list[str]:
        """List the files of a folder, at whatever depth, by their paths below the root."""
        return self._names(name)[0]

    def tidy(self, name: str) -> None:
        """Delete the folders of a table that have no file: their names may be a partition's."""
        files, folders = self._names(name)
        for each in _empty(files, folders):
            inside = each.removeprefix(name).lstrip("/")
            if not inside.startswith("_") or inside.startswith(_CHANGES):
                self.delete_folder(each)

    def _names(self, name: str) -> tuple[list[str], set[str]]:
        selector = FileSelector(self._whole(name), allow_not_found=True, recursive=True)
        found = self._system.get_file_info(selector)
        files = [self._below(each.path) for each in found if each.type == FileType.File]
        folders = {self._below(each.path) for each in found if each.type == FileType.Directory}
        # An object store may know of no folder by itself.
        for each in files:
            while each := each.rpartition("/")[0]:
                folders.add(each)
        return sorted(files), folders

    def _whole(self, name: str) -> str:
        return f"{self._base.rstrip('/')}/{name}" if name else self._base

    def _below(self, path: str) -> str:
        return path.removeprefix(self._base).lstrip("/")


def _empty(files: Sequence[str], folders: set[str]) -> list[str]:
    """Return the folders without files, the innermost first."""
    used = {each.rpartition("/")[0] for each in files}
    while inner := {each.rpartition("/")[0] for each in used} - used:
        used |= inner
    return sorted(folders - used, key=len, reverse=True)


def _file(name: str, tables: Sequence[str], checkpoints: Sequence[str]) -> File:
    inside = [each for each in (*tables, *checkpoints) if not each or name.startswith(f"{each}/")]
    place = max(inside, key=len, default=None)
    if place is None:
        return File(name, name.rpartition("/")[0], "other")
    if place in checkpoints:
        return File(name, place, "checkpoint")
    rest = name.removeprefix(place).lstrip("/")
    return File(name, place, "log" if rest.startswith(f"{LOG}/") else "rows")


def _last(name: str) -> str:
    return name.rpartition("/")[2]
