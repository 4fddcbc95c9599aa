"""Page views that late clicks correct, or that are shown while they are open, from a real topic."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.page_views import PageViews, job
from tidegate.commit.epochs import EpochFiles
from tidegate.commit.ledger import Ledger
from tidegate.errors import ConfigError, FencedError
from tidegate.runtime.job import Job
from tidegate.runtime.query.late_rows import replay_late
from tidegate.runtime.query.run import run
from tidegate.sinks import rebuilt
from tidegate.testing import Broker
from tidegate.testing.clicks import SCHEMA, START, Click, clicks
from tidegate.testing.ledger import Sent, produce

from ..configured import configured
from ..tables import rows
from ..worlds.page_views import (
    GAP_MS,
    LATENESS_MS,
    accepted,
    answers,
    closed,
    kept_aside,
    tumbled,
    visited,
)

pytestmark = pytest.mark.jobs


def planned(broker: Broker, topic: str, root: Path, **window: object) -> Job:
    given = {
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "input.max_rows": 680,
        "input.schema": SCHEMA,
        "input.lateness": f"{LATENESS_MS} milliseconds",
        "output.root": root,
        **{f"window.{key}": value for key, value in window.items()},
    }
    return job(configured(PageViews, given))


@pytest.fixture
def ledger(broker: Broker, topic: str) -> list[Sent]:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    return produce(
        broker.servers,
        topic,
        clicks(2_000, seed=3, pages=6, rate=10, stragglers=0.02),
        partitions=4,
    )


@pytest.mark.broker
def test_late_clicks_up_to_the_limit_correct_their_windows_and_later_ones_can_be_replayed(
    spark: SparkSession, broker: Broker, topic: str, ledger: list[Sent], tmp_path: Path
) -> None:
    wanted = planned(broker, topic, tmp_path, corrections="3 hours")
    done = run(wanted, spark)
    kept = kept_aside(tmp_path)
    strays = {(sent.partition, sent.offset) for sent in ledger if sent.click.straggler}
    assert (done.late, done.corrected) == (len(strays), len(strays) - len(kept))
    assert kept < strays
    assert kept

    views = rows(tmp_path / "views")
    in_time = closed(tumbled(accepted(ledger, tmp_path)), ledger)
    assert answers(row for row in views if row["final"]) == in_time

    files = EpochFiles(spark, wanted.places.checkpoint)
    noted = files.read()
    assert noted is not None
    driver = Ledger.claimed(files, noted, {})
    assert replay_late(wanted, spark) == len(kept)
    with pytest.raises(FencedError):
        driver.require_newest()
    assert replay_late(wanted, spark) == 0
    views = rows(tmp_path / "views")
    assert answers(row for row in views if row["final"]) == closed(tumbled(ledger), ledger)
    log = spark.read.format("delta").load(str(tmp_path / "corrections"))
    now = spark.read.format("delta").load(str(tmp_path / "views")).where("final")
    same = ["window", "page", "views", "bytes", "version"]
    assert rebuilt(log, ["page"]).select(same).exceptAll(now.select(same)).count() == 0
    assert log.agg(F.sum("net.views")).first() == now.agg(F.sum("views")).first()


@pytest.mark.broker
def test_open_sessions_are_shown_as_they_stand_and_late_clicks_are_kept_aside(
    spark: SparkSession, broker: Broker, topic: str, ledger: list[Sent], tmp_path: Path
) -> None:
    window = {"kind": "session", "gap": f"{GAP_MS} milliseconds", "emission": "updates"}
    done = run(planned(broker, topic, tmp_path, **window), spark)
    strays = sum(sent.click.straggler for sent in ledger)
    assert (done.late, done.corrected) == (strays, 0)
    honest = [sent for sent in ledger if not sent.click.straggler]
    assert answers(rows(tmp_path / "views")) == visited(honest)
    assert not (tmp_path / "corrections").exists()


def straying(seed: int) -> list[Click]:
    """Make clicks of which some come within the lateness, some past it, and a last one that closes
    all windows."""
    chance, first = random.Random(seed), int(START.timestamp() * 1000)
    made = []
    for number in range(90):
        behind = chance.choice(
            [0, chance.randrange(LATENESS_MS), chance.randrange(LATENESS_MS, 300_000)]
        )
        arrived = first + 400_000 + number * 3_000
        page = chance.choice(["/", "/a"])
        made.append(Click(f"e{number}", "u", page, 1.0, 1, at=arrived - behind, arrived=arrived))
    last = first + 86_400_000
    return [*made, Click("last", "u", "/last", 1.0, 1, at=last, arrived=last)]


@pytest.mark.broker
@pytest.mark.draws("seed", short=[2], long=range(2, 9))
def test_whatever_the_disorder_cuts_and_restarts_each_row_has_its_place_and_all_ways_agree(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, seed: int
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    window: dict[str, object] = {"size": "1 minute"}
    whole = tumbled
    if seed % 2 == 0:
        window, whole = {"kind": "session", "gap": f"{GAP_MS} milliseconds"}, visited
    ways = {
        "final": {"corrections": "1 minute"},
        "updates": {"corrections": "1 day", "emission": "updates"},
    }
    made, ledger, read = straying(seed), list[Sent](), dict.fromkeys(ways, 0)
    cut = random.Random(seed).randrange(1, 90)
    for begin, end in ((0, cut), (cut, len(made))):
        ledger += produce(broker.servers, topic, made[begin:end], partitions=1)
        for way, settings in ways.items():
            # Each run begins where the one before it ended, in a query of its own.
            wanted = planned(broker, topic, tmp_path / way, **{**window, **settings})
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
            sum(row[3] * number for row, number in found.items()) + len(kept_aside(tmp_path / way))
            == 90
        )
        log, now = (
            spark.read.format("delta").load(str(tmp_path / way / name))
            for name in ("corrections", "views")
        )
        final, again = (
            Counter(frame.select("window", "page", "views", "version").collect())
            for frame in (now.where("final"), rebuilt(log, ["page"]))
        )
        assert final == again
    assert kept_aside(tmp_path / "final")
    assert not kept_aside(tmp_path / "updates")


def test_what_can_not_change_is_told_so(
    broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="sliding"):
        planned(broker, "clicks", tmp_path, kind="sliding", corrections="1 hour")
    with pytest.raises(ConfigError, match="keeps no windows"):
        replay_late(planned(broker, "clicks", tmp_path), spark)
