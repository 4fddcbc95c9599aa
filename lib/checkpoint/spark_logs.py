"""Spark's logs in a checkpoint, and their comparison with the hashes of the lineage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import list_names, read_bytes
from ..offsets import Offsets, iterate_partitions
from .lineage import NO_BATCH, CheckpointLineage
from .lineage_files import LINEAGE_FOLDER, require_no_rescaling
from .offset_log import parse_offset_log

_MAX_FILES_READ = 3
"""How many of the newest files of a log are read: up to two with a recorded hash, and the next."""

_MAX_READS = 5
_ROCKSDB_FOLDERS = ("_metadata", "SSTs")
"""The folders of a RocksDB state store besides its versions."""

RESTORE_HINT = (
    "restore the complete checkpoint from a copy; or start with a new checkpoint and "
    "--resume-from-table. Nothing was written."
)


@dataclass(frozen=True, kw_only=True)
class CheckpointLogs:
    """The logs of a checkpoint and its files that never change.

    planned_batches, committed_batches: the batches in the offset log and in the commit log.
    offsets_contents, commit_contents: the content of their newest files, by batch.
    static_files: the content of the files that never change, by path in the checkpoint.
    query: the id of the query, from the file `metadata`; None before the first start.
    """

    path: str
    planned_batches: Sequence[int] = ()
    committed_batches: Sequence[int] = ()
    offsets_contents: Mapping[int, bytes] = field(default_factory=dict)
    commit_contents: Mapping[int, bytes] = field(default_factory=dict)
    static_files: Mapping[str, bytes] = field(default_factory=dict)
    query: str | None = None

    @property
    def last_committed(self) -> int:
        """The last batch in the commit log; -1 before the first."""
        return max(self.committed_batches, default=NO_BATCH)

    @property
    def last_planned(self) -> int:
        """The last batch in the offset log; -1 before the first."""
        return max(self.planned_batches, default=NO_BATCH)


class CheckpointFolder(Protocol):
    """A checkpoint whose files can be listed and read, by their paths in it.

    Both methods raise OSError for a file or folder that cannot be read.
    """

    @property
    def path(self) -> str:
        """The path of the checkpoint."""

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder; an empty list for a missing folder."""

    def read_bytes(self, name: str) -> bytes | None:
        """Return the content of a file; None without such a file."""


@dataclass(frozen=True)
class HadoopCheckpoint:
    """A checkpoint on the Hadoop file system of a session, which verifies checksums."""

    spark: SparkSession
    path: str

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder; an empty list for a missing folder."""
        return list_names(self.spark, f"{self.path}/{folder}")

    def read_bytes(self, name: str) -> bytes | None:
        """Return the content of a file; None without such a file."""
        return read_bytes(self.spark, f"{self.path}/{name}")


def hash_content(content: bytes) -> str:
    """Return the hash of a file's content."""
    return hashlib.sha256(content).hexdigest()


def read_logs(checkpoint: CheckpointFolder) -> CheckpointLogs:
    """Return the logs of a checkpoint.

    Raises CheckpointError for a file that cannot be read.
    """
    try:
        # Spark plans a batch after the commit of the previous one. In this order the logs of a
        # running job never lack the commit before the newest plan.
        planned_batches = _list_numbers(checkpoint, "offsets")
        committed_batches = _list_numbers(checkpoint, "commits")
        return CheckpointLogs(
            path=checkpoint.path,
            planned_batches=planned_batches,
            committed_batches=committed_batches,
            offsets_contents={
                batch: checkpoint.read_bytes(f"offsets/{batch}") or b""
                for batch in planned_batches[-_MAX_FILES_READ:]
            },
            commit_contents={
                batch: checkpoint.read_bytes(f"commits/{batch}") or b""
                for batch in committed_batches[-_MAX_FILES_READ:]
            },
            static_files=read_static_files(checkpoint),
            query=_read_query_id(checkpoint),
        )
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint {checkpoint.path} cannot be read", f"{error}.", RESTORE_HINT
        ) from error


def read_static_files(checkpoint: CheckpointFolder) -> dict[str, bytes]:
    """Return the files of a checkpoint that never change, by path in the checkpoint.

    They contain the initial offsets of each source and the operators and columns of the state.
    Raises OSError for a file that cannot be read.
    """
    names = [f"sources/{number}/0" for number in _list_numbers(checkpoint, "sources")]
    for number in _list_numbers(checkpoint, "state"):
        store_folder = f"state/{number}/0"
        # A join has several stores, each in a separate folder.
        stores = [each for each in checkpoint.list_names(store_folder) if "." not in each]
        names += [f"state/{number}/_metadata/metadata", f"{store_folder}/_metadata/schema"]
        stores = [each for each in stores if each not in _ROCKSDB_FOLDERS]
        names += [f"{store_folder}/{each}/_metadata/schema" for each in stores]
    contents = {name: checkpoint.read_bytes(name) for name in names}
    return {name: content for name, content in contents.items() if content is not None}


def _list_numbers(checkpoint: CheckpointFolder, folder: str) -> list[int]:
    return sorted(int(name) for name in checkpoint.list_names(folder) if name.isdecimal())


def hash_static_files(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the hashes of the static files, without those of sources other than Kafka.

    Spark deletes old files of heartbeats. The file of a Kafka source starts with a zero byte.
    """
    return {
        name: hash_content(content)
        for name, content in files.items()
        if name.startswith("state/") or content.startswith(b"\0")
    }


def _read_query_id(checkpoint: CheckpointFolder) -> str | None:
    content = checkpoint.read_bytes("metadata")
    try:
        return None if content is None else str(json.loads(content)["id"])
    except (ValueError, TypeError, KeyError) as error:
        raise _damage_error(
            f"{checkpoint.path}/metadata cannot be read",
            f"it does not contain the id of the query: {content!r}.",
        ) from error


def read_consistently(
    checkpoint: CheckpointFolder, read_lineage: Callable[[], CheckpointLineage | None]
) -> tuple[CheckpointLogs, CheckpointLineage | None]:
    """Return the logs and the lineage of one moment, also while the job runs.

    A new checkpoint has no lineage. Raises CheckpointError for damaged files.
    """
    lineage = read_lineage()
    for _ in range(_MAX_READS):
        logs = read_logs(checkpoint)
        reread_lineage = read_lineage()
        if reread_lineage == lineage:
            break
        lineage = reread_lineage
    return logs, lineage


def require_lineage(lineage: CheckpointLineage | None, logs: CheckpointLogs) -> None:
    """Refuse a checkpoint that has batches and no lineage file; raise CheckpointError."""
    if lineage is None and logs.last_planned > NO_BATCH:
        raise _damage_error(
            f"the checkpoint is incomplete: no lineage file is in {logs.path}/{LINEAGE_FOLDER}",
            f"the offset log ends with batch {logs.last_planned}, so a start has written one.",
        )


def require_recorded_logs(lineage: CheckpointLineage, logs: CheckpointLogs) -> None:
    """Refuse logs that differ from those of the last recorded batches.

    Raises CheckpointError, with the name of the changed or missing file.
    """
    require_no_rescaling(lineage, logs.path)
    _require_last_batch(lineage, logs)
    _require_recorded_hashes("offsets", lineage.offsets_hashes, logs.offsets_contents, logs.path)
    _require_recorded_hashes("commits", lineage.commit_hashes, logs.commit_contents, logs.path)
    for name, expected in lineage.file_hashes.items():
        if name not in logs.static_files:
            raise _missing_file_error(f"{logs.path}/{name}", max(lineage.last_batch, 0))
        if hash_content(logs.static_files[name]) != expected:
            raise _damage_error(
                f"{logs.path}/{name} was changed", "its SHA-256 differs from the recorded one."
            )
    _require_consistent_plan(lineage.last_batch + 1, logs)
    if lineage.query is not None and logs.query != lineage.query:
        raise _damage_error(
            f"{logs.path}/metadata has the query {logs.query}; the lineage has {lineage.query}",
            "the file is missing, or not the one that Spark wrote at the first start.",
        )


def _require_last_batch(lineage: CheckpointLineage, logs: CheckpointLogs) -> None:
    """Refuse logs without the last recorded batch, or with a batch after the next one."""
    last_batch = lineage.last_batch
    for name, newest_number, max_number in (
        ("commits", logs.last_committed, last_batch),
        ("offsets", logs.last_planned, last_batch + 1),
    ):
        if newest_number > max_number:
            raise _damage_error(
                f"{logs.path}/{name}/{newest_number} exists, but the lineage file ends with batch "
                f"{last_batch}",
                f"the lineage file is older than the logs; at most {name}/{max_number} can exist.",
            )
    for is_missing, file in (
        (logs.last_planned < last_batch, f"offsets/{last_batch}"),
        (logs.last_committed < last_batch - 1, f"commits/{last_batch - 1}"),
        (logs.last_planned > last_batch > logs.last_committed, f"commits/{last_batch}"),
    ):
        if is_missing:
            raise _missing_file_error(f"{logs.path}/{file}", last_batch)


def _require_recorded_hashes(
    name: str, recorded: Mapping[int, str], contents: Mapping[int, bytes], path: str
) -> None:
    for number, expected in recorded.items():
        if number not in contents:
            raise _missing_file_error(f"{path}/{name}/{number}", max(recorded))
        actual = hash_content(contents[number])
        if actual != expected:
            raise _damage_error(
                f"{path}/{name}/{number} was changed",
                f"its SHA-256 is {actual[:16]}...; the lineage has {expected[:16]}...",
            )


def _require_consistent_plan(number: int, logs: CheckpointLogs) -> None:
    """Refuse a plan that does not follow from the previous batch; it has no recorded hash yet."""
    if number not in logs.offsets_contents:
        return
    path = f"{logs.path}/offsets/{number}"
    meta, ends = parse_offset_log(path, logs.offsets_contents[number])
    previous = number - 1
    previous_ends: Sequence[Offsets] = []
    expected: int | None = 0
    expectation = "the first batch has"
    if number > 0:
        expectation = f"the commit of batch {previous} has"
        previous_path = f"{logs.path}/offsets/{previous}"
        _, previous_ends = parse_offset_log(previous_path, logs.offsets_contents[previous])
        expected = next_watermark(f"{logs.path}/commits/{previous}", logs.commit_contents[previous])
    watermark = int(meta.get("batchWatermarkMs", 0))
    if expected is not None and watermark != expected:
        raise _damage_error(
            f"{path} has the watermark {watermark} ms, but {expectation} {expected} ms",
            "one of the two files was changed.",
        )
    for previous_end, end in zip(previous_ends, ends, strict=False):
        for topic, partition, previous_offset in iterate_partitions(previous_end):
            end_offset = end.get(topic, {}).get(partition)
            if end_offset is None or end_offset < previous_offset:
                raise _damage_error(
                    f"{path} ends at {end_offset} in {topic}-{partition}, but batch "
                    f"{previous} ended at {previous_offset}",
                    "offsets never decrease: the broker has truncated the log of the partition, "
                    "or one of the two files was changed.",
                )


def next_watermark(path: str, commit: bytes) -> int | None:
    """Return the watermark of the next batch from a file of the commit log.

    Raises CheckpointError for a file that Spark has not written.
    """
    _, _, line = commit.partition(b"\n")
    try:
        watermark = json.loads(line).get("nextBatchWatermarkMs")
        return None if watermark is None else int(watermark)
    except (ValueError, TypeError, AttributeError) as error:
        raise _damage_error(
            f"{path} cannot be read",
            f"it is not a commit log of Spark: {commit[:80]!r}.",
        ) from error


def _missing_file_error(path: str, batch: int) -> CheckpointError:
    return _damage_error(
        f"{path} is missing",
        f"the lineage file, which was written with batch {batch}, records it.",
    )


def _damage_error(problem: str, cause: str) -> CheckpointError:
    return CheckpointError(problem, cause, RESTORE_HINT)
