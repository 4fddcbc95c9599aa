"""What a producer was told: every acknowledged record, and what a window job must make of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .clicks import Click
from .delivery import Record, deliver


@dataclass(frozen=True, slots=True)
class Sent:
    """One acknowledged record: where the broker put it, its bytes and the click that it carries."""

    partition: int
    offset: int
    value: bytes
    click: Click


@dataclass(frozen=True, slots=True)
class Views:
    """What the job counts for one page in one window; `size` is the sum of bytes."""

    views: int
    total_ms: float
    slowest_ms: float
    size: int


def produce(
    servers: str, topic: str, clicks: Sequence[Click], *, partitions: int = 4
) -> list[Sent]:
    """Send the clicks in their order, and return the ledger in the same order.

    The clicks are spread evenly over the partitions. A record's timestamp is the click's arrival:
    create the topic with `retention_ms=-1`.

    Raises:
        SourceError: for a record that the broker did not acknowledge.
    """
    values = [click.value() for click in clicks]
    records = [
        Record(topic, value, click.arrived, click.user.encode(), number % partitions)
        for number, (value, click) in enumerate(zip(values, clicks, strict=True))
    ]
    places = deliver(servers, records)
    return [
        Sent(*place, value, click)
        for place, value, click in zip(places, values, clicks, strict=True)
    ]


def expected(
    ledger: Iterable[Sent], size_ms: int, *, late: bool = False
) -> dict[tuple[int, str], Views]:
    """Return the page views of tumbling windows, in plain Python.

    By (window start in ms since 1970, page). Broken records are left out, and stragglers too unless
    `late` is set.
    """
    groups: dict[tuple[int, str], list[Click]] = {}
    for sent in ledger:
        click = sent.click
        if click.fault is None and (late or not click.straggler):
            start = click.at // size_ms * size_ms
            groups.setdefault((start, click.page), []).append(click)
    return {key: _views(group) for key, group in groups.items()}


def _views(group: Sequence[Click]) -> Views:
    return Views(
        views=len(group),
        total_ms=sum(click.ms for click in group),
        slowest_ms=max(click.ms for click in group),
        size=sum(click.size for click in group),
    )
