"""The doctor tells all that it has looked at, and changes none of it."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from rich.console import Console

from tidegate.aggregates import count
from tidegate.errors import ReplayMismatchError, SourceError
from tidegate.runtime.doctor import Concern, Finding, examine, require_sound, shown
from tidegate.runtime.doctor.retention import left_of
from tidegate.runtime.job import Input, Job
from tidegate.sources import KafkaSource
from tidegate.sources.topics import client
from tidegate.testing import Broker
from tidegate.windows import Tumbling, Windowed

from .left import Left
from .topics import reading

pytestmark = pytest.mark.broker
HOUR = 3_600_000


def files(root: Path) -> dict[str, str]:
    """Return the hash of every file below a folder."""
    return {
        str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in root.rglob("*")
        if file.is_file()
    }


def found(left: Left, spark: SparkSession, job: Job | None = None) -> dict[str, Finding]:
    """Return the findings by their checks, and require that nothing was changed."""
    before = files(left.root)
    findings = examine(job or left.job(), spark)
    assert files(left.root) == before
    assert len({each.check for each in findings}) == len(findings)
    return {each.check: each for each in findings}


def marked(findings: dict[str, Finding], mark: str) -> list[str]:
    return [name for name, each in findings.items() if each.mark == mark]


def test_where_all_is_well_each_check_says_what_it_looked_at(
    left: Left, spark: SparkSession
) -> None:
    seen = found(left, spark)
    assert marked(seen, "refused") == []
    assert {"table append", "properties dead", "topics pages", "plan"} <= set(seen)
    assert "as requirements.lock has them" in seen["versions"].found
    assert "as jars.lock has them, by SHA-256" in seen["jars"].found
    assert "MiB free under" in seen["disk"].found
    assert "epoch 2" in seen["checkpoint"].found
    assert seen["last start"].found == "epoch 2, which has ended"
    assert seen["retention pages"].found.startswith("5 offsets unread, 14 that were read")
    assert seen["check sums"].found == "none without its file"
    require_sound(list(seen.values()))


def test_all_that_is_wrong_is_told_at_once_with_what_to_do(left: Left, spark: SparkSession) -> None:
    shutil.rmtree(left.root / "views")
    dead = f"delta.`{left.root}/views.dead_letters`"
    late = f"delta.`{left.root}/views.late`"
    spark.sql(
        f"ALTER TABLE {dead} SET TBLPROPERTIES "
        "(delta.setTransactionRetentionDuration = 'interval 1 day')"
    )
    spark.sql(
        f"ALTER TABLE {late} SET TBLPROPERTIES "
        "(delta.appendOnly = 'true', delta.logRetentionDuration = 'interval 7 days')"
    )
    (left.checkpoint / "offsets" / ".9.crc").write_text("")
    wider = Input(reading(left.broker.servers, left.topic, lateness="3 seconds"))
    other = Windowed(Tumbling("20 seconds"), aggs={"n": count()})
    seen = found(left, spark, left.job(inputs={"pages": wider}, transform=other))
    assert marked(seen, "refused") == ["table dead", "table append", "plan", "properties dead"]
    assert marked(seen, "look") == ["properties late", "check sums"]
    assert "RESTORE TABLE" in seen["table append"].found
    assert "offsets/.9.crc" in seen["check sums"].found
    assert "transform was Windowed(window=Tumbling(size=0:00:10" in seen["plan"].found
    assert "a new checkpoint and new tables" in seen["plan"].found
    assert "delta.appendOnly = true" in seen["properties late"].found
    assert "interval 7 days" in seen["properties late"].found
    with pytest.raises(ReplayMismatchError, match="views is gone"):
        require_sound([seen["table append"]])
    assert_shown(list(seen.values()))


def assert_shown(findings: Sequence[Finding]) -> None:
    console = Console(record=True, width=160, file=StringIO())
    console.print(shown(findings))
    text = console.export_text()
    assert all(each.check in text for each in findings)
    assert "refused" in text
    assert "instead: put the table back" in text


def test_a_change_that_an_old_checkpoint_allows_is_told_with_what_it_means(
    left: Left, spark: SparkSession
) -> None:
    wider = Input(reading(left.broker.servers, left.topic, lateness="3 seconds"))
    plan = found(left, spark, left.job(inputs={"pages": wider}))["plan"]
    assert plan.mark == "ok"
    assert plan.found.startswith("changed, and safe: pages.reading was Reading(")
    assert plan.found.endswith("what was late or refused stays so")


def test_a_damaged_checkpoint_hides_nothing_that_can_be_seen_without_it(
    left: Left, spark: SparkSession
) -> None:
    left.identities[-1].write_bytes(b"{}")
    seen = found(left, spark)
    assert "is damaged" in seen["checkpoint"].found
    assert "not checked, for the reason above (checkpoint)" in seen["plan"].found
    assert seen["properties append"].mark == "ok"
    assert seen["check sums"].mark == "ok"


def test_the_room_until_the_broker_deletes_what_is_unread_is_told_in_time(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=10 * HOUR)
    now = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True})
    for hours in (9.5, 4):
        producer.produce(topic, b"", partition=0, timestamp=now - int(hours * HOUR))
    producer.flush()
    source = KafkaSource(broker.servers, topic)
    with client(spark, source) as asked:
        none, one, all_ = (left_of(asked, {topic: {0: read, 1: 0}}) for read in range(3))
        assert isinstance(none, Concern)
        assert "2 offsets unread" in none
        assert "the oldest unread one for 0:2" in none
        assert not isinstance(one, Concern)
        assert "keeps records for 10:00:00: the oldest unread one for 5:" in one
        assert "and all are read" in all_
        broker.delete_records(topic, {0: 1})
        with pytest.raises(SourceError, match=r"-0 from 0 to 1\."):
            left_of(asked, {topic: {0: 0}})
