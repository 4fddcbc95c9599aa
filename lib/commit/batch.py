"""One micro-batch, as its checkpoint planned it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import read_bytes

Offsets: TypeAlias = dict[str, dict[int, int]]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a micro-batch is, before it runs and again after a crash: the same bytes of the checkpoint.

    number: the batch's number; offsets_hash: SHA-256 of the checkpoint's offsets/<number>, in hex.
    start, end: the Kafka offsets that it reads, end exclusive; empty where the input is no Kafka
        topic. Should two sources of the query read one partition, the range spans both.
    watermark: up to where this batch closes windows. late_watermark: behind which this batch drops
        a row as late; Spark takes the batch before's, as rows of one batch never make each other
        late. Both 1970 at first.
    rows_in, dead, late: what is known of its rows, for the commit stamp.
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

    def of(self, topics: Collection[str]) -> Batch:
        """Return the same batch with the offsets of these topics alone."""
        start, end = (
            {t: ps for t, ps in offsets.items() if t in topics}
            for offsets in (self.start, self.end)
        )
        return replace(self, start=start, end=end)


def planned(
    spark: SparkSession, checkpoint: str, *, job: str, query_id: str, run_id: str, number: int
) -> Batch:
    """Read what the checkpoint planned for a batch.

    offsets/<number> holds the batch's end and stands before the batch runs, so that a crash changes
    nothing. Its start is the end in offsets/<number - 1>; for a source without one, the initial
    offsets in sources/<i>/0; and for a partition in neither, which appeared since, 0. Any file
    system that Hadoop knows will do.

    Raises CheckpointError, naming the file, when one is missing or is not what Spark writes.
    """
    content = _read(spark, f"{checkpoint}/offsets/{number}")
    if content is None:
        raise _broken(f"{checkpoint}/offsets/{number}", "is missing")
    meta, ends = _parsed(f"{checkpoint}/offsets/{number}", content)
    before, starts = _previous(spark, checkpoint, number)
    start: Offsets = {}
    end: Offsets = {}
    for index, offsets in enumerate(ends):
        if not offsets:
            continue
        first = starts[index] if index < len(starts) else {}
        if not first:
            first = _initial(spark, checkpoint, index)
        for topic, partitions in offsets.items():
            for partition, stop in partitions.items():
                begin = first.get(topic, {}).get(partition, 0)
                known = start.setdefault(topic, {}).get(partition, begin)
                start[topic][partition] = min(known, begin)
                end.setdefault(topic, {})[partition] = max(
                    end.get(topic, {}).get(partition, stop), stop
                )
    return Batch(
        job=job,
        query_id=query_id,
        run_id=run_id,
        number=number,
        offsets_hash=hashlib.sha256(content).hexdigest(),
        start=start,
        end=end,
        watermark=_watermark(meta),
        late_watermark=_watermark(before),
    )


def _previous(
    spark: SparkSession, checkpoint: str, number: int
) -> tuple[dict[str, Any], list[Offsets]]:
    if number == 0:
        return {}, []
    path = f"{checkpoint}/offsets/{number - 1}"
    content = _read(spark, path)
    if content is None:
        raise _broken(path, "is missing")
    return _parsed(path, content)


def _initial(spark: SparkSession, checkpoint: str, index: int) -> Offsets:
    path = f"{checkpoint}/sources/{index}/0"
    content = _read(spark, path)
    if content is None:
        raise _broken(path, "is missing")
    # Kafka's file begins with a zero byte, a leftover of Spark 2.1, and then a line with the
    # version.
    _, _, offsets = content.removeprefix(b"\0").partition(b"\n")
    return _offsets(path, offsets.decode())


def _parsed(path: str, content: bytes) -> tuple[dict[str, Any], list[Offsets]]:
    version, *lines = content.decode(errors="replace").split("\n")
    if version != "v1" or len(lines) < 2:
        raise _broken(path, f"begins with {version[:20]!r} and has {len(lines)} more lines")
    try:
        meta = json.loads(lines[0])
    except ValueError as error:
        raise _broken(path, "has metadata that is no JSON") from error
    return meta, [_offsets(path, line) for line in lines[1:]]


def _offsets(path: str, line: str) -> Offsets:
    """Return one source's Kafka offsets; empty for a source that has none yet ("-") or is no Kafka
    topic."""
    if line.strip() == "-":
        return {}
    try:
        found = json.loads(line)
        return {
            topic: {int(p): int(offset) for p, offset in ps.items()} for topic, ps in found.items()
        }
    except (AttributeError, TypeError):
        return {}
    except ValueError as error:
        raise _broken(path, f"holds offsets that cannot be read: {line[:80]!r}") from error


def _watermark(meta: dict[str, Any]) -> datetime:
    return EPOCH + timedelta(milliseconds=int(meta.get("batchWatermarkMs", 0)))


def _read(spark: SparkSession, path: str) -> bytes | None:
    try:
        return read_bytes(spark, path)
    except OSError as error:
        raise _broken(path, f"cannot be read: {error}") from error


def _broken(path: str, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path} {what}.",
        "the offset log as Spark 4.2 writes it (version v1).",
        "restore the checkpoint as a whole, or start anew with a new checkpoint and new tables.",
    )
