"""A checkpoint's own logs: what a start depends on of them, as it is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import names_in, numbers_in, read_bytes
from .identity import NEVER

READ = 3
"""How many of the newest files of a log are read: the two that may be noted, and one after them
that is not, as its driver died in between."""

_OWN = ("_metadata", "SSTs")
"""What a store of RocksDB has beside its versions."""

RESTORE = (
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
        planned = numbers_in(spark, f"{path}/offsets")
        committed = numbers_in(spark, f"{path}/commits")
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
        raise CheckpointError(f"{error}.", "a checkpoint that can be read.", RESTORE) from error


def read_lasting(spark: SparkSession, path: str) -> dict[str, bytes]:
    """Return the files of a checkpoint that stay as they were first written, by their path in it.

    These say what each source began with, and of what operators and columns the state is. Raises
    OSError for a file that cannot be read.
    """
    names = [f"sources/{at}/0" for at in numbers_in(spark, f"{path}/sources")]
    for at in numbers_in(spark, f"{path}/state"):
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


def _read(spark: SparkSession, path: str) -> bytes:
    return read_bytes(spark, path) or b""


def _query(spark: SparkSession, path: str) -> str | None:
    content = read_bytes(spark, path)
    try:
        return None if content is None else str(json.loads(content)["id"])
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"{path} cannot be read: {content!r}.",
            "the query's id as Spark writes it.",
            RESTORE,
        ) from error
