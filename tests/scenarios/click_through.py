"""The scenario of jobs/click_through.py: searches and the clicks that follow them, by session.

Generated from a seed, with realistic faults; and the expected and actual rows of the tables.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Literal

from tests.support.delta_tables import Reader, rows
from tidegate.kafka.producer import Record, deliver
from tidegate.testing import Broker

Topic = Literal["searches", "clicks"]
TOPICS: tuple[Topic, ...] = ("searches", "clicks")
SCHEMAS: dict[Topic, str] = {
    "searches": "search_id string not null, session_id string, page string, event_time timestamp",
    "clicks": "click_id string not null, session_id string, url string, position int, event_time "
    "timestamp",
}
BEFORE_MS, AFTER_MS, WINDOW_MS = 10_000, 300_000, 600_000
OPTIONS = {
    **{f"{topic}.schema": SCHEMAS[topic] for topic in TOPICS},
    **{f"{topic}.watermark_delay": "30 seconds" for topic in TOPICS},
    "join.before": f"{BEFORE_MS} milliseconds",
    "join.after": f"{AFTER_MS} milliseconds",
    "window.size": f"{WINDOW_MS} milliseconds",
}
Rate = tuple[int, int, str, int, int, int]
"""Window start and end in ms, page, searches, clicked, clicks."""

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
_TOPICS = ("shoes", "maps", "bread", "trains", "rain", "violin", "tides", "lamps")


@dataclass(frozen=True, slots=True)
class Event:
    """A search or a click, as its topic says.

    `place` is the page of a search's results, or the URL that a click opens. `at` is the event time
    and `arrived` the broker's time, both in ms since 1970.
    """

    topic: Topic
    id: str
    session: str | None
    place: str
    at: int
    arrived: int
    broken: bool = False
    is_late: bool = False

    def value(self) -> bytes:
        """Return the record's bytes: JSON, truncated if it is broken."""
        own = (
            {"search_id": self.id, "page": self.place}
            if self.topic == "searches"
            else {"click_id": self.id, "url": self.place, "position": len(self.place) % 10}
        )
        moment = datetime.fromtimestamp(self.at / 1000, UTC).isoformat(timespec="milliseconds")
        text = json.dumps(
            {**own, "session_id": self.session, "event_time": moment}, separators=(",", ":")
        ).encode()
        return text[: len(text) // 2] if self.broken else text

    @property
    def counts(self) -> bool:
        """Whether it can be read and is in time."""
        return not (self.broken or self.is_late)


Place = tuple[Topic, int, int]
Ledger = dict[Place, Event]
"""Each acknowledged record by the topic's kind, its partition and its offset."""


def searches(
    sessions: int,
    *,
    seed: int = 11,
    start: datetime = START,
    minutes: int = 60,
    disorder: float = 20.0,
) -> list[Event]:
    """Return the searches and clicks of `sessions` sessions in the order of their arrival.

    The same arguments return the same events. A session has one to three searches, minutes apart;
    two of five searches are clicked, once to three times, within seconds or minutes. Searches are
    delayed by up to `disorder` seconds and clicks are not, so that many clicks arrive before their
    search. One in twenty sessions has no id; one record in a hundred is sent twice, one in a
    hundred cannot be read, and one in a hundred is hours late: these arrive in the last third only.
    Half a day later a last search and a last click, each of another session, close all windows."""
    random, first, made = Random(seed), int(start.timestamp() * 1000), list[Event]()
    for number in range(sessions):
        session = None if random.random() < 0.05 else f"session-{seed}-{number}"
        at = first + random.randrange(minutes * 60_000)
        for again in range(random.randint(1, 3)):
            page = (
                f"/search/{_TOPICS[min(random.randrange(12), random.randrange(12)) % len(_TOPICS)]}"
            )
            name = f"{seed}-{number}-{again}"
            under_way = int(random.random() * disorder * 1000)
            made.append(Event("searches", f"search-{name}", session, page, at, at + under_way))
            made += _clicks(random, name, session, at) if random.random() < 0.4 else []
            at += random.randrange(5_000, 400_000)
    spoilt = [_spoilt(random, event, first + minutes * 60_000) for event in made]
    twice = [event for event in spoilt if event.counts and random.random() < 0.01]
    redelivered = [replace(event, arrived=event.arrived + 500) for event in twice]
    end = first + 12 * 3_600_000
    last = [
        Event(topic, f"last-{topic}", f"last-{topic}", "/search/last", end, end) for topic in TOPICS
    ]
    return sorted([*spoilt, *redelivered, *last], key=lambda event: (event.arrived, event.id))


def _clicks(random: Random, name: str, session: str | None, at: int) -> Iterator[Event]:
    for number in range(random.randint(1, 3)):
        clicked = at + random.choice([random.randrange(20_000), random.randrange(500_000)])
        url = f"https://example.org/{random.randrange(40)}"
        yield Event(
            "clicks",
            f"click-{name}-{number}",
            session,
            url,
            clicked,
            clicked + random.randrange(300),
        )


def _spoilt(random: Random, event: Event, end: int) -> Event:
    chance = random.random()
    if chance < 0.01:
        return replace(event, broken=True)
    if chance < 0.02:
        arrived = end + random.randrange(60_000)
        return replace(
            event,
            at=arrived - random.randrange(2 * 3_600_000, 5 * 3_600_000),
            arrived=arrived,
            is_late=True,
        )
    return event


def produce(
    servers: str, topics: Mapping[Topic, str], events: Sequence[Event], *, partitions: int = 2
) -> Ledger:
    """Send the events in their order, evenly over each topic's partitions; return the ledger.

    A record's timestamp is the event's arrival, which may be long ago: create the topics with
    `retention_ms=-1`. A record that the broker did not acknowledge raises a SourceError."""
    sent, records = Counter[Topic](), []
    for event in events:
        records.append(
            Record(
                topics[event.topic],
                event.value(),
                event.arrived,
                partition=sent[event.topic] % partitions,
            )
        )
        sent[event.topic] += 1
    places = deliver(servers, records)
    return {(event.topic, *place): event for event, place in zip(events, places, strict=True)}


def sent(
    broker: Broker, topic: str, events: Sequence[Event]
) -> tuple[dict[Topic, str], Ledger, dict[Topic, int]]:
    """Create a topic per kind and send the events.

    Returns the names of the topics, the ledger, and a batch size per kind with which four batches
    read all records.
    """
    named: dict[Topic, str] = {kind: f"{kind}-{topic}" for kind in TOPICS}
    for name in named.values():
        broker.create_topic(name, partitions=2, retention_ms=-1)
    ledger = produce(broker.bootstrap_servers, named, events)
    found = Counter(place[0] for place in ledger)
    return named, ledger, {kind: found[kind] // 4 + 1 for kind in TOPICS}


def matched(
    events: Iterable[Event], before_ms: int, after_ms: int
) -> list[tuple[Event, list[Event]]]:
    """Return each search in time with its clicks, by the definition of the join; the last search is
    left out."""
    sessions, found = defaultdict[str, list[Event]](list), list[tuple[Event, list[Event]]]()
    sound = [event for event in events if event.counts and not event.id.startswith("last-")]
    for event in sound:
        if event.topic == "clicks" and event.session is not None:
            sessions[event.session].append(event)
    for event in sound:
        if event.topic == "searches":
            own = sessions.get(event.session or "", [])
            found.append(
                (event, [c for c in own if event.at - before_ms <= c.at <= event.at + after_ms])
            )
    return found


def rates(ledger: Ledger) -> Counter[Rate]:
    """Count the searches and clicks in plain Python; duplicates count once."""
    found: dict[tuple[int, str], dict[str, set[str]]] = {}
    for search, clicks in matched(ledger.values(), BEFORE_MS, AFTER_MS):
        window = found.setdefault((search.at // WINDOW_MS * WINDOW_MS, search.place), {})
        window.setdefault(search.id, set()).update(click.id for click in clicks)
    return Counter(
        (
            start,
            start + WINDOW_MS,
            page,
            len(own),
            sum(map(bool, own.values())),
            sum(map(len, own.values())),
        )
        for (start, page), own in found.items()
    )


def pairs(ledger: Ledger) -> Counter[tuple[str, str | None]]:
    """Join the searches with their clicks in plain Python, including duplicates."""
    found = matched(ledger.values(), BEFORE_MS, AFTER_MS)
    ids = [(search.id, [click.id for click in clicks]) for search, clicks in found]
    return Counter((search, click) for search, clicks in ids for click in clicks or (None,))


def read_rates(table: Path, read: Reader = rows) -> Counter[Rate]:
    """Read the table of rates."""
    return Counter(
        (
            round(row["window"]["start"].timestamp() * 1000),
            round(row["window"]["end"].timestamp() * 1000),
            row["page"],
            row["searches"],
            row["clicked"],
            row["clicks"],
        )
        for row in read(table)
    )


def read_pairs(table: Path) -> Counter[tuple[str, str | None]]:
    """Read the table of joined rows."""
    return Counter((row["search_id"], row["click_id"]) for row in rows(table))


def places(table: Path) -> Counter[tuple[str, int, int]]:
    """Read the positions of rejected rows."""
    return Counter((row["topic"], row["partition"], row["offset"]) for row in rows(table))


def rejected(
    ledger: Ledger, named: dict[Topic, str], wanted: Iterable[Event]
) -> Counter[tuple[str, int, int]]:
    """Return the positions of events."""
    chosen = set(map(id, wanted))
    return Counter(
        (named[topic], partition, offset)
        for (topic, partition, offset), event in ledger.items()
        if id(event) in chosen
    )


def require_all_rows(root: Path, ledger: Ledger, named: dict[Topic, str]) -> None:
    """Check that each record is in the result, or in the one table of rejected rows that it belongs
    to."""
    dead = [event for event in ledger.values() if event.broken]
    assert places(root / "dead_letters") == rejected(ledger, named, dead)
    for topic in TOPICS:
        late = [
            event
            for event in ledger.values()
            if event.topic == topic and event.is_late and not event.broken
        ]
        assert late
        assert places(root / f"late_{topic}") == rejected(ledger, named, late)
