"""The scenario of jobs/standing_queries.py: documents, and queries that are added, changed and
deleted.

Generated from a seed, with realistic faults; and the expected and actual rows of the tables.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from tests.scenarios.enriched_activity import START, send
from tests.support.delta_tables import Reader, rows
from tests.support.percolator_oracle import FIELDS, SCHEMA, document, fits, query
from tidegate.patterns import Query
from tidegate.testing import Broker

LATENESS_MS = 3_000
SECONDS = 40
NO_QUERIES = ("oil AND (", "prise:5", "oil or gas")
Match = tuple[int, str, int, int]
"""A document's number; the id, the beginning in ms and the offset of the query that it met."""

_FIRST = int(START.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Document:
    """A document; `at` is its event time in ms since 1970, and `arrived` its record's timestamp."""

    fields: dict[str, object]
    at: int
    arrived: int

    def key(self) -> None:
        """Return no key."""

    def value(self) -> bytes:
        """Return the record's bytes."""
        moment = self.fields["at"]
        moment_text = moment.isoformat() if isinstance(moment, datetime) else None
        at = datetime.fromtimestamp(self.at / 1000, UTC).isoformat(timespec="milliseconds")
        return json.dumps({**self.fields, "at": moment_text, "event_time": at}).encode()


@dataclass(frozen=True, slots=True)
class Change:
    """A query from `arrived` on; None deletes it, and a text is an invalid query."""

    query_id: str
    query: Query | str | None
    arrived: int

    def key(self) -> bytes:
        """Return the record's key."""
        return self.query_id.encode()

    def value(self) -> bytes | None:
        """Return the record's bytes."""
        return None if self.query is None else str(self.query).encode()


def documents(count: int, seed: int = 3) -> list[Document]:
    """Make documents in the order of their arrival, some seconds out of order."""
    random = Random(seed)
    names = [field.split()[0] for field in SCHEMA.split(", ")]
    made = []
    for number in range(count):
        fields = dict(zip(names, document(random, number), strict=True))
        price = fields["price"]
        fields["price"] = price if isinstance(price, float) and math.isfinite(price) else None
        at = _FIRST + number * SECONDS * 1000 // count
        made.append(Document(fields, at, at + random.randrange(4_000)))
    return sorted(made, key=lambda one: one.arrived)


def changes(count: int, seed: int = 4, ids: int = 40) -> list[Change]:
    """Make changes of queries in the order of the log; they are up to two seconds out of order."""
    random = Random(seed)
    made = []
    for number in range(count + len(NO_QUERIES)):
        at = _FIRST - 5_000 + random.randrange(5_000 + SECONDS * 1000)
        name = f"query-{random.randrange(ids)}"
        drawn: Query | str | None = None if random.random() < 1 / 6 else query(random)
        wanted = NO_QUERIES[number] if number < len(NO_QUERIES) else drawn
        made.append((at + random.randrange(2_000), number, Change(name, wanted, at)))
    return [change for _, _, change in sorted(made, key=lambda one: one[:2])]


@dataclass(frozen=True)
class World:
    """What was sent; `reached` is the instant in ms that the queries' changelog has passed."""

    options: dict[str, object]
    documents: list[Document]
    log: list[tuple[Change, tuple[int, int]]]
    reached: int

    @property
    def decided(self) -> Counter[Match]:
        """Return the matches of the documents that the changelog has passed."""
        due = [one for one in self.documents if one.at < self.reached]
        return Counter(match for one in due for match in self._matches(one))

    @property
    def waiting(self) -> Counter[object]:
        """Return the documents that must wait in the end."""
        return Counter(one.fields["doc"] for one in self.documents if one.at >= self.reached)

    def _matches(self, one: Document) -> Iterator[Match]:
        """Yield the queries that match a document: the newest version of each query at its time."""
        standing: dict[str, tuple[int, int, Query | None]] = {}
        for change, (_, offset) in self.log:
            found = change.query
            if isinstance(found, str) or change.arrived > one.at:
                continue
            last = standing.get(change.query_id)
            if last is None or last[:2] < (change.arrived, offset):
                standing[change.query_id] = (change.arrived, offset, found)
        for name, (start, offset, found) in standing.items():
            if found is not None and fits(found, one.fields):
                yield int(str(one.fields["doc"])), name, start, offset


def sent(broker: Broker, topic: str, count: int = 400, changed: int = 160) -> World:
    """Send documents and changes of queries over the same time."""
    names = {
        name: broker.create_topic(f"{topic}-{name}", partitions=2, retention_ms=-1)
        for name in ("documents", "queries")
    }
    made, log = documents(count), changes(changed)
    send(broker.bootstrap_servers, names["documents"], made, partitions=2)
    placed = list(
        zip(log, send(broker.bootstrap_servers, names["queries"], log, partitions=2), strict=True)
    )
    newest: dict[int, int] = {}
    for change, (partition, _) in placed:
        if not isinstance(change.query, str):
            newest[partition] = max(newest.get(partition, change.arrived), change.arrived)
    options: dict[str, object] = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "documents.topics": names["documents"],
        "documents.schema": f"{SCHEMA}, event_time timestamp",
        "documents.watermark_delay": "5 seconds",
        "queries.topics": names["queries"],
        "queries.watermark_delay": f"{LATENESS_MS} milliseconds",
        "search.text": list(FIELDS.text),
        "search.default": list(FIELDS.defaults),
        "search.integer": ["views"],
        "search.double": ["price"],
        "search.time": ["at"],
    }
    return World(options, made, placed, min(newest.values()) - LATENESS_MS)


def read_matches(table: Path, read: Reader = rows) -> Counter[Match]:
    """Read the target."""
    return Counter(
        (
            row["doc"],
            row["query_id"],
            round(row["valid_from"].timestamp() * 1000),
            row["query_offset"],
        )
        for row in read(table)
    )
