"""A seeded click stream, lifelike in its faults: disorder, duplicates, stragglers, broken records,
a wrong clock."""

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
    """One view of a page: `at` is the event time and `arrived` the broker's time, both in ms since
    1970."""

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
        moment = (
            datetime.fromtimestamp(self.at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.")
            + f"{self.at % 1000:03d}Z"
        )
        text = (
            f'{{"event_id":"{self.event_id}","user_id":"{self.user}","page":"{self.page}",'
            f'"ms":{self.ms},"bytes":{self.size},"event_time":"{moment}"}}'
        )
        return text.encode() if self.fault in (None, "far future") else _damaged(text, self.fault)


def _damaged(text: str, fault: Fault | None) -> bytes:
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
    """Make clicks in the order of their arrival, the same for the same arguments on every machine.

    `rate` is clicks a second of event time and `disorder` the most seconds that an honest click is
    under way. The shares `duplicates` (the same event_id once more, seconds later) and `stragglers`
    (an hour to six hours late) are of `count`; `broken` records cannot be read, and one more comes
    from a clock in the year 2099. Stragglers arrive in the last 30 % only: cut into three even
    batches or more, all of them are late, and no other click is.

    >>> len(clicks(1_000))
    1000
    """
    repeats, strays = round(count * duplicates), round(count * stragglers)
    plain = count - repeats - strays - broken - 1
    if plain < count // 2:
        raise ArgumentError(
            f"count is {count}.", "a count of which half at least are clicks without any fault."
        )
    random = np.random.Generator(np.random.PCG64(seed))
    first, span = int(start.timestamp() * 1000), count / rate * 1000
    made = _honest(plain + strays + broken + 1, first, span, disorder, (pages, users), seed, random)
    spoilt = iter(random.permutation(len(made))[: strays + broken + 1].tolist())
    for _ in range(strays):
        index = next(spoilt)
        late = int(3_600_000 * (1 + 5 * random.random()))
        arrived = first + int(span * (0.7 + 0.3 * random.random()))
        made[index] = replace(made[index], at=arrived - late, arrived=arrived, straggler=True)
    for number in range(broken):
        index = next(spoilt)
        made[index] = replace(made[index], fault=BROKEN[number % len(BROKEN)])
    index = next(spoilt)
    made[index] = replace(made[index], at=int(FAR_FUTURE.timestamp() * 1000), fault="far future")
    originals = [click for click in made if click.fault is None and not click.straggler]
    for chosen in random.permutation(len(originals))[:repeats].tolist():
        again = (
            originals[chosen].arrived
            + int(random.random() * (disorder * 1000 - 1))
            - int(disorder * 500)
        )
        original = originals[chosen]
        made.append(replace(original, arrived=max(again, original.at), duplicate=True))
    return sorted(made, key=lambda click: (click.arrived, click.event_id, click.duplicate))


def _honest(
    count: int,
    first: int,
    span: float,
    disorder: float,
    sizes: tuple[int, int],
    seed: int,
    random: np.random.Generator,
) -> list[Click]:
    # Only uniform numbers are drawn: numpy may change its other distributions from one release to
    # the next.
    at = first + (random.random(count) * span).astype(np.int64)
    delay = np.minimum(-np.log1p(-random.random(count)) * disorder / 8, disorder * 0.5)
    page, user = (_zipf(size, 1.1, random.random(count)) for size in sizes)
    normal = np.sqrt(-2 * np.log1p(-random.random(count))) * np.cos(
        2 * np.pi * random.random(count)
    )
    ms = np.round(np.exp(4.2 + 0.8 * normal), 1)
    size = 400 + (random.random(count) ** 3 * 60_000).astype(np.int64)
    columns = (at, at + (delay * 1000).astype(np.int64), page, user, ms, size)
    return [
        Click(f"{seed}-{number}", f"user-{u}", _page(p), m, b, t, a)
        for number, (t, a, p, u, m, b) in enumerate(
            zip(*(c.tolist() for c in columns), strict=True)
        )
    ]


def _zipf(size: int, exponent: float, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    shares = np.cumsum(1 / np.arange(1, size + 1) ** exponent)
    return np.searchsorted(shares / shares[-1], uniform).astype(np.int64)


def _page(rank: int) -> str:
    return _PAGES[rank] if rank < len(_PAGES) else f"/product/{rank}"
