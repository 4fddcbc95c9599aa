"""What the tables and checkpoints below a folder say of the jobs that wrote them, without Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import ArrowInvalid
from pyarrow.fs import FileInfo, FileSelector, FileType

from ..commit.epochs import FOLDER, NAME
from ..commit.identity import Identity, Rescaling
from ..commit.stamp import Stamp
from ..errors import ArgumentError, CheckpointError
from ..runtime.locations import file_system, whole

DEPTH = 4
"""How far below the folder tables are looked for."""

_LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_NUMBER = re.compile(r"\d+")
_WRITTEN = ("numOutputRows", "numTargetRowsInserted")
_BEGINNING = 0


@dataclass(frozen=True)
class Commit:
    """One stamped commit of a table: when it was made, and how many rows it wrote."""

    version: int
    at: int
    stamp: Stamp
    rows: int


@dataclass(frozen=True)
class TableLog:
    """The stamped commits of a table, the oldest first; `whole` where none has been cleaned up.

    newest_end: the end of the newest window in the table's statistics, where it has windows.
    """

    path: str
    commits: Sequence[Commit]
    whole: bool
    newest_end: str | None


@dataclass(frozen=True)
class Checkpoint:
    """How far a query has come.

    query: its id. begun, done: the newest batch that is planned, and that is finished; -1 for none.
    offsets: the offsets up to which the finished batches have read. began: those of the first.
    watermark: in milliseconds since 1970; None where there is none.
    rescaling: what has begun to spread its state over other partitions; None for nothing.
    """

    path: str
    query: str
    begun: int
    done: int
    began: Mapping[tuple[str, int], int]
    offsets: Mapping[tuple[str, int], int]
    watermark: int | None
    rescaling: Rescaling | None

    @property
    def read(self) -> int:
        """How many offsets the finished batches cover."""
        return sum(end - self.began.get(place, 0) for place, end in self.offsets.items())


class Folder:
    """A folder of tables and checkpoints, on this machine or in an object store.

    Raises ArgumentError at construction, where there is no such folder.
    """

    def __init__(self, root: str) -> None:
        self.root = whole(root)
        try:
            self._files, self._path = file_system(self.root)
            there = self._files.get_file_info(self._path).type == FileType.Directory
        except (ArrowInvalid, OSError) as error:
            raise ArgumentError(f"{root} cannot be read: {error}.") from None
        if not there:
            raise ArgumentError(
                f"there is no folder {self.root}.",
                "the folder of output.root.",
                "tidegate status DIR",
            )

    def found(self) -> tuple[list[TableLog], list[Checkpoint]]:
        """Return the tables with a stamp, and the checkpoints, below the folder."""
        tables: list[TableLog] = []
        checkpoints: list[Checkpoint] = []
        for path, names in self._walk(self._path, DEPTH):
            if _LOG in names:
                tables.append(self._table(path))
            elif {"offsets", "metadata"} <= names:
                checkpoints.append(self._checkpoint(path))
        return [table for table in tables if table.commits], checkpoints

    def _walk(self, path: str, depth: int) -> Iterator[tuple[str, set[str]]]:
        entries = self._entries(path)
        names = {entry.base_name for entry in entries}
        yield path, names
        if depth == 0 or "offsets" in names:
            return
        for entry in entries:
            # Of a table's own folders only a checkpoint's matters, whose name begins with "_".
            inside = _LOG not in names or entry.base_name.startswith("_")
            if entry.type == FileType.Directory and entry.base_name != _LOG and inside:
                yield from self._walk(entry.path, depth - 1)

    def _entries(self, path: str) -> list[FileInfo]:
        found: list[FileInfo] = self._files.get_file_info(
            FileSelector(path, allow_not_found=True, recursive=False)
        )
        return sorted(found, key=lambda entry: str(entry.path))

    def _text(self, path: str) -> str:
        with self._files.open_input_stream(path) as stream:
            return bytes(stream.read()).decode("utf-8", "replace")

    def _table(self, path: str) -> TableLog:
        logs = [e for e in self._entries(f"{path}/{_LOG}") if _COMMIT.fullmatch(e.base_name)]
        commits: list[Commit] = []
        newest: str | None = None
        for entry in logs:
            actions = [json.loads(line) for line in self._text(entry.path).splitlines() if line]
            ends = [end for action in actions if (end := _window_end(action))]
            newest = max([*ends, *([newest] if newest else [])], default=None)
            commit = _commit(int(entry.base_name[:20]), actions)
            commits += [] if commit is None else [commit]
        whole_log = bool(logs) and int(logs[0].base_name[:20]) == _BEGINNING
        return TableLog(path, commits, whole_log, newest)

    def _checkpoint(self, path: str) -> Checkpoint:
        begun = self._newest(f"{path}/offsets")
        done = self._newest(f"{path}/commits")
        ended = self._lines(f"{path}/commits/{done}") if done >= 0 else []
        mark = ended[0].get("nextBatchWatermarkMs") if ended else None
        read = self._lines(f"{path}/offsets/{done}")[1:] if done >= 0 else []
        began = [
            line
            for source in self._entries(f"{path}/sources")
            for line in self._lines(f"{source.path}/0")
        ]
        return Checkpoint(
            path=path,
            query=str(json.loads(self._text(f"{path}/metadata")).get("id")),
            begun=begun,
            done=done,
            began=_places(began),
            offsets=_places(read),
            watermark=mark or None,
            rescaling=self._rescaling(f"{path}/{FOLDER}"),
        )

    def _rescaling(self, path: str) -> Rescaling | None:
        """Return what the newest identity file that was written says; an empty one is a claim."""
        files = [entry for entry in self._entries(path) if NAME.fullmatch(entry.base_name)]
        for entry in reversed(files):
            if entry.size:
                with suppress(CheckpointError):
                    return Identity.parse(self._text(entry.path).encode(), entry.path).rescaling
        return None

    def _newest(self, path: str) -> int:
        names = [entry.base_name for entry in self._entries(path)]
        return max((int(name) for name in names if _NUMBER.fullmatch(name)), default=-1)

    def _lines(self, path: str) -> list[dict[str, Any]]:
        """Return the JSON objects of a file of Spark's logs; the first line is its version."""
        if self._files.get_file_info(path).type != FileType.File:
            return []
        found = []
        for line in self._text(path).replace("\0", "").splitlines():
            try:
                value = json.loads(line.removeprefix("v1"))
            except ValueError:
                continue
            found += [value] if isinstance(value, dict) else []
        return found


def _commit(version: int, actions: Sequence[Mapping[str, Any]]) -> Commit | None:
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    info: Mapping[str, Any] = infos[0] if infos else {}
    stamp = Stamp.parse(info.get("userMetadata"))
    if stamp is None:
        return None
    measured = info.get("operationMetrics") or {}
    known = [int(measured[name]) for name in _WRITTEN if name in measured]
    return Commit(version, int(info.get("timestamp") or 0), stamp, known[0] if known else 0)


def _window_end(action: Mapping[str, Any]) -> str | None:
    """Return the latest end of a window in a file that was added, by its statistics."""
    try:
        return str(json.loads(action["add"]["stats"])["maxValues"]["window"]["end"])
    except (KeyError, TypeError, ValueError):
        return None


def _places(sources: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    """Return the offsets of Kafka's partitions; those of other sources are left out."""
    return {
        (topic, int(part)): int(offset)
        for source in sources
        for topic, parts in source.items()
        if isinstance(parts, dict)
        for part, offset in parts.items()
        if _NUMBER.fullmatch(str(part)) and isinstance(offset, int)
    }


def name_of(path: str, root: str) -> str:
    """Return a table's path below the root, or its name where it is the root itself."""
    return path.removeprefix(root.rstrip("/")).lstrip("/") or Path(path).name
