"""The lineage of a checkpoint: its job, query, tables, topics and plan, and its resume point."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ..offsets import EventTimes, Offsets
from .persisted_json import (
    OFFSETS,
    PLAIN,
    FormatVersion,
    HashedFile,
    JsonForm,
    by_number,
    json_sha256,
    list_of,
    mapping_of,
    optional,
)

NO_BATCH = -1
"""The number of the last complete batch before the first one."""
_MAX_RECORDED_BATCHES = 2
_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class ResumePoint:
    """Where a new checkpoint continues after a lost one.

    query: the query id of the lost checkpoint, which stays in the application ids of the commits.
    first_batch: the number of the first batch in the tables.
    start: the offsets of the first batch.
    complete_after: results at or before this instant can lack rows, because their state is lost;
        in microseconds since 1970. None if no state is lost.
    max_event_times: for deterministic lateness, the maximum event times at `start`.
    """

    query: str
    first_batch: int
    start: Offsets
    complete_after: int | None = None
    max_event_times: EventTimes | None = None


RESUME_POINT_FORM = JsonForm(
    ResumePoint,
    {
        "query": "query",
        "first_batch": "first_batch",
        "start": ("start_offsets", OFFSETS),
        "complete_after": "complete_after",
        "max_event_times": ("max_event_times", optional(OFFSETS)),
    },
)


@dataclass(frozen=True, kw_only=True)
class Backfill:
    """A backfill of a new checkpoint: one batch before the stream starts.

    query: the query id in the application ids of the commits of the backfill and of the stream.
    start, end: the offsets that the backfill reads, end exclusive.
    handover_start: the first offsets of the stream. It reads the rows from there to `end` again,
        because its results can depend on them.
    handover_time: the backfill writes the results before this instant, the stream all others; in
        microseconds since 1970. None for a stateless transform, where the offset of a row decides.
    max_event_times: for deterministic lateness, the maximum event time of each partition at `end`.
    """

    query: str
    start: Offsets
    end: Offsets
    handover_start: Offsets
    handover_time: int | None
    max_event_times: EventTimes | None = None

    @property
    def range_hash(self) -> str:
        """A hash of the range, which commit stamps have as the hash of the offsets.

        The maximum event times do not count: they are known only once the backfill has read.
        """
        return json_sha256(BACKFILL_FORM.encode(replace(self, max_event_times=None)))

    @property
    def max_event_times_at_handover(self) -> EventTimes | None:
        """The maximum event times at `handover_start`, for partitions without rows to read again.

        In any other partition, the first row that results need is newer than all rows before it.
        """
        if self.max_event_times is None:
            return None
        return {
            topic: {
                part: time
                for part, time in parts.items()
                if self.handover_start[topic][part] == self.end[topic][part]
            }
            for topic, parts in self.max_event_times.items()
        }

    @property
    def complete_after(self) -> int | None:
        """The last instant whose results the backfill writes, in microseconds since 1970."""
        return None if self.handover_time is None else self.handover_time - 1


BACKFILL_FORM = JsonForm(
    Backfill,
    {
        "query": "query",
        "start": ("start_offsets", OFFSETS),
        "end": ("end_offsets", OFFSETS),
        "handover_start": ("handover_offsets", OFFSETS),
        "handover_time": "handover_time",
        "max_event_times": ("max_event_times", optional(OFFSETS)),
    },
)


@dataclass(frozen=True, kw_only=True)
class RecordedTable:
    """A table after a batch: Delta's table id, the version, and a hash of that version's commit."""

    path: str
    id: str
    version: int
    commit_hash: str


RECORDED_TABLE_FORM = JsonForm(
    RecordedTable,
    {"path": "path", "id": "id", "version": "version", "commit_hash": "commit_sha256"},
)


@dataclass(frozen=True, kw_only=True)
class Rescaling:
    """An unfinished change of the number of state partitions.

    batch: the batch of the checkpoint in which Spark rewrites the state.
    """

    batch: int
    partitions_before: int
    partitions_after: int

    def finish_command(self, checkpoint: str) -> str:
        """Return the command that finishes the change."""
        return f"tidegate rescale {checkpoint} --to {self.partitions_after}"


RESCALING_FORM = JsonForm(
    Rescaling,
    {
        "batch": "batch",
        "partitions_before": "partitions_before",
        "partitions_after": "partitions_after",
    },
)


@dataclass(frozen=True, kw_only=True)
class CheckpointLineage:
    """The lineage of a checkpoint after its last complete batch.

    job, query: the job's name, and Spark's id of the query; None before the first start.
    epoch: the number of the start that wrote the lineage; each start has a greater one.
    last_batch: the last batch that is in all of its tables, counted from 0 in the checkpoint.
    offsets_hashes, commit_hashes: SHA-256 of the newest files of the offset log and of the commit
        log, by batch.
    file_hashes: SHA-256 of the checkpoint's files that never change, by path in the checkpoint.
    tables: each table after its last commit, by output.
    outputs: the outputs of the sink; each has every batch from its first one on.
    topic_ids: Kafka's id of each topic, by name.
    stream_counts: the number of streams of each input.
    dead_letter_topics: the dead letter topics of this start and of earlier ones.
    fingerprint: the parts of the query, in readable text.
    max_event_time: the maximum event time that was read, in microseconds since 1970.
    max_event_times: for deterministic lateness, the maximum event time of each partition after the
        newest batches, by batch.
    resume_point: where the checkpoint continues a lost one; None for any other checkpoint.
    backfill: the backfill, which is batch 0 of the tables; None for a stream alone.
    rescaling: an unfinished change of the number of state partitions, or None.
    released: whether the driver has stopped and writes no more.
    """

    job: str
    query: str | None = None
    epoch: int = 0
    last_batch: int = NO_BATCH
    offsets_hashes: Mapping[int, str] = field(default_factory=dict)
    commit_hashes: Mapping[int, str] = field(default_factory=dict)
    file_hashes: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, RecordedTable] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    stream_counts: Mapping[str, int] = field(default_factory=dict)
    dead_letter_topics: tuple[str, ...] = ()
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    max_event_time: int | None = None
    max_event_times: Mapping[int, EventTimes] = field(default_factory=dict)
    resume_point: ResumePoint | None = None
    backfill: Backfill | None = None
    rescaling: Rescaling | None = None
    released: bool = False

    @property
    def batch_number_offset(self) -> int:
        """The difference between a batch's number in the tables and in the checkpoint."""
        if self.resume_point is not None:
            return self.resume_point.first_batch
        return 0 if self.backfill is None else 1

    @property
    def committed_batches(self) -> range:
        """The batches that are in all of their tables, by their numbers there."""
        return range(self.batch_number_offset, self.batch_number_offset + self.last_batch + 1)

    @property
    def has_written_batches(self) -> bool:
        """Whether the tables have a batch: of the stream, a backfill or a lost checkpoint."""
        return self.last_batch > NO_BATCH or bool(self.tables) or self.resume_point is not None

    def commit_query_id(self, query: str) -> str:
        """Return the query id in the application ids of the commits."""
        origin = self.resume_point or self.backfill
        return query if origin is None else origin.query

    def with_batch(
        self,
        number: int,
        offsets_hash: str,
        tables: Mapping[str, RecordedTable],
        *,
        query: str,
        max_event_time: int | None,
        topic_ids: Mapping[str, str] | None = None,
        max_event_times: EventTimes | None = None,
    ) -> CheckpointLineage:
        """Return the lineage after a batch is in all of its tables."""
        times = [time for time in (self.max_event_time, max_event_time) if time is not None]
        new_event_times = {} if max_event_times is None else {number: max_event_times}
        return replace(
            self,
            query=query,
            last_batch=number,
            offsets_hashes=_newest_batches({**self.offsets_hashes, number: offsets_hash}),
            tables={**self.tables, **tables},
            topic_ids={**self.topic_ids, **(topic_ids or {})},
            max_event_time=max(times, default=None),
            max_event_times=_newest_batches({**self.max_event_times, **new_event_times}),
        )

    def with_claim_of(self, current: CheckpointLineage) -> CheckpointLineage:
        """Return the lineage of an earlier driver under the epoch and the plan of this one."""
        return replace(
            self,
            epoch=current.epoch,
            fingerprint=current.fingerprint,
            outputs=current.outputs,
            stream_counts=current.stream_counts,
            released=False,
        )

    def with_commit(self, number: int, commit_hash: str) -> CheckpointLineage:
        """Return the lineage with the hash of a batch's file in the commit log."""
        return replace(
            self, commit_hashes=_newest_batches({**self.commit_hashes, number: commit_hash})
        )

    def to_json(self) -> str:
        """Return the content of the lineage file."""
        return LINEAGE_FILE.to_json(self)

    @classmethod
    def from_json(cls, content: bytes, path: str) -> CheckpointLineage:
        """Return the lineage that a file contains.

        Raises CheckpointError for a damaged file, or one of a newer version of tidegate.
        """
        return LINEAGE_FILE.from_json(content, path)


LINEAGE_FILE = HashedFile(
    FormatVersion("tidegate lineage", 1),
    JsonForm(
        CheckpointLineage,
        {
            "job": "job",
            "query": "query",
            "epoch": "epoch",
            "last_batch": "last_batch",
            "offsets_hashes": ("offsets_sha256", by_number(PLAIN)),
            "commit_hashes": ("commits_sha256", by_number(PLAIN)),
            "file_hashes": ("files_sha256", mapping_of(PLAIN)),
            "tables": ("tables", mapping_of(RECORDED_TABLE_FORM.codec)),
            "outputs": ("outputs", list_of(PLAIN)),
            "topic_ids": ("topic_ids", mapping_of(PLAIN)),
            "stream_counts": ("streams", mapping_of(PLAIN)),
            "dead_letter_topics": ("dead_letter_topics", list_of(PLAIN)),
            "fingerprint": ("fingerprint", mapping_of(PLAIN)),
            "max_event_time": "max_event_time",
            "max_event_times": ("max_event_times", by_number(OFFSETS)),
            "resume_point": ("resume_point", optional(RESUME_POINT_FORM.codec)),
            "backfill": ("backfill", optional(BACKFILL_FORM.codec)),
            "rescaling": ("rescaling", optional(RESCALING_FORM.codec)),
            "released": "released",
        },
    ),
    remedy="restore the checkpoint from a copy; or start with a new checkpoint and "
    "--resume-from-table. Nothing was written.",
)


def hash_fingerprint(fingerprint: Mapping[str, str]) -> str:
    """Return a short hash of a fingerprint, for commit stamps."""
    text = json.dumps(dict(fingerprint), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _newest_batches(by_batch: Mapping[int, _Value]) -> dict[int, _Value]:
    return {number: by_batch[number] for number in sorted(by_batch)[-_MAX_RECORDED_BATCHES:]}
