"""A checkpoint's own logs, held against what is noted of them: a changed byte must not pass."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import names_in, read_bytes
from ..offsets import Offsets
from .identity import NEVER, Identity
from .plan_file import parsed

READ = 3
"""How many of the newest files of a log are read: the two that may be noted, and one after them
that is not, as its driver died in between."""

_OWN = ("_metadata", "SSTs")
"""What a store of RocksDB has beside its versions."""

_HINT = (
    "restore the checkpoint as a whole from a copy; or, with a new checkpoint, "
    "--resume-from-table. Nothing was written."
)


@dataclass(frozen=True, kw_only=True)
class Logs:
    """What a start depends on, of the logs of a checkpoint.

    planned, committed: the batches in the log of offsets, and in that of commits.
    offsets, commits: the content of their newest files.
    files: the content of files that stay as they were first written, by their path in it.
    query: the query's id, out of the file `metadata`; None before the first start.
    """

    path: str
    planned: Sequence[int] = ()
    committed: Sequence[int] = ()
    offsets: Mapping[int, bytes] = field(default_factory=dict)
    commits: Mapping[int, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    query: str | None = None

    @property
    def last(self) -> int:
        """The last batch in the log of commits; -1 before the first."""
        return max(self.committed, default=NEVER)

    @property
    def newest(self) -> int:
        """The last batch that was planned; -1 before the first."""
        return max(self.planned, default=NEVER)


def digest(content: bytes) -> str:
    """Return the hash by which a file is noted."""
    return hashlib.sha256(content).hexdigest()


def read_logs(spark: SparkSession, path: str) -> Logs:
    """Return a checkpoint's logs.

    Raises:
        CheckpointError: for a file that cannot be read.
    """
    try:
        # A batch is planned after the one before is committed: in this order a job that runs
        # meanwhile is never seen with a plan whose commit is missing.
        planned = _numbers(spark, f"{path}/offsets")
        committed = _numbers(spark, f"{path}/commits")
        return Logs(
            path=path,
            planned=planned,
            committed=committed,
            offsets={at: _read(spark, f"{path}/offsets/{at}") for at in planned[-READ:]},
            commits={at: _read(spark, f"{path}/commits/{at}") for at in committed[-READ:]},
            files=read_lasting(spark, path),
            query=_query(spark, f"{path}/metadata"),
        )
    except OSError as error:
        raise CheckpointError(f"{error}.", "a checkpoint that can be read.", _HINT) from error


def read_lasting(spark: SparkSession, path: str) -> dict[str, bytes]:
    """Return the files of a checkpoint that stay as they were first written, by their path in it.

    These say what each source began with, and of what operators and columns the state is. Raises
    OSError for a file that cannot be read.
    """
    names = [f"sources/{at}/0" for at in _numbers(spark, f"{path}/sources")]
    for at in _numbers(spark, f"{path}/state"):
        first = f"state/{at}/0"
        # A join has several stores, each in a folder of its own.
        stores = [each for each in names_in(spark, f"{path}/{first}") if "." not in each]
        names += [f"state/{at}/_metadata/metadata", f"{first}/_metadata/schema"]
        names += [f"{first}/{each}/_metadata/schema" for each in stores if each not in _OWN]
    found = {name: read_bytes(spark, f"{path}/{name}") for name in names}
    return {name: content for name, content in found.items() if content is not None}


def lasting(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the hashes by which such files are noted.

    A source that is no Kafka topic is left out: Spark deletes old files of heartbeats. What Kafka's
    began with starts with a zero byte.
    """
    return {
        name: digest(content)
        for name, content in files.items()
        if name.startswith("state/") or content.startswith(b"\0")
    }


def require_logs(identity: Identity, logs: Logs) -> None:
    """Refuse logs that are not those which the last batches noted.

    Raises:
        CheckpointError: which names the file, what was expected and what was found.
    """
    _require_in_step(identity, logs)
    _require_noted("offsets", identity.offsets, logs.offsets, logs.path)
    _require_noted("commits", identity.commits, logs.commits, logs.path)
    _require_lasting(identity, logs)
    _require_plan(identity.batch + 1, logs)
    if identity.query is not None and logs.query != identity.query:
        raise CheckpointError(
            f"{logs.path}/metadata has the query {logs.query}; noted is {identity.query}.",
            "the file that Spark wrote at the first start.",
            _HINT,
        )


def _require_lasting(identity: Identity, logs: Logs) -> None:
    for name, expected in identity.files.items():
        if name not in logs.files:
            raise _missing(f"{logs.path}/{name}", max(identity.batch, 0))
        if digest(logs.files[name]) != expected:
            raise CheckpointError(
                f"{logs.path}/{name} was changed since it was noted.",
                "the file as Spark wrote it.",
                _HINT,
            )


def _require_in_step(identity: Identity, logs: Logs) -> None:
    """Refuse logs that lack the last batch, or have one that the identity does not know."""
    batch = identity.batch
    for name, newest, most in (("commits", logs.last, batch), ("offsets", logs.newest, batch + 1)):
        if newest > most:
            raise CheckpointError(
                f"{logs.path}/{name}/{newest} is there, and the identity file knows no batch after "
                f"{batch}: it is older than the logs beside it.",
                f"at most {name}/{most}.",
                _HINT,
            )
    missing = f"offsets/{batch}" if logs.newest < batch else f"commits/{batch - 1}"
    if logs.newest < batch or logs.last < batch - 1:
        raise _missing(f"{logs.path}/{missing}", batch)
    if logs.newest > batch > logs.last:
        raise _missing(f"{logs.path}/commits/{batch}", batch)


def _require_noted(
    name: str, noted: Mapping[int, str], found: Mapping[int, bytes], path: str
) -> None:
    for number, expected in noted.items():
        if number not in found:
            raise _missing(f"{path}/{name}/{number}", max(noted))
        there = digest(found[number])
        if there != expected:
            raise CheckpointError(
                f"{path}/{name}/{number} was changed: its SHA-256 is {there[:16]}..., and with "
                f"batch {max(noted)} {expected[:16]}... was noted.",
                "the file as Spark wrote it.",
                _HINT,
            )


def _require_plan(number: int, logs: Logs) -> None:
    """Refuse a plan that does not follow from the batch before; nothing of it is noted yet."""
    if number not in logs.offsets:
        return
    path = f"{logs.path}/offsets/{number}"
    meta, ends = parsed(path, logs.offsets[number])
    before: Sequence[Offsets] = []
    expected: int | None = 0
    said = "a first batch has"
    if number > 0:
        said = f"the commit of batch {number - 1} says"
        _, before = parsed(f"{logs.path}/offsets/{number - 1}", logs.offsets[number - 1])
        expected = next_watermark(f"{logs.path}/commits/{number - 1}", logs.commits[number - 1])
    watermark = int(meta.get("batchWatermarkMs", 0))
    if expected is not None and watermark != expected:
        raise CheckpointError(
            f"{path} has the watermark {watermark} ms, and {said} {expected} ms: one of the files "
            "was changed.",
            "the same watermark in both.",
            _HINT,
        )
    for was, end in zip(before, ends, strict=False):
        for topic, partitions in was.items():
            for partition, at in partitions.items():
                found = end.get(topic, {}).get(partition)
                if found is None or found < at:
                    raise CheckpointError(
                        f"{path} ends at {found} in {topic}-{partition}, and batch {number - 1} "
                        f"ended at {at}.",
                        "offsets that never go back.",
                        _HINT,
                    )


def next_watermark(path: str, commit: bytes) -> int | None:
    """Return the watermark of the next batch, out of a file of the log of commits.

    Raises:
        CheckpointError: for a file that is not what Spark writes.
    """
    _, _, line = commit.partition(b"\n")
    try:
        found = json.loads(line).get("nextBatchWatermarkMs")
        return None if found is None else int(found)
    except (ValueError, TypeError, AttributeError) as error:
        told = f"{path} cannot be read: {commit[:80]!r}."
        raise CheckpointError(told, "the log of commits as Spark 4.2 writes it.", _HINT) from error


def _missing(path: str, batch: int) -> CheckpointError:
    return CheckpointError(
        f"{path} is missing; the identity file was written with batch {batch}, after it.",
        "all files that the last batch left.",
        _HINT,
    )


def _numbers(spark: SparkSession, folder: str) -> list[int]:
    return sorted(int(name) for name in names_in(spark, folder) if name.isdecimal())


def _read(spark: SparkSession, path: str) -> bytes:
    return read_bytes(spark, path) or b""


def _query(spark: SparkSession, path: str) -> str | None:
    content = read_bytes(spark, path)
    try:
        return None if content is None else str(json.loads(content)["id"])
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"{path} cannot be read: {content!r}.", "the query's id as Spark writes it.", _HINT
        ) from error
