"""Tables and checkpoints in folders whose names have characters with a meaning elsewhere."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.test_cli import invoke
from tests.support.delta_tables import by_spark
from tests.support.delta_tables import rows as by_deltalake
from tests.support.kafka_topics import START, page, pages_input, send_records
from tidegate import Job, run
from tidegate.aggregates import count
from tidegate.operations.doctor import examine_job
from tidegate.operations.rescale import plan_rescale, rescale
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = [pytest.mark.slow, pytest.mark.jobs, pytest.mark.broker]

NAMES = [" a b%20c%#d?e+f=g", "_q'u\"o`t[x]{y}(z)", ".é=日本 *!;,$~&@|:x:"]


@pytest.mark.parametrize("name", NAMES, ids=["url", "quotes", "others"])
def test_a_job_runs_restarts_and_is_examined_in_any_folder(
    name: str, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    root = tmp_path / name
    table, checkpoint = root / f"{name}t", root / f"{name}c"
    job = Job(
        name="views",
        inputs={"pages": pages_input(broker.bootstrap_servers, topic)},
        transform=WindowAggregation(Tumbling("10 seconds"), by="page", aggs={"n": count()}),
        sink=Append(str(table)),
        checkpoint=str(checkpoint),
        dead_letters=str(root / f"{name}d"),
        late_rows=str(root / f"{name}l"),
    )
    send_records(broker.bootstrap_servers, topic, [1, 2, "no record", 30])
    assert run(job, spark).dead_letters == 1
    send_records(broker.bootstrap_servers, topic, [3, 31, "nor this", 60])
    done = run(job, spark)
    assert (done.dead_letters, done.late_rows) == (1, 1)
    assert run(job, spark).rows_in == 0
    # The path of delta-rs is that of a URL, in which %20 is a space.
    for read in (by_spark(spark), *([] if "%" in name else [by_deltalake])):
        found = read(table)
        starts = [row["window"]["start"].astimezone(UTC) - START for row in found]
        counts = {start.seconds: row["n"] for start, row in zip(starts, found, strict=True)}
        assert (counts, len(found)) == ({0: 2, 30: 2}, 2)
        assert sorted(row["offset"] for row in read(root / f"{name}d")) == [2, 6]
        assert [row["offset"] for row in read(root / f"{name}l")] == [4]
    assert {path.name for path in tmp_path.iterdir()} == {name}
    assert {path.name for path in root.iterdir()} == {f"{name}{end}" for end in "tcdl"}
    findings = examine_job(job, spark)
    assert [each for each in findings if each.status == "error"] == []
    code, output = invoke("status", str(root))
    assert code == 0, output
    assert (f"{name}t" in output, "append" in output, "late" in output) == (True, True, True)


@pytest.mark.parametrize("name", NAMES, ids=["url", "quotes", "others"])
def test_the_state_in_any_folder_is_rescaled(
    name: str, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    root = tmp_path / name
    job = Job(
        name="views",
        inputs={"pages": pages_input(broker.bootstrap_servers, topic)},
        transform=WindowAggregation(Tumbling("10 seconds"), by="page", aggs={"n": count()}),
        sink=Append(str(root / "views")),
        checkpoint=str(root / f"{name}c"),
    )
    pages = [page(f"p{number}", 5) for number in range(9)]
    send_records(broker.bootstrap_servers, topic, pages)
    run(job, spark)
    rescale(spark, plan_rescale(spark, job.locations.checkpoint, 5))
    folders = {path.name for path in (root / f"{name}c" / "state" / "0").iterdir()}
    assert folders == {*map(str, range(5)), "_metadata"}
    assert {path.name for path in tmp_path.iterdir()} == {name}
    send_records(broker.bootstrap_servers, topic, [*pages, page("last", 500)])
    run(job, spark)
    found = {row["page"]: row["n"] for row in by_spark(spark)(root / "views")}
    assert found == {f"p{number}": 2 for number in range(9)}
