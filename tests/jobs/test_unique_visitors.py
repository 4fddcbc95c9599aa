"""Minutes, hours and days of visitors, from a real topic, against plain Python over the producer's ledger."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from jobs.unique_visitors import RANKS, UniqueVisitors, aggregates, job
from lib.aggregates import finished, merged
from lib.runtime.config import load
from lib.runtime.job import Job
from lib.runtime.paths import project_root
from lib.runtime.run import run
from lib.sketches import rank_error
from lib.testing import Broker
from lib.testing.clicks import SCHEMA, Click, clicks
from lib.testing.ledger import produce

SHIPPED = project_root() / "conf" / "jobs" / "unique_visitors.toml"
ZONE = "Europe/Berlin"
AGGS = aggregates()
Start = Callable[[datetime], datetime]


def planned(servers: str, topic: str, root: Path) -> Job:
    options = [f"kafka.servers={servers}", f"kafka.topics={topic}", "kafka.max_rows=1700", f"input.schema={SCHEMA}"]
    return job(load(UniqueVisitors, SHIPPED, [*options, f"roll_up.zone={ZONE}", f"output.root={root}"], {}).config)


def minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def hour(at: datetime) -> datetime:
    return minute(at).replace(minute=0)


def day(at: datetime) -> datetime:
    return at.astimezone(ZoneInfo(ZONE)).replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)


def grouped(good: list[Click], start: Start) -> dict[tuple[datetime, str], list[Click]]:
    groups: dict[tuple[datetime, str], list[Click]] = {}
    for click in good:
        at = datetime.fromtimestamp(click.at / 1000, UTC)
        groups.setdefault((start(at), click.page), []).append(click)
    return groups


def agrees(row: Row, group: list[Click]) -> None:
    """Check one row of answers: exact where a sketch is exact, within its error where it is not."""
    assert row["views"] == len(group)
    users = len({click.user for click in group})
    assert row["visitors"] == pytest.approx(users, rel=4 * 0.0082, abs=0.5)
    times = sorted(click.ms for click in group)
    for found, rank in zip(row["ms"], RANKS, strict=True):
        below, upto = sum(ms < found for ms in times), sum(ms <= found for ms in times)
        error = 0 if len(times) <= 200 else 2 * rank_error(200) * len(times)
        assert below - error <= rank * len(times) <= upto + error


@pytest.mark.broker
def test_minutes_hours_and_days_are_those_of_the_ledger_with_late_clicks_merged_in(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    ledger = produce(broker.servers, topic, clicks(6_000, seed=8, pages=9, rate=20, stragglers=0.01), partitions=4)
    good = [sent.click for sent in ledger if sent.click.fault is None]
    assert sum(click.straggler for click in good) > 50

    done = run(planned(broker.servers, topic, tmp_path), spark)
    assert (done.rows_in, done.rows_out, done.late) == (6_000, len(good), 0)

    starts: dict[str, Start] = {"minutes": minute, "hours": hour, "days": day}
    for table, start in starts.items():
        groups = grouped(good, start)
        stored = spark.read.format("delta").load(str(tmp_path / table))
        rows = finished(stored, AGGS).select(F.unix_seconds("window.start").alias("at"), "*").collect()
        assert len(rows) == len(groups)
        for row in rows:
            agrees(row, groups[datetime.fromtimestamp(row["at"], UTC), row["page"]])

    hours = spark.read.format("delta").load(str(tmp_path / "hours"))
    union = finished(merged(hours.where(F.col("page").isin("/", "/search")), (), AGGS), AGGS).collect()[0]
    agrees(union, [click for click in good if click.page in ("/", "/search")])
    pages = [click.page for click in good if click.page in ("/", "/search")]
    assert [(each["value"], each["count"]) for each in union["pages"]] == sorted(
        ((page, pages.count(page)) for page in set(pages)), key=lambda pair: -pair[1]
    )


def test_the_shipped_configuration_is_whole() -> None:
    config = load(UniqueVisitors, SHIPPED, [], {}).config
    assert set(config.output.tables()) == {f"output.{t}" for t in ("table", "hours", "days", "dead_letters", "late")}
    assert timedelta(0) == datetime.now(ZoneInfo(config.roll_up.zone)).utcoffset()
