"""One micro-batch, as its checkpoint planned it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import names_in, read_bytes
from ..offsets import Offsets

if TYPE_CHECKING:
    from .protocol import Claim

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a micro-batch is, the same before it runs and again after a crash.

    job, query_id, run_id: the job's name, and Spark's ids of the query and of this run of it.
    number: the batch's number in its tables.
    offsets_hash: SHA-256 of the checkpoint's offsets/<number>, in hex.
    start, end: the Kafka offsets that the batch reads, end exclusive; empty where the input is no
        Kafka topic. Where two sources of the query read one partition, the range spans both.
    watermark: the instant up to which this batch closes windows; 1970 at first.
    late_watermark: the instant behind which this batch drops a row as late; 1970 at first. Spark
        takes the watermark of the batch before, so that rows of one batch never make each other
        late.
    rows_in, dead, late: the counts of its rows that are known, for the commit stamp.
    epoch, plan, latest, topics: as in the commit stamp.
    claim: what the driver that writes the batch has claimed; None where no runner writes it.
    """

    job: str
    query_id: str
    run_id: str
    number: int
    offsets_hash: str
    start: Offsets
    end: Offsets
    watermark: datetime
    late_watermark: datetime = EPOCH
    rows_in: int | None = None
    dead: int | None = None
    late: int | None = None
    epoch: int | None = None
    plan: str | None = None
    latest: int | None = None
    topics: Mapping[str, str] | None = None
    claim: Claim | None = field(default=None, compare=False, repr=False)

    def of(self, topics: Collection[str]) -> Batch:
        """Return the same batch with the offsets of these topics alone."""
        return replace(self, start=_only(self.start, topics), end=_only(self.end, topics))


def planned(
    spark: SparkSession,
    checkpoint: str,
    *,
    job: str,
    query_id: str,
    run_id: str,
    number: int,
    base: int = 0,
) -> Batch:
    """Return what the checkpoint planned for a batch.

    Spark writes offsets/<number>, which holds the batch's end, before the batch runs, so that a
    crash changes nothing. The batch's start is the end in offsets/<number - 1>; for a source that
    has no end there, the initial offsets in sources/<i>/0; and 0 for a partition in neither, which
    appeared since. The checkpoint may be in any file system that Hadoop knows.

    number: the batch's number in the checkpoint; in the tables `base` is added to it.

    Raises:
        CheckpointError: for a file that is missing, or not what Spark writes.
    """
    path = f"{checkpoint}/offsets/{number}"
    content = _read(spark, path)
    meta, ends = parsed(path, content)
    before, starts = _previous(spark, checkpoint, number)
    start: Offsets = {}
    end: Offsets = {}
    for index, stops in enumerate(ends):
        begins = starts[index] if index < len(starts) else {}
        if stops and not begins:
            begins = initial_offsets(spark, checkpoint, index)
        _add_source(start, end, begins, stops)
    return Batch(
        job=job,
        query_id=query_id,
        run_id=run_id,
        number=base + number,
        offsets_hash=hashlib.sha256(content).hexdigest(),
        start=start,
        end=end,
        watermark=_watermark(meta),
        late_watermark=_watermark(before),
    )


def last_planned(spark: SparkSession, checkpoint: str) -> list[Offsets]:
    """Return up to where each source of the query reads by the newest plan of a checkpoint.

    Empty for a checkpoint that has none yet, and for a source that is no Kafka topic. A source that
    the query uses twice is there twice.

    Raises:
        CheckpointError: for a plan that is not what Spark writes.
    """
    folder = f"{checkpoint}/offsets"
    try:
        numbers = [int(name) for name in names_in(spark, folder) if name.isdecimal()]
    except OSError as error:
        raise _broken(folder, f"cannot be read: {error}") from error
    if not numbers:
        return []
    path = f"{folder}/{max(numbers)}"
    return parsed(path, _read(spark, path))[1]


def first_offsets(spark: SparkSession, checkpoint: str) -> Offsets:
    """Return the offsets at which a checkpoint began to read.

    Where two sources of the query read one partition, the smaller counts.

    Raises:
        CheckpointError: for a file that is missing, or not what Spark writes.
    """
    found: Offsets = {}
    for index, ends in enumerate(last_planned(spark, checkpoint)):
        # A source without ends is no Kafka topic, or has read nothing.
        for topic, parts in (initial_offsets(spark, checkpoint, index) if ends else {}).items():
            first = found.setdefault(topic, {})
            for part, at in parts.items():
                first[part] = min(first.get(part, at), at)
    return found


def _only(offsets: Offsets, topics: Collection[str]) -> Offsets:
    return {topic: partitions for topic, partitions in offsets.items() if topic in topics}


def _add_source(start: Offsets, end: Offsets, begins: Offsets, stops: Offsets) -> None:
    """Widen the range of a batch, from `start` to `end`, by what one of its sources reads."""
    for topic, partitions in stops.items():
        for partition, stop in partitions.items():
            begin = begins.get(topic, {}).get(partition, 0)
            first = start.setdefault(topic, {})
            first[partition] = min(first.get(partition, begin), begin)
            last = end.setdefault(topic, {})
            last[partition] = max(last.get(partition, stop), stop)


def _previous(
    spark: SparkSession, checkpoint: str, number: int
) -> tuple[dict[str, Any], list[Offsets]]:
    if number == 0:
        return {}, []
    return read_plan(spark, checkpoint, number - 1)


def read_plan(
    spark: SparkSession, checkpoint: str, number: int
) -> tuple[dict[str, Any], list[Offsets]]:
    """Return the metadata and each source's ends of a batch's plan.

    Raises:
        CheckpointError: for a file that is missing, or not what Spark writes.
    """
    path = f"{checkpoint}/offsets/{number}"
    return parsed(path, _read(spark, path))


def initial_offsets(spark: SparkSession, checkpoint: str, index: int) -> Offsets:
    """Return the offsets that a source of a checkpoint began with.

    Raises:
        CheckpointError: for a file that is missing, or not what Spark writes.
    """
    path = f"{checkpoint}/sources/{index}/0"
    # Kafka's file begins with a zero byte, a leftover of Spark 2.1, and then a line with the
    # version.
    _, _, offsets = _read(spark, path).removeprefix(b"\0").partition(b"\n")
    return _offsets(path, offsets.decode())


def parsed(path: str, content: bytes) -> tuple[dict[str, Any], list[Offsets]]:
    """Return the metadata and each source's ends out of a file of the log of offsets.

    Raises:
        CheckpointError: for a file that is not what Spark writes.
    """
    version, *lines = content.decode(errors="replace").split("\n")
    if version != "v1" or len(lines) < 2:
        raise _broken(path, f"begins with {version[:20]!r} and has {len(lines)} more lines")
    try:
        meta = json.loads(lines[0])
    except ValueError as error:
        raise _broken(path, "has metadata that is no JSON") from error
    return meta, [_offsets(path, line) for line in lines[1:]]


def _offsets(path: str, line: str) -> Offsets:
    """Return one source's Kafka offsets; empty where it has none yet ("-") or is no Kafka topic."""
    if line.strip() == "-":
        return {}
    try:
        return by_partition(json.loads(line))
    except (AttributeError, TypeError):
        return {}
    except ValueError as error:
        raise _broken(path, f"holds offsets that cannot be read: {line[:80]!r}") from error


def by_partition(found: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return offsets as JSON has them, where a partition's number is text."""
    offsets: Offsets = {}
    for topic, partitions in found.items():
        offsets[topic] = {int(partition): int(at) for partition, at in partitions.items()}
    return offsets


def _watermark(meta: dict[str, Any]) -> datetime:
    return EPOCH + timedelta(milliseconds=int(meta.get("batchWatermarkMs", 0)))


def _read(spark: SparkSession, path: str) -> bytes:
    try:
        content = read_bytes(spark, path)
    except OSError as error:
        raise _broken(path, f"cannot be read: {error}") from error
    if content is None:
        raise _broken(path, "is missing")
    return content


def _broken(path: str, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path} {what}.",
        "the offset log as Spark 4.2 writes it (version v1).",
        "restore the checkpoint as a whole, or start anew with a new checkpoint and new tables.",
    )
