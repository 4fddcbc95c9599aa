"""Spark's progress report of a batch, reduced to the numbers that telemetry shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

PartitionKey = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True, kw_only=True)
class BatchProgress:
    """The numbers of one progress report.

    Attributes:
        lag: unread records of all partitions; None if the source does not report it.
        watermark: the watermark as Spark writes it, in ISO 8601.
        state_rows: None if a state store does not count them.
        dropped_rows: rows, or groups of rows, that operators dropped behind the watermark.
        seconds: the duration of the batch.
        ended_at: when the batch ended, in seconds since 1970.
        read_offsets: the end offset of each partition.
    """

    batch: int
    lag: int | None
    watermark: str | None
    state_rows: int | None
    state_bytes: int
    rows: int
    seconds: float
    dropped_rows: int = 0
    ended_at: float | None = None
    lag_by_partition: Mapping[PartitionKey, int] = field(default_factory=dict)
    read_offsets: Mapping[PartitionKey, int] = field(default_factory=dict)

    @property
    def watermark_seconds(self) -> float | None:
        """The watermark in seconds since 1970.

        None before the first watermark, which Spark reports as 0, and for years outside 1 to 9999.
        """
        if self.watermark is None:
            return None
        try:
            return datetime.fromisoformat(self.watermark).timestamp() or None
        except (ValueError, OverflowError):
            return None


def parse_progress(
    progress: Mapping[str, Any], *, counts_rocksdb_rows: bool = True
) -> BatchProgress:
    """Parse a progress report of a query.

    The lag is the latest offsets minus the offsets read.

    counts_rocksdb_rows: whether RocksDB counts the rows of its state; otherwise Spark reports 0.

    >>> parse_progress({"batchId": 3, "durationMs": {"triggerExecution": 1500}}).seconds
    1.5
    """
    sources = progress.get("sources") or []
    states = progress.get("stateOperators") or []
    read_offsets: dict[PartitionKey, int] = {}
    lag_by_partition: dict[PartitionKey, int] = {}
    for source in sources:
        source_offsets = parse_source_offsets(source.get("endOffset"))
        read_offsets |= source_offsets
        if source_offsets:
            lag_by_partition |= {
                partition: max(0, offset - source_offsets.get(partition, 0))
                for partition, offset in parse_source_offsets(source.get("latestOffset")).items()
            }
    durations = progress.get("durationMs") or {}
    seconds = float(durations.get("triggerExecution") or 0) / 1000
    started_at = progress.get("timestamp")
    return BatchProgress(
        batch=int(progress.get("batchId", 0)),
        lag=sum(lag_by_partition.values()) if lag_by_partition else None,
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        state_rows=_count_state_rows(states, counts_rocksdb_rows),
        state_bytes=sum(_read_number(state, "memoryUsedBytes") for state in states),
        rows=sum(_read_number(source, "numInputRows") for source in sources),
        seconds=seconds,
        dropped_rows=sum(_read_number(state, "numRowsDroppedByWatermark") for state in states),
        ended_at=started_at and datetime.fromisoformat(started_at).timestamp() + seconds,
        lag_by_partition=lag_by_partition,
        read_offsets=read_offsets,
    )


def _count_state_rows(states: Sequence[Mapping[str, Any]], counts_rocksdb_rows: bool) -> int | None:
    """Return the rows of all state stores; None if one of them does not count its rows."""
    for state in states:
        metric_names = state.get("customMetrics") or {}
        is_rocksdb = any(name.startswith("rocksdb") for name in metric_names)
        if _read_number(state, "numRowsTotal") < 0 or (is_rocksdb and not counts_rocksdb_rows):
            return None
    return sum(_read_number(state, "numRowsTotal") for state in states)


def _read_number(report: Mapping[str, Any], name: str) -> int:
    return int(report.get(name) or 0)


def parse_source_offsets(offsets_json: object) -> dict[PartitionKey, int]:
    """Return the offsets of a source by topic and partition.

    The result is empty if the source is not Kafka, or has not reported offsets.
    """
    topics = offsets_json if isinstance(offsets_json, Mapping) else {}
    return {
        (topic, int(part)): int(offset)
        for topic, parts in topics.items()
        if isinstance(parts, Mapping)
        for part, offset in parts.items()
    }
