"""What Spark reports after a batch, in the numbers that a run tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """What Spark reports after a batch.

    lag: in rows, and by partition in `lags`. read: up to where each partition has been read.
    watermark: as Spark says it, in ISO 8601. ended: when the batch ended, in seconds since 1970.
    state_bytes: in bytes. dropped: rows that operators left out behind the watermark.
    seconds: of the batch.
    """

    batch: int
    lag: int | None
    watermark: str | None
    state_rows: int
    state_bytes: int
    rows: int
    seconds: float
    dropped: int = 0
    ended: float | None = None
    lags: Mapping[Place, int] = field(default_factory=dict)
    read: Mapping[Place, int] = field(default_factory=dict)

    @property
    def mark(self) -> float | None:
        """The watermark in seconds since 1970; None before the first, which Spark calls 0.

        None, too, for one outside of the years 1 to 9999.
        """
        if self.watermark is None:
            return None
        try:
            return datetime.fromisoformat(self.watermark).timestamp() or None
        except (ValueError, OverflowError):
            return None


def gauge(progress: Mapping[str, Any]) -> Gauge:
    """Read a query's progress report.

    The lag is the broker's end offsets minus those read; a count of state rows that Spark does not
    keep is 0.
    """
    sources = progress.get("sources") or []
    states = progress.get("stateOperators") or []
    known = [found for source in sources if (found := _behind(source)) is not None]
    lags = {place: rows for found in known for place, rows in found.items()}
    read: dict[Place, int] = {}
    for source in sources:
        read |= _by_place(source.get("endOffset"))

    times = progress.get("durationMs") or {}
    seconds = float(times.get("triggerExecution") or 0) / 1000
    began = progress.get("timestamp")
    ended = None if began is None else datetime.fromisoformat(began).timestamp() + seconds
    return Gauge(
        batch=int(progress.get("batchId", 0)),
        lag=sum(lags.values()) if known else None,
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        # A count that is not kept is negative.
        state_rows=sum(max(0, _number(state, "numRowsTotal")) for state in states),
        state_bytes=sum(_number(state, "memoryUsedBytes") for state in states),
        rows=sum(_number(source, "numInputRows") for source in sources),
        seconds=seconds,
        dropped=sum(_number(state, "numRowsDroppedByWatermark") for state in states),
        ended=ended,
        lags=lags,
        read=read,
    )


def _number(told: Mapping[str, Any], name: str) -> int:
    """Return a number of a report; 0 where the report has none."""
    return int(told.get(name) or 0)


def _behind(source: Mapping[str, Any]) -> dict[Place, int] | None:
    latest = _by_place(source.get("latestOffset"))
    read = _by_place(source.get("endOffset"))
    if not latest or not read:
        return None
    return {place: max(0, at - read.get(place, 0)) for place, at in latest.items()}


def _by_place(reported: object) -> dict[Place, int]:
    return {(topic, int(part)): at for (topic, part), at in offsets(reported).items()}


def offsets(reported: object) -> dict[tuple[str, str], int]:
    """Return a source's offsets by topic and partition.

    Empty where it is no Kafka source, or told none.
    """
    topics = reported.items() if isinstance(reported, Mapping) else ()
    kafka = [(topic, parts) for topic, parts in topics if isinstance(parts, Mapping)]
    return {(topic, part): int(at) for topic, parts in kafka for part, at in parts.items()}
