"""Dead letters in a topic as well: what they say, and that a copy is told by its id."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import AccountingError, ArgumentError, TopicError
from tidegate.jobs import Windows
from tidegate.jobs.windows import job as windows
from tidegate.jvm import delta_state
from tidegate.runtime import run
from tidegate.runtime.forgetting.forget import forget
from tidegate.sinks import DeadTopic, SideTable
from tidegate.testing import Broker, Record, deliver

from ..configured import from_options
from ..sinks.batches import batch
from ..tables import rows

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.jobs]
SETTINGS = {
    "input.schema": "sensor string not null, at timestamp",
    "input.time": "at",
    "input.lateness": "1 second",
    "window.size": "1 minute",
    "window.by": "sensor",
    "aggregates.n": "count",
}
AT = 1_767_312_000_000


def letters(spark: SparkSession, broker: Broker, topic: str) -> list[tuple[Any, dict[str, str]]]:
    options = {"kafka.bootstrap.servers": broker.servers, "includeHeaders": "true"}
    raw = spark.read.format("kafka").options(subscribe=topic, **options).load()
    return [
        (row, {header.key: bytes(header.value).decode() for header in row.headers})
        for row in raw.collect()
    ]


def test_a_dead_letter_is_in_the_topic_with_its_place_and_reason_and_a_copy_has_its_id(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    dead = broker.create_topic(f"{topic}-dead", partitions=2, retention_ms=-1)
    options = {
        **SETTINGS,
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "output.root": tmp_path,
        "output.dead_letters_topic": dead,
        "output.side_properties.delta.enableChangeDataFeed": "true",
    }
    job = windows(from_options(Windows, options))
    deliver(broker.servers, [Record(topic, value, AT) for value in (b"{oops", b"{}")])
    assert run(job, spark).dead == 2
    laid_out = delta_state(spark, str(tmp_path / "dead_letters"))
    assert laid_out.property("delta.enableChangeDataFeed") == "true"
    found = letters(spark, broker, dead)
    kept = {(str(row["offset"]), row["reason"]) for row in rows(tmp_path / "dead_letters")}
    assert {(told["tidegate-offset"], told["tidegate-reason"]) for _, told in found} == kept
    assert {bytes(row.value) for row, _ in found} == {b"{oops", b"{}"}
    assert {bytes(row.key).decode() for row, _ in found} == {f"{topic}/0/0", f"{topic}/0/1"}

    # Who forgets a person is told of the topic, also once the job sends nothing there any more.
    run(replace(job, dead_topic=None), spark)
    told = forget(spark, [str(tmp_path)], ["sensor=a"], dry_run=True)
    assert [(each.kind, each.name) for each in told.outside] == [("topic", dead)]
    assert f"topic {dead}, as {job.places.checkpoint} notes" in told.text()

    # It died between the topic and the table: the batch is sent again, with the same ids.
    table = spark.read.format("delta").load(str(tmp_path / "dead_letters"))
    again = SideTable(str(tmp_path / "again"), also=job.dead_topic)
    with pytest.raises(AccountingError):
        again.write(table, batch(0), expected=3)
    assert len(letters(spark, broker, dead)) == 2
    assert job.dead_topic is not None
    job.dead_topic.send(table, "j/q/dead/0")
    assert again.write(table, batch(0), expected=2) == "written"
    assert again.write(table, batch(0), expected=2) == "skipped"
    ids = [told["tidegate-id"] for _, told in letters(spark, broker, dead)]
    assert (len(ids), len(set(ids))) == (6, 4)
    missing = DeadTopic(broker.servers, topic=f"{topic}-no")
    lost = SideTable(str(tmp_path / "lost"), also=missing)
    with pytest.raises(TopicError, match="there is no topic"):
        lost.write(table, batch(0), expected=2)
    assert not Path(lost.path).exists()
    with pytest.raises(TopicError, match="there is no topic"):
        run(replace(job, dead_topic=missing), spark)


def test_a_job_that_reads_its_topic_of_dead_letters_is_refused(tmp_path: Path) -> None:
    given = {"kafka.servers": "b:1", "input.topics": "t", "output.root": tmp_path}
    config = from_options(Windows, {**SETTINGS, **given, "output.dead_letters_topic": "t"})
    with pytest.raises(ArgumentError, match="dead_topic is t, which the job reads"):
        windows(config)
