"""The jobs of a storm: the records of each, sent in portions, and its expected tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.scenarios import (
    checked_views,
    click_through,
    enriched_activity,
    page_views,
    timelines,
)
from tests.support import crash_oracle as oracle
from tests.support.debezium_connect import PostgresCapture, connect
from tests.support.delta_tables import Reader
from tests.support.kafka_topics import record_count
from tests.support.postgres_columns import COLUMNS, SETUP
from tests.support.postgres_server import started
from tests.support.source_tables import RandomTransactions, SourceTable
from tidegate.jobs.sample_clicks import SCHEMA, SentRecord, clicks, send_clicks
from tidegate.testing import Broker

Contents = Mapping[str, Counter[Hashable]]
"""The rows of each table, as a multiset."""

WINDOW_MS, LATENESS_MS = 20_000, 10_000


class World(ABC):
    """A job of jobs/, its topics, and the records that are sent to them in order.

    job: the job's name. tables: in the order in which a batch writes them; the target is last, or
        second to last before the table of waiting rows.
    target: the table that every batch writes.
    """

    job: str
    tables: Sequence[str]
    target: str

    def __init__(self, broker: Broker, topic: str, count: int, seed: int) -> None:
        self.broker = broker
        self.topic = topic
        self.sent = 0
        self.processes = ExitStack()
        self.prepare(count, seed)

    def create_tables(self, root: Path) -> None:  # noqa: B027
        """Create the tables that exist before the job."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of records."""

    @abstractmethod
    def prepare(self, count: int, seed: int) -> None:
        """Create the topics, and generate about `count` records."""

    @abstractmethod
    def deliver(self, first: int, last: int) -> None:
        """Send a range of the records, and record which the broker acknowledged."""

    @abstractmethod
    def options(self, batches: int) -> dict[str, object]:
        """Return the options with which the job reads all records in this number of batches."""

    @abstractmethod
    def expected(self, root: Path) -> Contents:
        """Return the rows that the tables must have after the acknowledged records."""

    @abstractmethod
    def actual(self, root: Path, read: Reader) -> Contents:
        """Return the rows of the tables."""

    def send(self, records: int) -> None:
        """Send the next records, or all that remain."""
        until = min(self.count, self.sent + records)
        self.deliver(self.sent, until)
        self.sent = until

    @property
    def records(self) -> int:
        """The number of records that the topics have."""
        return self.sent

    def close(self) -> None:
        """Stop the processes of this world."""
        self.processes.close()

    def create(self, name: str, partitions: int) -> str:
        """Create a topic of this world."""
        return self.broker.create_topic(
            f"{self.topic}-{name}", partitions=partitions, retention_ms=-1
        )


class Windows(World):
    """Page views in final windows; nine tenths of them are of one page."""

    job = "page_views"
    tables = ("dead_letters", "late_rows", "views")
    target = "views"
    rate = 10.0

    def prepare(self, count: int, seed: int) -> None:
        made = clicks(count, seed=seed, rate=self.rate, pages=50, broken=count // 400)
        self.clicks = [
            click if number % 10 == 0 else replace(click, page="/")
            for number, click in enumerate(made)
        ]
        self.ledger: list[SentRecord] = []
        self.name = self.create("clicks", 4)

    @property
    def count(self) -> int:
        return len(self.clicks)

    def deliver(self, first: int, last: int) -> None:
        portion = self.clicks[first:last]
        self.ledger += send_clicks(self.broker.bootstrap_servers, self.name, portion, partitions=4)

    def options(self, batches: int) -> dict[str, object]:
        return {
            "kafka.bootstrap_servers": self.broker.bootstrap_servers,
            "input.topics": self.name,
            "input.schema": SCHEMA,
            "input.max_records_per_batch": self.count // batches,
            "input.watermark_delay": f"{LATENESS_MS} milliseconds",
            "window.size": f"{WINDOW_MS} milliseconds",
        }

    def expected(self, root: Path) -> Contents:
        reached = oracle.watermark(self.ledger, LATENESS_MS)
        return {
            "views": _any(oracle.closed(oracle.windows(self.ledger, WINDOW_MS), reached)),
            "dead_letters": _any(oracle.dead(self.ledger, self.name)),
            "late_rows": _any(oracle.late(self.ledger, self.name)),
        }

    def actual(self, root: Path, read: Reader) -> Contents:
        return {
            "views": _any(oracle.read_windows(root / "views", read)),
            "dead_letters": _any(oracle.read_dead(root / "dead_letters", read)),
            "late_rows": _any(oracle.read_places(root / "late_rows", read)),
        }


class Updates(Windows):
    """Page views, emitted as changes after each batch and corrected by late rows."""

    tables = ("dead_letters", "corrections", "views")

    def options(self, batches: int) -> dict[str, object]:
        changing = {"window.emit": "changes", "window.allowed_lateness": "1 day"}
        size = {"window.size": f"{page_views.SIZE_MS} milliseconds"}
        return super().options(batches) | changing | size

    def expected(self, root: Path) -> Contents:
        return {
            "views": _any(page_views.tumbled(self.ledger)),
            "dead_letters": _any(oracle.dead(self.ledger, self.name)),
            "late_rows": Counter[Hashable](),
        }

    def actual(self, root: Path, read: Reader) -> Contents:
        return {
            "views": _any(page_views.answers(read(root / "views"))),
            "dead_letters": _any(oracle.read_dead(root / "dead_letters", read)),
            "late_rows": _any(oracle.read_places(root / "late_rows", read)),
        }


class CheckedViews(World):
    """Page views with rules, and with rows that fail in each of their checks or in the table."""

    job = "page_views"
    tables = ("dead_letters", "late_rows", "views")
    target = "views"

    def prepare(self, count: int, seed: int) -> None:
        self.views = checked_views.views(count, seed)
        self.ledger: list[SentRecord] = []
        self.name = self.broker.create_topic(
            f"{self.topic}-views",
            checked_views.PARTITIONS,
            retention_ms=-1,
            message_timestamp_after_max_ms=2**62,
        )

    def create_tables(self, root: Path) -> None:
        checked_views.create_table(root / "views")

    @property
    def count(self) -> int:
        return len(self.views)

    def deliver(self, first: int, last: int) -> None:
        portion = self.views[first:last]
        self.ledger += checked_views.send(self.broker.bootstrap_servers, self.name, portion)

    def options(self, batches: int) -> dict[str, object]:
        return {
            **checked_views.OPTIONS,
            "kafka.bootstrap_servers": self.broker.bootstrap_servers,
            "input.topics": self.name,
            "input.max_records_per_batch": self.count // batches,
        }

    def expected(self, root: Path) -> Contents:
        return checked_views.Oracle(self.ledger, self.name).contents(root)

    def actual(self, root: Path, read: Reader) -> Contents:
        return checked_views.contents(root, root.parent / "job.log", read)


class ClickThrough(World):
    """Searches joined with their clicks, counted in windows."""

    job = "click_through"
    tables = ("dead_letters", "late_searches", "late_clicks", "click_through")
    target = "click_through"

    def prepare(self, count: int, seed: int) -> None:
        # A session has some 3.6 records.
        minutes = max(60, count // 40)
        made = click_through.searches(count * 10 // 36, seed=seed, minutes=minutes)
        self.events = made
        self.ledger: click_through.Ledger = {}
        self.names = {kind: self.create(kind, 2) for kind in click_through.TOPICS}

    @property
    def count(self) -> int:
        return len(self.events)

    def deliver(self, first: int, last: int) -> None:
        portion = self.events[first:last]
        self.ledger |= click_through.produce(self.broker.bootstrap_servers, self.names, portion)

    def options(self, batches: int) -> dict[str, object]:
        shares = Counter(event.topic for event in self.events)
        options: dict[str, object] = {
            **click_through.OPTIONS,
            "kafka.bootstrap_servers": self.broker.bootstrap_servers,
        }
        for kind, name in self.names.items():
            options[f"{kind}.topics"] = name
            options[f"{kind}.max_records_per_batch"] = shares[kind] // batches
        return options

    def expected(self, root: Path) -> Contents:
        ledger = self.ledger
        dead = [event for event in ledger.values() if event.broken]
        expected = {
            "click_through": _any(click_through.rates(ledger)),
            "dead_letters": _any(click_through.rejected(ledger, self.names, dead)),
        }
        for kind in click_through.TOPICS:
            late = [e for e in ledger.values() if e.topic == kind and e.is_late and not e.broken]
            expected[f"late_{kind}"] = _any(click_through.rejected(ledger, self.names, late))
        return expected

    def actual(self, root: Path, read: Reader) -> Contents:
        places = ("dead_letters", "late_searches", "late_clicks")
        return {
            "click_through": _any(click_through.read_rates(root / "click_through", read)),
            **{name: _any(oracle.read_places(root / name, read)) for name in places},
        }


class Timelines(World):
    """Views of views: the posts of followed users, with the names of their authors."""

    job = "timelines"
    tables = ("follows", "users", "posts", "named_posts", "timelines")
    target = "timelines"

    def prepare(self, count: int, seed: int) -> None:
        self.events = timelines.events(count, seed=seed, users=max(30, count // 10))
        self.dead: list[oracle.Place] = []
        self.acknowledged: list[timelines.Event] = []
        self.names = {kind: self.create(kind, 2) for kind in timelines.TOPICS}

    @property
    def count(self) -> int:
        return len(self.events)

    def deliver(self, first: int, last: int) -> None:
        portion = self.events[first:last]
        places = timelines.send(self.broker.bootstrap_servers, self.names, portion)
        for event, place in zip(portion, places, strict=True):
            if event.broken:
                self.dead.append((self.names[event.topic], *place))
        self.acknowledged += portion

    def options(self, batches: int) -> dict[str, object]:
        shares = Counter(event.topic for event in self.events)
        limits = {
            f"{kind}.max_records_per_batch": shares[kind] // batches + 1 for kind in self.names
        }
        return {**timelines.options(self.broker, self.names), **limits}

    def expected(self, root: Path) -> Contents:
        expected = timelines.expected(self.acknowledged)
        return {"timelines": _any(expected), "dead_letters": Counter[Hashable](self.dead)}

    def actual(self, root: Path, read: Reader) -> Contents:
        return {
            "timelines": _any(timelines.read_timelines(root, read)),
            "dead_letters": _any(oracle.read_places(root / "dead_letters", read)),
        }


class EnrichedActivity(World):
    """Activity joined with the profiles of its time, which come from their changelog."""

    job = "enriched_activity"
    tables = ("dead_letters", "profile_versions", "activity", "waiting")
    target = "activity"

    def prepare(self, count: int, seed: int) -> None:
        did = count * 4 // 5
        self.events = enriched_activity.activity(did, seed=seed)
        # Activity comes 20 a second, and profiles change until shortly before its end.
        changes = enriched_activity.profiles(count - did - 160, seed=seed, seconds=did / 20 - 15)
        log: list[enriched_activity.Activity | enriched_activity.Profile] = []
        log += self.events
        log += changes
        self.log = sorted(log, key=lambda record: (record.arrived, str(record.key())))
        self.names = {kind: self.create(kind, 4) for kind in ("activity", "profiles")}
        self.keyed: dict[str, list[tuple[enriched_activity.Profile, tuple[int, int]]]] = {}
        self.newest: dict[int, int] = {}
        self.dead: list[oracle.Place] = []

    @property
    def count(self) -> int:
        return len(self.log)

    def deliver(self, first: int, last: int) -> None:
        portion = self.log[first:last]
        did = [record for record in portion if isinstance(record, enriched_activity.Activity)]
        changed = [record for record in portion if isinstance(record, enriched_activity.Profile)]
        servers = self.broker.bootstrap_servers
        for event, place in zip(
            did, enriched_activity.send(servers, self.names["activity"], did), strict=True
        ):
            if event.broken:
                self.dead.append((self.names["activity"], *place))
        for change, place in zip(
            changed, enriched_activity.send(servers, self.names["profiles"], changed), strict=True
        ):
            self.keyed.setdefault(change.user, []).append((change, place))
            self.newest[place[0]] = max(self.newest.get(place[0], change.at), change.at)

    def options(self, batches: int) -> dict[str, object]:
        changes = self.count - len(self.events)
        return {
            "kafka.bootstrap_servers": self.broker.bootstrap_servers,
            "activity.topics": self.names["activity"],
            "activity.schema": enriched_activity.ACTIVITY,
            "activity.watermark_delay": "5 seconds",
            "activity.max_records_per_batch": len(self.events) // batches,
            "profiles.topics": self.names["profiles"],
            "profiles.schema": enriched_activity.PROFILES,
            "profiles.time": "changed_at",
            "profiles.watermark_delay": f"{enriched_activity.LATENESS_MS} milliseconds",
            "profiles.max_records_per_batch": changes // batches,
            "enrich.mode": "changelog",
            "enrich.retry_for": f"{enriched_activity.PATIENCE_MS} milliseconds",
        }

    def expected(self, root: Path) -> Contents:
        reached = min(self.newest.values()) - enriched_activity.LATENESS_MS
        world = enriched_activity.World({}, self.events, self.keyed, reached)
        return {
            "activity": _any(world.decided),
            "waiting": _any(world.waiting),
            "dead_letters": Counter[Hashable](self.dead),
        }

    def actual(self, root: Path, read: Reader) -> Contents:
        waiting = read(root / "waiting", ["event_id"])
        return {
            "activity": _any(enriched_activity.read_enriched(root / "activity", read)),
            "waiting": Counter[Hashable](row["event_id"] for row in waiting),
            "dead_letters": _any(oracle.read_places(root / "dead_letters", read)),
        }


class Database(World):
    """Random transactions of a table of PostgreSQL, captured by Debezium, which is killed too.

    A record is a transaction. The connector is killed once in each portion."""

    job = "customer_history"
    tables = ("dead_letters", "customer_history", "customers")
    target = "customers"
    truncates = 0.002
    has_snapshots = False

    def prepare(self, count: int, seed: int) -> None:
        self.transactions = count
        self.chance = Random(seed)
        try:
            self._start(seed)
        except BaseException:
            self.close()
            raise

    def _start(self, seed: int) -> None:
        server = self.processes.enter_context(started())
        process = self.processes.enter_context(connect(self.broker.bootstrap_servers))
        options = {
            "skipped_operations": "none",
            "producer_override_compression_type": "zstd",
            "topic_creation_default_partitions": "3",
        }
        self.capture = PostgresCapture(process, server, "postgres", self.topic, **options)
        for statement in SETUP:
            self.capture.run(statement)
        self.table = SourceTable(self.capture.run, "customers", COLUMNS)
        self.table.create()
        connection = self.processes.enter_context(server.connect())
        self.random = RandomTransactions(
            self.table, connection, Random(seed), truncates=self.truncates
        )
        self.random.run(100)
        self.table.forget_changes()
        self.capture.start()
        self.capture.wait_until_sent()

    @property
    def count(self) -> int:
        return self.transactions

    @property
    def records(self) -> int:
        return record_count(self.broker.bootstrap_servers, self._topic)

    @property
    def _topic(self) -> str:
        return self.capture.topic("public.customers")

    def deliver(self, first: int, last: int) -> None:
        if self.has_snapshots:
            self.capture.take_snapshot("public.customers")
        killed_at = self.chance.randint(first, last)
        self.random.run(killed_at - first)
        self.capture.connect.kill()
        self.random.run(last - killed_at)
        self.capture.connect.start()
        self.capture.wait_until_sent()

    def options(self, batches: int) -> dict[str, object]:
        return {
            "kafka.bootstrap_servers": self.broker.bootstrap_servers,
            "changes.topics": self._topic,
            "changes.schema": self.table.stored_schema,
            "changes.key": "id",
            # A transaction has about three records; the connector sends some of them again.
            "changes.max_records_per_batch": 8 * self.count // batches,
        }

    def expected(self, root: Path) -> Contents:
        return {
            "customers": _any(self.table.expected_rows().values()),
            "customer_history": _versions(self.table.expected_versions()),
            "dead_letters": Counter[Hashable](),
        }

    def actual(self, root: Path, read: Reader) -> Contents:
        places = oracle.read_places(root / "dead_letters", read)
        return {
            "customers": _any(self.table.stored_rows(root / "customers", read).values()),
            "customer_history": _versions(
                self.table.stored_versions(root / "customer_history", read)
            ),
            "dead_letters": _any(places),
        }


class DatabaseWithSnapshots(Database):
    """A database that is never truncated; each portion begins with an incremental snapshot."""

    truncates = 0.0
    has_snapshots = True


def _versions(versions: Mapping[int, Iterable[Hashable]]) -> Counter[Hashable]:
    return Counter(version for key in versions for version in versions[key])


WORLDS: Mapping[str, type[World]] = {
    "database": Database,
    "database_with_snapshots": DatabaseWithSnapshots,
    "page_views": Windows,
    "updates": Updates,
    "checked_views": CheckedViews,
    "click_through": ClickThrough,
    "timelines": Timelines,
    "enriched_activity": EnrichedActivity,
}


def _any(rows: Iterable[Hashable]) -> Counter[Hashable]:
    """Return a multiset of rows with the type of any multiset; mypy distinguishes them."""
    return Counter(dict(rows)) if isinstance(rows, Counter) else Counter(rows)
