"""One micro-batch, as its checkpoint planned it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from ..offsets import EventTimes, Offsets, of_topics, offset_of
from .plan_file import initial_offsets, parsed, read_file, read_plan

if TYPE_CHECKING:
    from .pending import Pending
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
    epoch, plan, latest, topics, newest: as in the commit stamp.
    claim: what the driver that writes the batch has claimed; None where no runner writes it.
    ahead: returns once all that must be committed before the target is, and raises what went wrong
        with it; None where there is nothing of that kind.
    pending: of a batch that is written while its rows are counted; None of one that is known.
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
    newest: EventTimes | None = None
    claim: Claim | None = field(default=None, compare=False, repr=False)
    ahead: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    pending: Pending | None = field(default=None, compare=False, repr=False)

    def of(self, topics: Collection[str]) -> Batch:
        """Return the same batch with the offsets of these topics alone."""
        return replace(self, start=of_topics(self.start, topics), end=of_topics(self.end, topics))


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
    content = read_file(spark, path)
    meta, ends = parsed(path, content)
    before, starts = _previous(spark, checkpoint, number)
    start: Offsets = {}
    end: Offsets = {}
    for index, stops in enumerate(ends):
        begins = starts[index] if index < len(starts) else {}
        if stops and not begins:
            begins = initial_offsets(spark, checkpoint, index, stops)
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


def _add_source(start: Offsets, end: Offsets, begins: Offsets, stops: Offsets) -> None:
    """Widen the range of a batch, from `start` to `end`, by what one of its sources reads."""
    for topic, partitions in stops.items():
        for partition, stop in partitions.items():
            begin = offset_of(begins, topic, partition)
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


def _watermark(meta: dict[str, Any]) -> datetime:
    return EPOCH + timedelta(milliseconds=int(meta.get("batchWatermarkMs", 0)))
