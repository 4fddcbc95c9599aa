"""The control table of replicated tables as files, read and asked to resume without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem

from ..errors import ArgumentError, TableError
from ..paths import arrow_file_system, normalize_path
from .table_states import REQUESTS, ResumeRequest

_LOG = "_delta_log"


def read_control_rows(path: str) -> list[dict[str, Any]]:
    """Return the rows of a control table, in the order of the topics.

    Each commit writes all rows into one file.

    Raises TableError for a folder that is not a control table.
    """
    files, folder = arrow_file_system(normalize_path(path))
    for action in _newest_actions(files, folder):
        if "add" in action:
            with files.open_input_file(f"{folder}/{action['add']['path']}") as file:
                rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
            if rows and not {"topic", "state", "positions"} <= rows[0].keys():
                break
            return sorted(rows, key=lambda row: str(row["topic"]))
    raise TableError(
        f"{path} is not the control table of replicated tables",
        "the folder output.table of the job replicate, after its first batch",
        "tidegate resume .run/replicate/replication shop.public.customers",
    )


def _newest_actions(files: FileSystem, folder: str) -> Iterator[dict[str, Any]]:
    """Yield the actions of the log, those of the newest commit first."""
    entries = files.get_file_info(FileSelector(f"{folder}/{_LOG}", allow_not_found=True))
    names = sorted((one.path for one in entries if one.path.endswith(".json")), reverse=True)
    for name in names:
        with files.open_input_file(name) as file:
            yield from (json.loads(line) for line in file.read().splitlines())


def request_resume(path: str, topics: Sequence[str], *, recreate: bool = False) -> None:
    """Ask the job to resume the paused tables of these topics, with its next batches.

    recreate: whether the tables are new ones, because the previous ones were moved away.

    Raises ArgumentError for a topic whose tables are not paused; then none is resumed.
    """
    states = {row["topic"]: row["state"] for row in read_control_rows(path)}
    paused = [topic for topic, state in states.items() if state == "paused"]
    for topic in topics:
        if topic not in paused:
            raise ArgumentError(
                f"invalid topic: {topic!r} is {states.get(topic, 'not replicated')}",
                f"a topic whose table is paused: {', '.join(paused) or 'there is none'}",
            )
    files, folder = arrow_file_system(normalize_path(path))
    files.create_dir(f"{folder}/{REQUESTS}")
    for topic in topics:
        with files.open_output_stream(f"{folder}/{REQUESTS}/{topic}") as file:
            file.write(ResumeRequest(recreate).to_json().encode())
