"""A seeded click stream, lifelike in its faults.

It has disorder, duplicates, stragglers, broken records and a wrong clock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError

SCHEMA = (
    "event_id string, user_id string, page string, ms double, bytes bigint, event_time timestamp"
)
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
FAR_FUTURE = datetime(2099, 1, 1, tzinfo=UTC)

Fault = Literal["broken json", "wrong type", "empty", "invalid utf-8", "no time", "far future"]
BROKEN: tuple[Fault, ...] = ("broken json", "wrong type", "empty", "invalid utf-8", "no time")
_PAGES = ("/", "/search", "/cart", "/login", "/help", "/account", "/checkout", "/offers")


@dataclass(frozen=True, slots=True)
class Click:
    """One view of a page.

    `at` is the event time and `arrived` the broker's time, both in ms since 1970; `ms` is how long
    the page took, `size` its bytes.
    """

    event_id: str
    user: str
    page: str
    ms: float
    size: int
    at: int
    arrived: int
    fault: Fault | None = None
    straggler: bool = False
    duplicate: bool = False

    def value(self) -> bytes:
        """Return the record's bytes: JSON, damaged where the click has a fault."""
        second = datetime.fromtimestamp(self.at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        moment = f"{second}.{self.at % 1000:03d}Z"
        text = (
            f'{{"event_id":"{self.event_id}","user_id":"{self.user}","page":"{self.page}",'
            f'"ms":{self.ms},"bytes":{self.size},"event_time":"{moment}"}}'
        )
        if self.fault is None or self.fault == "far future":
            return text.encode()
        return _damaged(text, self.fault)


def _damaged(text: str, fault: Fault) -> bytes:
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
    duplicates: float = 0.01,
    stragglers: float = 0.002,
    broken: int = 12,
) -> list[Click]:
    """Return clicks in the order of their arrival, the same on every machine.

    Stragglers arrive in the last 30 % only: where the clicks are cut into three even batches or
    more, all stragglers are late, and no other click is.

    Args:
        count: how many clicks.
        seed: another seed gives other clicks.
        start: the event time of the first clicks.
        rate: clicks a second of event time.
        pages: how many pages there are.
        users: how many users there are.
        disorder: the most seconds that an honest click is under way.
        duplicates: the share of clicks whose event_id comes once more, seconds later.
        stragglers: the share of clicks that arrive an hour to six hours late.
        broken: how many records cannot be read; one more comes from a clock in the year 2099.

    Raises:
        ArgumentError: where fewer than half of the clicks would be without any fault.

    >>> len(clicks(1_000))
    1000
    """
    repeats = round(count * duplicates)
    late = round(count * stragglers)
    if count - repeats - late - broken - 1 < count // 2:
        raise ArgumentError(
            f"count is {count}.", "a count of which half at least are clicks without any fault."
        )
    random = np.random.Generator(np.random.PCG64(seed))
    first = int(start.timestamp() * 1000)
    honest = _Honest(first, count / rate * 1000, disorder, pages, users)
    made = honest.clicks(count - repeats, f"{seed}-", random)
    _spoil(made, late, broken, honest, random)
    originals = [click for click in made if click.fault is None and not click.straggler]
    for index in random.permutation(len(originals))[:repeats].tolist():
        made.append(_duplicate(originals[index], disorder, random))
    return sorted(made, key=lambda click: (click.arrived, click.event_id, click.duplicate))


def _spoil(
    made: list[Click], late: int, broken: int, honest: _Honest, random: np.random.Generator
) -> None:
    """Make some of the clicks late and some unreadable, and put one into the far future."""
    chosen = random.permutation(len(made))[: late + broken + 1].tolist()
    for index in chosen[:late]:
        made[index] = _straggler(made[index], honest.first, honest.span, random)
    for number, index in enumerate(chosen[late:-1]):
        made[index] = replace(made[index], fault=BROKEN[number % len(BROKEN)])
    ahead = int(FAR_FUTURE.timestamp() * 1000)
    made[chosen[-1]] = replace(made[chosen[-1]], at=ahead, fault="far future")


def _straggler(click: Click, first: int, span: float, random: np.random.Generator) -> Click:
    late = int(3_600_000 * (1 + 5 * random.random()))
    arrived = first + int(span * (0.7 + 0.3 * random.random()))
    return replace(click, at=arrived - late, arrived=arrived, straggler=True)


def _duplicate(click: Click, disorder: float, random: np.random.Generator) -> Click:
    later = int(random.random() * (disorder * 1000 - 1)) - int(disorder * 500)
    return replace(click, arrived=max(click.arrived + later, click.at), duplicate=True)


@dataclass(frozen=True)
class _Honest:
    """Clicks without a fault: `span` ms from the instant `first`, in ms since 1970.

    Only uniform numbers are drawn, since numpy may change its other distributions from one release
    to the next; and in this order, since every later number depends on it.
    """

    first: int
    span: float
    disorder: float
    pages: int
    users: int

    def clicks(self, count: int, prefix: str, random: np.random.Generator) -> list[Click]:
        """Return clicks whose ids begin with the prefix."""
        at = self.first + (random.random(count) * self.span).astype(np.int64)
        arrived = at + self._delay(random.random(count))
        page = _zipf(self.pages, 1.1, random.random(count))
        user = _zipf(self.users, 1.1, random.random(count))
        ms = _milliseconds(random.random(count), random.random(count))
        size = 400 + (random.random(count) ** 3 * 60_000).astype(np.int64)
        columns = [user, page, ms, size, at, arrived]
        rows = zip(*[column.tolist() for column in columns], strict=True)
        return [
            Click(f"{prefix}{number}", f"user-{user}", _page(page), ms, size, at, arrived)
            for number, (user, page, ms, size, at, arrived) in enumerate(rows)
        ]

    def _delay(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        seconds = np.minimum(-np.log1p(-uniform) * self.disorder / 8, self.disorder * 0.5)
        return (seconds * 1000).astype(np.int64)


def _milliseconds(radius: NDArray[np.float64], angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return durations with a logarithm that is normal, by the transform of Box and Muller."""
    normal = np.sqrt(-2 * np.log1p(-radius)) * np.cos(2 * np.pi * angle)
    durations: NDArray[np.float64] = np.round(np.exp(4.2 + 0.8 * normal), 1)
    return durations


def _zipf(size: int, exponent: float, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    shares = np.cumsum(1 / np.arange(1, size + 1) ** exponent)
    return np.searchsorted(shares / shares[-1], uniform).astype(np.int64)


def _page(rank: int) -> str:
    return _PAGES[rank] if rank < len(_PAGES) else f"/product/{rank}"
