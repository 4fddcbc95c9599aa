"""Page views that late clicks correct, or that are shown while they are open, from a real topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.page_views import PageViews, job
from lib.errors import ConfigError
from lib.runtime.config import load
from lib.runtime.job import Job
from lib.runtime.paths import project_root
from lib.runtime.replay import replay_late
from lib.runtime.run import run
from lib.sinks import rebuilt
from lib.testing import Broker
from lib.testing.clicks import SCHEMA, clicks
from lib.testing.ledger import Sent, expected, produce

from ..windows.oracle import Event, session

FILE = project_root() / "conf" / "jobs" / "page_views.toml"
SIZE_MS, GAP_MS, LATENESS_MS = 60_000, 5_000, 10_000
Row = tuple[int, int, str, int]
"""Start and end in ms, page, views."""


def planned(broker: Broker, topic: str, root: Path, **window: object) -> Job:
    given = {
        "kafka.servers": broker.servers,
        "kafka.topics": topic,
        "kafka.max_rows": 680,
        "input.schema": SCHEMA,
        "input.lateness": f"{LATENESS_MS} milliseconds",
        "output.root": root,
        **{f"window.{key}": value for key, value in window.items()},
    }
    return job(load(PageViews, FILE, [f"{key}={value}" for key, value in given.items()], {}).config)


def rows(table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return found


def answers(table: Iterable[dict[str, Any]]) -> Counter[Row]:
    ends = ((row, [round(row["window"][edge].timestamp() * 1000) for edge in ("start", "end")]) for row in table)
    return Counter((start, end, row["page"], row["views"]) for row, (start, end) in ends)


def tumbled(ledger: Iterable[Sent]) -> Counter[Row]:
    found = expected(ledger, SIZE_MS, late=True).items()
    return Counter((start, start + SIZE_MS, page, views.views) for (start, page), views in found)


def visited(ledger: Iterable[Sent]) -> Counter[Row]:
    good = [Event(sent.click.at * 1000, sent.click.page, 1) for sent in ledger if sent.click.fault is None]
    return Counter((row[0] // 1000, row[1] // 1000, row[2] or "", row[3]) for row in session(good, GAP_MS * 1000))


@pytest.fixture
def ledger(broker: Broker, topic: str) -> list[Sent]:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    return produce(broker.servers, topic, clicks(2_000, seed=3, pages=6, rate=10, stragglers=0.02), partitions=4)


@pytest.mark.broker
def test_late_clicks_up_to_the_limit_correct_their_windows_and_later_ones_can_be_replayed(
    spark: SparkSession, broker: Broker, topic: str, ledger: list[Sent], tmp_path: Path
) -> None:
    wanted = planned(broker, topic, tmp_path, corrections="3 hours")
    done = run(wanted, spark)
    kept = {(row["partition"], row["offset"]) for row in rows(tmp_path / "late_rows")}
    strays = {(sent.partition, sent.offset) for sent in ledger if sent.click.straggler}
    assert (done.late, done.corrected) == (len(strays), len(strays) - len(kept))
    assert kept < strays
    assert kept

    end = max(sent.click.at for sent in ledger if sent.click.fault is None) - LATENESS_MS

    def closed(found: Counter[Row]) -> Counter[Row]:
        return Counter({row: number for row, number in found.items() if row[1] <= end})

    accepted = [sent for sent in ledger if (sent.partition, sent.offset) not in kept]
    views = rows(tmp_path / "views")
    assert answers(row for row in views if row["final"]) == closed(tumbled(accepted))

    assert replay_late(wanted, spark) == len(kept)
    assert replay_late(wanted, spark) == 0
    views = rows(tmp_path / "views")
    assert answers(row for row in views if row["final"]) == closed(tumbled(ledger))
    log = spark.read.format("delta").load(str(tmp_path / "corrections"))
    now = spark.read.format("delta").load(str(tmp_path / "views")).where("final")
    same = ["window", "page", "views", "bytes", "version"]
    assert rebuilt(log, ["page"]).select(same).exceptAll(now.select(same)).count() == 0
    assert log.agg(F.sum("net.views")).first() == now.agg(F.sum("views")).first()


@pytest.mark.broker
def test_open_sessions_are_shown_as_they_stand_and_late_clicks_join_them(
    spark: SparkSession, broker: Broker, topic: str, ledger: list[Sent], tmp_path: Path
) -> None:
    window = {"kind": "session", "gap": f"{GAP_MS} milliseconds", "emission": "updates"}
    done = run(planned(broker, topic, tmp_path / "plain", **window), spark)
    strays = sum(sent.click.straggler for sent in ledger)
    assert (done.late, done.corrected) == (strays, 0)
    honest = [sent for sent in ledger if not sent.click.straggler]
    assert answers(rows(tmp_path / "plain" / "views")) == visited(honest)
    assert not (tmp_path / "plain" / "corrections").exists()

    done = run(planned(broker, topic, tmp_path / "all", **window, corrections="1 day"), spark)
    assert (done.late, done.corrected) == (strays, strays)
    assert answers(rows(tmp_path / "all" / "views")) == visited(ledger)


def test_what_can_not_change_is_told_so(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sliding"):
        planned(broker, "clicks", tmp_path, kind="sliding", corrections="1 hour")
    with pytest.raises(ConfigError, match="keeps no windows"):
        replay_late(planned(broker, "clicks", tmp_path), spark)
