"""The page views job killed with SIGKILL, JVM and all, at the points of its protocol: the tables
equal the ledger."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import crash_oracle as oracle
from tests.support.crash_leftovers import TABLES, Left, Point, batches, planned_watermark
from tests.support.spark_submit import SubmittedJob
from tidegate.jobs.sample_clicks import SentRecord, clicks, send_clicks
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]

WINDOW_MS, LATENESS_MS = 20_000, 10_000


@dataclass(frozen=True)
class Course:
    """One test's run: clicks and batches, the kills that it needs, and how many batches pass before
    each."""

    sink: str
    seed: int
    count: int
    batch_rows: int
    points: Sequence[Point]
    skips: range
    attempts: int

    def __str__(self) -> str:
        """Return the label of the course in the id of a test."""
        return f"{self.sink}, seed {self.seed}"


# Only the last third has late rows, so that kill comes last. The first batch of an upsert creates
# the table and later ones merge, so it is killed at a later one.
APPEND = Course(
    sink="append",
    seed=22,
    count=100_000,
    batch_rows=10_000,
    points=(
        "committed",
        "planned",
        "state written",
        "dead letters written",
        "target written",
        "late rows written",
    ),
    skips=range(2),
    attempts=9,
)
UPSERT = Course(
    sink="upsert",
    seed=21,
    count=40_000,
    batch_rows=5_000,
    points=("dead letters written", "target written"),
    skips=range(1, 3),
    attempts=4,
)
SHORT = [
    replace(
        APPEND,
        seed=20,
        count=12_500,
        batch_rows=2_500,
        points=("target written", "late rows written"),
        attempts=4,
    ),
    replace(UPSERT, count=15_000, points=("target written",), attempts=3),
]
LONG = [*(replace(APPEND, seed=seed) for seed in (22, 23, 24)), UPSERT]


@pytest.mark.timeout(1200)
@pytest.mark.draws("course", short=SHORT, long=LONG, ids=str)
def test_after_any_kill_the_tables_have_each_record_of_the_ledger_exactly_once(
    course: Course, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    made = clicks(course.count, seed=course.seed, broken=course.count // 400)
    ledger = send_clicks(broker.bootstrap_servers, topic, made, partitions=4)
    job = SubmittedJob(
        name="page_views",
        root=tmp_path / "tables",
        log=tmp_path / "job.log",
        options={
            "kafka.bootstrap_servers": broker.bootstrap_servers,
            "input.topics": topic,
            "input.max_records_per_batch": course.batch_rows,
            "input.watermark_delay": f"{LATENESS_MS} milliseconds",
            "window.size": f"{WINDOW_MS} milliseconds",
            "output.sink": course.sink,
        },
    )

    reached = [found.point for found in kills(job, course)]
    assert set(course.points) <= set(reached), f"the kills came at {reached}"
    began = time.monotonic()
    summary = job.run()
    print(f"run to the end in {time.monotonic() - began:.1f} s: {summary}")

    require_ledger(spark, job.root, ledger, topic)
    for table in TABLES.values():
        written = batches(job.root, table)
        assert written == sorted(set(written)), f"{table} has a batch twice: {written}"


def kills(job: SubmittedJob, course: Course) -> Iterator[Left]:
    """Kill the job at each point; a point is repeated if its kill came too late."""
    chance = random.Random(course.seed)
    wanted = list(course.points[:-1])
    chance.shuffle(wanted)
    wanted.append(course.points[-1])
    print(f"seed {course.seed}: {course.count:,} records, kills at {', '.join(wanted)}")
    for attempt in range(course.attempts):
        if not wanted:
            return
        began = time.monotonic()
        found = job.killed(
            wanted[0], 0 if wanted[0] == "late rows written" else chance.choice(course.skips)
        )
        print(
            f"kill {attempt + 1} after {time.monotonic() - began:.1f} s, meant for {wanted[0]!r}: "
            f"left {found}"
        )
        if found.point in wanted:
            wanted.remove(found.point)
        yield found


def require_ledger(
    spark: SparkSession, root: Path, ledger: Sequence[SentRecord], topic: str
) -> None:
    """Compare all tables with the ledger, in both directions, and account for each record."""
    watermark = oracle.watermark(ledger, LATENESS_MS)
    assert planned_watermark(root) == watermark
    windows = oracle.windows(ledger, WINDOW_MS)
    closed = oracle.closed(windows, watermark)
    by_spark, by_deltalake = (
        oracle.read_by_spark(spark, root / "views"),
        oracle.read_by_deltalake(root / "views"),
    )
    oracle.require_same(by_deltalake, closed, "windows read by deltalake")
    oracle.require_same(by_spark, closed, "windows read by Spark")

    dead, late = oracle.read_dead(root / "dead_letters"), oracle.read_late(root / "late_rows")
    oracle.require_same(dead, oracle.dead(ledger, topic), "dead letters")
    oracle.require_same(late, oracle.late(ledger, topic), "late rows")

    still_open = oracle.views(windows - closed)
    counted = oracle.views(by_deltalake)
    account = {"counted": counted, "open": still_open, "dead": dead.total(), "late": late.total()}
    print(f"of {len(ledger):,} records: {account}")
    assert sum(account.values()) == len(ledger)
    assert min(account.values()) > 0
