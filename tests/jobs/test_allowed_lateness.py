"""Page views with corrections by late clicks, or emitted while open, from a Kafka topic."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.scenarios.page_views import (
    GAP_MS,
    LATENESS_MS,
    accepted,
    answers,
    closed,
    late_positions,
    tumbled,
    visited,
)
from tests.support.delta_tables import rows
from tests.support.spark_session import configured
from tidegate import Job, merge_late_rows, run
from tidegate.checkpoint.lineage_files import LineageFiles
from tidegate.commit.driver_lease import DriverLease
from tidegate.errors import ConfigError, FencedError
from tidegate.jobs.page_views import PageViews, job
from tidegate.jobs.sample_clicks import SCHEMA, START, Click, SentRecord, clicks, send_clicks
from tidegate.sinks import windows_from_log
from tidegate.testing import Broker

pytestmark = pytest.mark.jobs


def build_job(broker: Broker, topic: str, root: Path, **window: object) -> Job:
    options = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "input.max_records_per_batch": 680,
        "input.schema": SCHEMA,
        "input.watermark_delay": f"{LATENESS_MS} milliseconds",
        "output.root": root,
        **{f"window.{key}": value for key, value in window.items()},
    }
    return job(configured(PageViews, options))


@pytest.fixture
def ledger(broker: Broker, topic: str) -> list[SentRecord]:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    return send_clicks(
        broker.bootstrap_servers,
        topic,
        clicks(2_000, seed=3, pages=6, rate=10, late_share=0.02),
        partitions=4,
    )


@pytest.mark.broker
def test_late_clicks_within_the_limit_correct_windows_and_later_ones_can_be_merged(
    spark: SparkSession, broker: Broker, topic: str, ledger: list[SentRecord], tmp_path: Path
) -> None:
    wanted = build_job(broker, topic, tmp_path, allowed_lateness="3 hours")
    done = run(wanted, spark)
    late = late_positions(tmp_path)
    strays = {(sent.partition, sent.offset) for sent in ledger if sent.click.is_late}
    assert (done.late_rows, done.corrected_rows) == (len(strays), len(strays) - len(late))
    assert late < strays
    assert late

    views = rows(tmp_path / "views")
    in_time = closed(tumbled(accepted(ledger, tmp_path)), ledger)
    assert answers(row for row in views if row["final"]) == in_time

    files = LineageFiles(spark, wanted.locations.checkpoint)
    lineage = files.read()
    assert lineage is not None
    driver = DriverLease.acquire(files, lineage, {})
    assert merge_late_rows(wanted, spark) == len(late)
    with pytest.raises(FencedError):
        driver.require_newest_epoch()
    assert merge_late_rows(wanted, spark) == 0
    views = rows(tmp_path / "views")
    assert answers(row for row in views if row["final"]) == closed(tumbled(ledger), ledger)
    log = spark.read.format("delta").load(str(tmp_path / "corrections"))
    now = spark.read.format("delta").load(str(tmp_path / "views")).where("final")
    same = ["window", "page", "views", "bytes", "version"]
    assert windows_from_log(log, ["page"]).select(same).exceptAll(now.select(same)).count() == 0
    assert log.agg(F.sum("net.views")).first() == now.agg(F.sum("views")).first()


@pytest.mark.broker
def test_open_sessions_are_emitted_and_late_clicks_are_side_output(
    spark: SparkSession, broker: Broker, topic: str, ledger: list[SentRecord], tmp_path: Path
) -> None:
    window = {"kind": "session", "gap": f"{GAP_MS} milliseconds", "emit": "changes"}
    done = run(build_job(broker, topic, tmp_path, **window), spark)
    strays = sum(sent.click.is_late for sent in ledger)
    assert (done.late_rows, done.corrected_rows) == (strays, 0)
    honest = [sent for sent in ledger if not sent.click.is_late]
    assert answers(rows(tmp_path / "views")) == visited(honest)
    assert not (tmp_path / "corrections").exists()


def disordered_clicks(seed: int) -> list[Click]:
    """Return clicks: some within the allowed lateness, some after it, and a last one that closes
    all windows."""
    chance, first = random.Random(seed), int(START.timestamp() * 1000)
    made = []
    for number in range(90):
        behind = chance.choice(
            [0, chance.randrange(LATENESS_MS), chance.randrange(LATENESS_MS, 300_000)]
        )
        arrived = first + 400_000 + number * 3_000
        page = chance.choice(["/", "/a"])
        made.append(
            Click(
                f"e{number}", "u", page, 1.0, 1, event_time_ms=arrived - behind, arrival_ms=arrived
            )
        )
    last = first + 86_400_000
    return [*made, Click("last", "u", "/last", 1.0, 1, event_time_ms=last, arrival_ms=last)]


@pytest.mark.broker
@pytest.mark.draws("seed", short=[2], long=range(2, 9))
def test_stream_restart_replay_and_batch_agree_for_any_disorder(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, seed: int
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    window: dict[str, object] = {"size": "1 minute"}
    whole = tumbled
    if seed % 2 == 0:
        window, whole = {"kind": "session", "gap": f"{GAP_MS} milliseconds"}, visited
    ways = {
        "final": {"allowed_lateness": "1 minute"},
        "updates": {"allowed_lateness": "1 day", "emit": "changes"},
    }
    made, ledger, read = disordered_clicks(seed), list[SentRecord](), dict.fromkeys(ways, 0)
    cut = random.Random(seed).randrange(1, 90)
    for begin, end in ((0, cut), (cut, len(made))):
        ledger += send_clicks(broker.bootstrap_servers, topic, made[begin:end], partitions=1)
        for way, settings in ways.items():
            # Each run is a new query that resumes at the end of the previous one.
            wanted = build_job(broker, topic, tmp_path / way, **{**window, **settings})
            read[way] += run(wanted, spark).rows_in
    assert set(read.values()) == {len(made)}

    past = [row for row in whole(ledger) if row[2] == "/last"]
    for way in ways:
        found = answers(rows(tmp_path / way / "views"))
        for row in past:
            found.pop(row, None)
        counted = whole(accepted(ledger, tmp_path / way))
        for row in past:
            counted.pop(row)
        assert found == counted, f"{way}, seed {seed}"
        assert (
            sum(row[3] * number for row, number in found.items())
            + len(late_positions(tmp_path / way))
            == 90
        )
        log, now = (
            spark.read.format("delta").load(str(tmp_path / way / name))
            for name in ("corrections", "views")
        )
        final, again = (
            Counter(frame.select("window", "page", "views", "version").collect())
            for frame in (now.where("final"), windows_from_log(log, ["page"]))
        )
        assert final == again
    assert late_positions(tmp_path / "final")
    assert not late_positions(tmp_path / "updates")


def test_invalid_combinations_are_rejected(
    broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="sliding"):
        build_job(broker, "clicks", tmp_path, kind="sliding", allowed_lateness="1 hour")
    with pytest.raises(ConfigError, match="stores no correctable windows"):
        merge_late_rows(build_job(broker, "clicks", tmp_path), spark)
