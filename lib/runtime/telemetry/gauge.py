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
    sources, states = progress.get("sources") or [], progress.get("stateOperators") or []
    known = [found for source in sources if (found := _behind(source)) is not None]
    lags = {place: rows for found in known for place, rows in found.items()}
    seconds = float((progress.get("durationMs") or {}).get("triggerExecution") or 0) / 1000
    began = progress.get("timestamp")
    return Gauge(
        batch=int(progress.get("batchId", 0)),
        lag=sum(lags.values()) if known else None,
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        state_rows=sum(max(0, int(state.get("numRowsTotal") or 0)) for state in states),
        state_bytes=sum(int(state.get("memoryUsedBytes") or 0) for state in states),
        rows=sum(int(source.get("numInputRows") or 0) for source in sources),
        seconds=seconds,
        dropped=sum(int(state.get("numRowsDroppedByWatermark") or 0) for state in states),
        ended=None if began is None else datetime.fromisoformat(began).timestamp() + seconds,
        lags=lags,
        read={
            place: at
            for source in sources
            for place, at in _by_place(source.get("endOffset")).items()
        },
    )


def _behind(source: Mapping[str, Any]) -> dict[Place, int] | None:
    latest, read = (_by_place(source.get(end)) for end in ("latestOffset", "endOffset"))
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
