"""The scenario of jobs/timelines.py: users who change their names, follow, unfollow, post and
delete.

Generated from a seed, with realistic faults; and the expected and actual rows of the tables.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Literal, TypeVar

from tests.support.delta_tables import Reader, rows
from tidegate.kafka.producer import Record, deliver
from tidegate.testing import Broker

Thing = TypeVar("Thing")
Topic = Literal["posts", "follows", "users"]
TOPICS: tuple[Topic, ...] = ("posts", "follows", "users")
SCHEMAS: dict[Topic, str] = {
    "posts": "op string not null, post_id string not null, author string, text string, version "
    "bigint not null, "
    "event_time timestamp",
    "follows": "op string not null, follower string not null, followee string not null, version "
    "bigint not null, "
    "event_time timestamp",
    "users": "op string not null, user_id string not null, name string, version bigint not null, "
    "event_time timestamp",
}
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
Entry = tuple[str, str, str, str, str | None]
"""One row of the timelines: follower, author, post, text, and the author's name where it is
known."""
_NAMES = ("Ann", "Bo", "Cem", "Dora", "Eli", "Fay", "Gus", "Hana", "Ivo", "Jun")
_WORDS = (
    "rain",
    "bread",
    "harbour",
    "late",
    "train",
    "garden",
    "again",
    "quiet",
    "violin",
    "north",
)


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one row.

    `key` identifies the row, `version` counts its changes, and `at` is the event time in ms.
    `fields` are the row's other fields; a deletion has none.
    """

    topic: Topic
    op: str
    key: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, str], ...]
    version: int
    at: int
    broken: bool = False

    def value(self) -> bytes:
        """Return the record's bytes: JSON, truncated if it is broken."""
        moment = datetime.fromtimestamp(self.at / 1000, UTC).isoformat(timespec="milliseconds")
        record = {
            "op": self.op,
            **dict(self.key),
            **dict(self.fields),
            "version": self.version,
            "event_time": moment,
        }
        text = json.dumps(record, separators=(",", ":")).encode()
        return text[: len(text) // 2] if self.broken else text

    @property
    def deleted(self) -> bool:
        """Whether it deletes the row."""
        return self.op in ("delete", "unfollow")


def events(
    count: int,
    *,
    seed: int = 3,
    users: int = 50,
    rate: float = 20.0,
    again: float = 0.05,
    broken: int = 5,
) -> list[Event]:
    """Return changes in the order in which they happen.

    The same arguments return the same changes on every machine. A few users write and are followed
    far more than others; a user may write before the first record of the name, and names change.
    `rate` is in changes per second. The share `again` of `count` is sent twice, up to hundreds of
    changes later and possibly after a newer change of the row; `broken` records cannot be read.

    >>> made = events(1_000)
    >>> len(made), sorted({event.op for event in made})
    (1000, ['delete', 'follow', 'post', 'unfollow', 'user'])
    """
    random = Random(seed)
    network = _Network(random, users)
    repeats = round(count * again)
    first = int(START.timestamp() * 1000)
    made = [
        network.next(first + int(number * 1000 / rate))
        for number in range(count - repeats - broken)
    ]
    for _ in range(repeats):
        place = int(random.random() * len(made))
        later = min(len(made), place + 1 + int(random.random() * 300))
        made.insert(later, made[place])
    for _ in range(broken):
        place = int(random.random() * len(made))
        made.insert(place, replace(made[place], broken=True))
    return made


class _Network:
    """What the users have done so far. Only uniform numbers are drawn, which are the same in every
    Python."""

    def __init__(self, random: Random, users: int) -> None:
        self._random, self._users = random, users
        self._versions: Counter[tuple[str, ...]] = Counter()
        self._posts: list[str] = []
        self._follows: list[tuple[str, str]] = []
        self._written = 0

    def next(self, at: int) -> Event:
        """Return the next change."""
        chance = self._random.random()
        if chance < 0.12:
            return self._user(at)
        if chance < 0.42:
            return self._follow(at)
        if chance < 0.5 and self._follows:
            return self._unfollow(at)
        if chance < 0.6 and self._posts:
            return self._delete(at)
        return self._post(at)

    def _user(self, at: int) -> Event:
        user = self._someone()
        if self._random.random() < 0.1:
            return self._event("users", "delete", {"user_id": user}, {}, at)
        name = f"{self._choice(_NAMES)} {self._choice(_NAMES)}son"
        return self._event("users", "user", {"user_id": user}, {"name": name}, at)

    def _follow(self, at: int) -> Event:
        pair = (f"user-{int(self._random.random() * self._users)}", self._someone())
        self._follows.append(pair)
        return self._event("follows", "follow", {"follower": pair[0], "followee": pair[1]}, {}, at)

    def _unfollow(self, at: int) -> Event:
        follower, followee = self._taken(self._follows)
        return self._event(
            "follows", "unfollow", {"follower": follower, "followee": followee}, {}, at
        )

    def _post(self, at: int) -> Event:
        self._written += 1
        post = f"post-{self._written}"
        self._posts.append(post)
        text = " ".join(self._choice(_WORDS) for _ in range(4))
        return self._event(
            "posts", "post", {"post_id": post}, {"author": self._someone(), "text": text}, at
        )

    def _delete(self, at: int) -> Event:
        # Some deletions have no post.
        post = "post-0" if self._random.random() < 0.02 else self._taken(self._posts)
        return self._event("posts", "delete", {"post_id": post}, {}, at)

    def _event(
        self, topic: Topic, op: str, key: dict[str, str], fields: dict[str, str], at: int
    ) -> Event:
        row = (topic, *key.values())
        self._versions[row] += 1
        return Event(topic, op, tuple(key.items()), tuple(fields.items()), self._versions[row], at)

    def _someone(self) -> str:
        return f"user-{int(self._random.random() ** 2 * self._users)}"

    def _choice(self, words: Sequence[str]) -> str:
        return words[int(self._random.random() * len(words))]

    def _taken(self, things: list[Thing]) -> Thing:
        return things.pop(int(self._random.random() * len(things)))


def send(servers: str, topics: Mapping[Topic, str], made: Iterable[Event]) -> list[tuple[int, int]]:
    """Send the events in their order, and return the partition and offset of each.

    The changes of a row are in one partition.
    An event's time is its record's. Create the topics with `retention_ms=-1`, since the events are
    old. A record that the broker did not acknowledge raises a SourceError."""
    keyed = ((event, "/".join(value for _, value in event.key).encode()) for event in made)
    return deliver(
        servers, (Record(topics[event.topic], event.value(), event.at, key) for event, key in keyed)
    )


def expected(made: Iterable[Event]) -> Counter[Entry]:
    """Return the timelines after all events, in plain Python: the newest version of a row counts,
    in any order of arrival."""
    newest: dict[tuple[Topic, tuple[tuple[str, str], ...]], Event] = {}
    for event in made:
        known = newest.get((event.topic, event.key))
        if not event.broken and (known is None or event.version > known.version):
            newest[event.topic, event.key] = event
    rows: dict[Topic, list[dict[str, str]]] = {topic: [] for topic in TOPICS}
    for (topic, key), event in newest.items():
        if not event.deleted:
            rows[topic].append({**dict(key), **dict(event.fields)})
    names = {row["user_id"]: row["name"] for row in rows["users"]}
    followers: dict[str, list[str]] = {}
    for follow in rows["follows"]:
        followers.setdefault(follow["followee"], []).append(follow["follower"])
    return Counter(
        (
            follower,
            post["author"],
            post["post_id"],
            post["text"],
            names.get(post["author"]),
        )
        for post in rows["posts"]
        for follower in followers.get(post["author"], [])
    )


def options(broker: Broker, topics: dict[Topic, str]) -> dict[str, object]:
    """Return what the job needs to read the topics, and few buckets: the network is small."""
    own = {f"{name}.topics": topic for name, topic in topics.items()}
    return {"kafka.bootstrap_servers": broker.bootstrap_servers, "view.buckets": 4, **own}


def read_timelines(root: Path, read: Reader = rows) -> Counter[Entry]:
    """Read the timelines."""
    columns = ["follower", "author", "post_id", "text", "name"]
    found = read(root / "timelines", columns)
    return Counter(
        (row["follower"], row["author"], row["post_id"], row["text"], row["name"]) for row in found
    )
