"""A seeded sample click stream with disorder, duplicates, late rows and invalid records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError
from ..kafka.producer import Record, deliver

SCHEMA = (
    "event_id string, user_id string, page string, ms double, bytes bigint, event_time timestamp"
)
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
FAR_FUTURE = datetime(2099, 1, 1, tzinfo=UTC)

Fault = Literal["broken json", "wrong type", "empty", "invalid utf-8", "no time", "far future"]
UNREADABLE_FAULTS: tuple[Fault, ...] = (
    "broken json",
    "wrong type",
    "empty",
    "invalid utf-8",
    "no time",
)
_PAGES = ("/", "/search", "/cart", "/login", "/help", "/account", "/checkout", "/offers")


@dataclass(frozen=True, slots=True)
class Click:
    """One page view.

    event_time_ms, arrival_ms: event time and broker time in milliseconds since 1970.
    ms: response time in milliseconds. size: response size in bytes.
    """

    event_id: str
    user: str
    page: str
    ms: float
    size: int
    event_time_ms: int
    arrival_ms: int
    fault: Fault | None = None
    is_late: bool = False
    is_duplicate: bool = False

    def value(self) -> bytes:
        """Return the record's value: JSON, or invalid if the click has a fault."""
        second = datetime.fromtimestamp(self.event_time_ms / 1000, UTC).strftime(
            "%Y-%m-%dT%H:%M:%S"
        )
        event_time = f"{second}.{self.event_time_ms % 1000:03d}Z"
        text = (
            f'{{"event_id":"{self.event_id}","user_id":"{self.user}","page":"{self.page}",'
            f'"ms":{self.ms},"bytes":{self.size},"event_time":"{event_time}"}}'
        )
        if self.fault is None or self.fault == "far future":
            return text.encode()
        return _damage(text, self.fault)


def _damage(text: str, fault: Fault) -> bytes:
    if fault == "empty":
        return b""
    if fault == "broken json":
        return text[: len(text) * 2 // 3].encode()
    if fault == "invalid utf-8":
        return text.encode().replace(b'"page":"', b'"page":"\xff\xfe\xc3\x28')
    record = json.loads(text)
    if fault == "wrong type":
        record["ms"] = {"fast": True}
    else:
        del record["event_time"]
    return json.dumps(record).encode()


def clicks(
    count: int,
    *,
    seed: int = 11,
    start: datetime = START,
    rate: float = 100.0,
    pages: int = 200,
    users: int = 2_000,
    disorder: float = 5.0,
    duplicate_share: float = 0.01,
    late_share: float = 0.002,
    broken: int = 12,
) -> list[Click]:
    """Return clicks in order of arrival; the same arguments return the same clicks everywhere.

    Late clicks arrive in the last 30 % of the stream only. In a stream of three or more equal
    batches, exactly these clicks are late.

    Args:
        count: number of clicks.
        seed: seed of the random numbers.
        start: event time of the first clicks.
        rate: clicks per second of event time.
        pages: number of pages.
        users: number of users.
        disorder: maximum delay of a click that is not late, in seconds.
        duplicate_share: share of clicks that are sent twice, seconds apart.
        late_share: share of clicks that arrive one to six hours late.
        broken: number of unreadable records; one more record is dated 2099.

    Raises ArgumentError if fewer than half of the clicks would be without a fault.

    >>> len(clicks(1_000))
    1000
    """
    duplicate_count = round(count * duplicate_share)
    late_count = round(count * late_share)
    if count - duplicate_count - late_count - broken - 1 < count // 2:
        raise ArgumentError(
            f"invalid count: {count}",
            "a count with at least half of the clicks without faults",
        )
    # Uniform random numbers only: numpy's other distributions can change between releases. The
    # order of the draws is part of the result.
    random = np.random.Generator(np.random.PCG64(seed))
    start_ms = int(start.timestamp() * 1000)
    span_ms = count / rate * 1000
    draws = [random.random(count - duplicate_count) for _ in range(7)]
    event_time_ms = start_ms + (draws[0] * span_ms).astype(np.int64)
    delay_seconds = np.minimum(-np.log1p(-draws[1]) * disorder / 8, disorder * 0.5)
    # Response times are log-normal, by the Box-Muller transform.
    normal = np.sqrt(-2 * np.log1p(-draws[4])) * np.cos(2 * np.pi * draws[5])
    columns = [
        [f"user-{rank}" for rank in _zipf_ranks(users, draws[3])],
        [_page_path(rank) for rank in _zipf_ranks(pages, draws[2])],
        np.round(np.exp(4.2 + 0.8 * normal), 1).tolist(),
        (400 + (draws[6] ** 3 * 60_000).astype(np.int64)).tolist(),
        event_time_ms.tolist(),
        (event_time_ms + (delay_seconds * 1000).astype(np.int64)).tolist(),
    ]
    rows = zip(*columns, strict=True)
    generated = [Click(f"{seed}-{number}", *row) for number, row in enumerate(rows)]
    indexes = random.permutation(len(generated))[: late_count + broken + 1].tolist()
    for index in indexes[:late_count]:
        delay_ms = int(3_600_000 * (1 + 5 * random.random()))
        arrival_ms = start_ms + int(span_ms * (0.7 + 0.3 * random.random()))
        generated[index] = replace(
            generated[index],
            event_time_ms=arrival_ms - delay_ms,
            arrival_ms=arrival_ms,
            is_late=True,
        )
    for index, fault in zip(indexes[late_count:-1], cycle(UNREADABLE_FAULTS), strict=False):
        generated[index] = replace(generated[index], fault=fault)
    far_future_ms = int(FAR_FUTURE.timestamp() * 1000)
    generated[indexes[-1]] = replace(
        generated[indexes[-1]], event_time_ms=far_future_ms, fault="far future"
    )
    originals = [click for click in generated if click.fault is None and not click.is_late]
    for index in random.permutation(len(originals))[:duplicate_count].tolist():
        original = originals[index]
        shift_ms = int(random.random() * (disorder * 1000 - 1)) - int(disorder * 500)
        arrival_ms = max(original.arrival_ms + shift_ms, original.event_time_ms)
        generated.append(replace(original, arrival_ms=arrival_ms, is_duplicate=True))
    return sorted(
        generated, key=lambda click: (click.arrival_ms, click.event_id, click.is_duplicate)
    )


@dataclass(frozen=True, slots=True)
class SentRecord:
    """An acknowledged record: its position, its value and its click."""

    partition: int
    offset: int
    value: bytes
    click: Click


def send_clicks(
    bootstrap_servers: str, topic: str, sample: Sequence[Click], *, partitions: int = 4
) -> list[SentRecord]:
    """Send the clicks in order, and return the acknowledged records in the same order.

    The clicks are distributed evenly over the partitions. The timestamp of a record is the arrival
    of the click: create the topic with `retention_ms=-1`.

    Raises SourceError for a record that the broker does not acknowledge.
    """
    values = [click.value() for click in sample]
    records = [
        Record(topic, value, click.arrival_ms, click.user.encode(), number % partitions)
        for number, (value, click) in enumerate(zip(values, sample, strict=True))
    ]
    positions = deliver(bootstrap_servers, records)
    return [
        SentRecord(*position, value, click)
        for position, value, click in zip(positions, values, sample, strict=True)
    ]


def _zipf_ranks(size: int, uniform: NDArray[np.float64]) -> list[int]:
    shares = np.cumsum(1 / np.arange(1, size + 1) ** 1.1)
    ranks: list[int] = np.searchsorted(shares / shares[-1], uniform).tolist()
    return ranks


def _page_path(rank: int) -> str:
    return _PAGES[rank] if rank < len(_PAGES) else f"/product/{rank}"
