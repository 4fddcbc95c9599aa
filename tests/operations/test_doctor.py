"""The doctor reports every check, and changes nothing."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from rich.console import Console

from tests.cli.test_cli import invoke
from tests.support.checkpoint_files import FIRST, JobFiles
from tests.support.kafka_topics import pages_input, send_records
from tidegate import Job, run
from tidegate.aggregates import count
from tidegate.errors import CheckpointError, RunTimeError, SourceError, TableMismatchError
from tidegate.jvm import checkpoint_table, clear_table_cache
from tidegate.operations.doctor import (
    CheckWarning,
    Finding,
    describe_headroom,
    examine_job,
    render_findings,
    require_no_errors,
)
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.sources.topics import open_kafka_client
from tidegate.testing import Broker
from tidegate.testing.crash_points import CrashError, crash_after
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = pytest.mark.broker
HOUR = 3_600_000


def file_hashes(root: Path) -> dict[str, str]:
    """Return the hash of every file below a folder, by relative path."""
    return {
        str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in root.rglob("*")
        if file.is_file()
    }


def examine(job_files: JobFiles, spark: SparkSession, job: Job | None = None) -> dict[str, Finding]:
    """Return the findings by check; require that no file was changed."""
    before = file_hashes(job_files.root)
    findings = examine_job(job or job_files.job(), spark)
    assert file_hashes(job_files.root) == before
    assert len({each.check for each in findings}) == len(findings)
    return {each.check: each for each in findings}


def checks_with_status(findings: dict[str, Finding], status: str) -> list[str]:
    return [name for name, each in findings.items() if each.status == status]


@pytest.mark.jobs
def test_a_healthy_job_has_no_warnings_and_each_check_reports(
    job_files: JobFiles, spark: SparkSession
) -> None:
    findings = examine(job_files, spark)
    assert checks_with_status(findings, "error") == []
    assert {"table append", "properties dead_letters", "topics pages", "plan"} <= set(findings)
    assert "as in requirements.lock" in findings["versions"].result
    assert "as in jars.lock, by SHA-256" in findings["jars"].result
    assert "MiB free under" in findings["disk"].result
    assert "epoch 2" in findings["checkpoint"].result
    assert findings["last start"].result == "epoch 2, ended"
    assert findings["retention pages"].result.startswith(
        "5 offsets unread, retention deletes 14 read ones"
    )
    assert findings["checksums"].result == "no orphans"
    require_no_errors(list(findings.values()))


@pytest.mark.jobs
def test_each_damaged_table_is_named_with_its_fault_and_the_others_are_reported(
    job_files: JobFiles, spark: SparkSession
) -> None:
    def commits(table: str) -> list[Path]:
        return sorted((job_files.root / table / "_delta_log").glob("*.json"))

    commits("views")[1].unlink()
    for log in ("views", "views.dead_letters"):
        for checksum in (job_files.root / log / "_delta_log").glob("*.crc"):
            checksum.unlink()
    commits("views.dead_letters")[-1].write_text('{"commitInfo": {')
    clear_table_cache(spark)
    findings = examine(job_files, spark)
    for output, table in (("append", "views"), ("dead_letters", "views.dead_letters")):
        error = findings[f"log {output}"].error
        assert isinstance(error, TableMismatchError)
        assert error.problem == (
            f"output {output!r}: the log of {job_files.root / table} cannot be read"
        )
        assert f"--recreate {output}" in error.remedy
    assert findings["log late"].result.startswith("version ")
    with pytest.raises(TableMismatchError, match=r"the log of .* cannot be read"):
        run(job_files.job(), spark)
    for table in ("views", "views.dead_letters"):
        shutil.rmtree(job_files.root / table)
    clear_table_cache(spark)
    run(job_files.job(), spark, recreate=["append", "dead_letters"])
    assert job_files.window_counts() == {70: 1, 80: 1, 90: 1}


def test_all_problems_are_reported_at_once_with_a_fix(
    job_files: JobFiles, spark: SparkSession
) -> None:
    shutil.rmtree(job_files.root / "views")
    dead = f"delta.`{job_files.root}/views.dead_letters`"
    late = f"delta.`{job_files.root}/views.late`"
    spark.sql(
        f"ALTER TABLE {dead} SET TBLPROPERTIES "
        "(delta.setTransactionRetentionDuration = 'interval 1 day')"
    )
    spark.sql(
        f"ALTER TABLE {late} SET TBLPROPERTIES "
        "(delta.appendOnly = 'true', delta.logRetentionDuration = 'interval 7 days')"
    )
    (job_files.checkpoint / "offsets" / ".9.crc").write_text("")
    wider = pages_input(
        job_files.broker.bootstrap_servers, job_files.topic, watermark_delay="3 seconds"
    )
    other = WindowAggregation(Tumbling("20 seconds"), aggs={"n": count()})
    findings = examine(job_files, spark, job_files.job(inputs={"pages": wider}, transform=other))
    assert checks_with_status(findings, "error") == [
        "table dead_letters",
        "table append",
        "plan",
        "properties dead_letters",
    ]
    assert checks_with_status(findings, "warning") == ["properties late", "checksums"]
    assert "RESTORE TABLE" in findings["table append"].result
    assert "offsets/.9.crc" in findings["checksums"].result
    assert (
        "transform changed from window=tumbling(size=0:00:10) to window=tumbling(size=0:00:20)"
        in findings["plan"].result
    )
    assert "tidegate replay JOB --swap" in findings["plan"].result
    assert "delta.appendOnly = true" in findings["properties late"].result
    assert "interval 7 days" in findings["properties late"].result
    with pytest.raises(TableMismatchError, match="views does not exist"):
        require_no_errors([findings["table append"]])
    assert_rendered(list(findings.values()))


def assert_rendered(findings: Sequence[Finding]) -> None:
    console = Console(record=True, width=160, file=StringIO())
    console.print(render_findings(findings))
    text = console.export_text()
    assert all(each.check in text for each in findings)
    assert "error" in text
    assert "fix: RESTORE TABLE" in text


def test_a_compatible_change_is_reported_with_its_effect(
    job_files: JobFiles, spark: SparkSession
) -> None:
    wider = pages_input(
        job_files.broker.bootstrap_servers, job_files.topic, watermark_delay="3 seconds"
    )
    plan = examine(job_files, spark, job_files.job(inputs={"pages": wider}))["plan"]
    assert plan.status == "ok"
    assert plan.result.startswith("safe changes: pages.input changed from ")
    assert plan.result.endswith("existing late rows and dead letters do not change")


@pytest.mark.parametrize(
    ("settings", "check", "problem", "at_start"),
    [
        ({"watermarks": "partition"}, "plan", "pages.watermark", "pages.watermark"),
        ({"idle_timeout": "1 minute"}, "streams", "idle_timeout was added", "number of streams"),
    ],
)
def test_a_change_of_the_number_of_streams_is_named_before_a_start(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    settings: dict[str, Any],
    check: str,
    problem: str,
    at_start: str,
) -> None:
    broker.create_topic(topic, partitions=2)
    send_records(broker.bootstrap_servers, topic, [0, 70])
    pages = pages_input(broker.bootstrap_servers, topic)
    job = Job(
        name="streams",
        inputs={"pages": pages},
        transform=WindowAggregation(Tumbling("1 minute"), by="page", aggs={"n": count()}),
        sink=Append(f"{tmp_path}/pages"),
    )
    run(job, spark)
    unchanged = {each.check: each for each in examine_job(job, spark)}
    assert (unchanged["streams"].status, unchanged["streams"].result) == ("ok", "pages: 1")
    changed = replace(job, every="1 second", inputs={"pages": replace(pages, **settings)})
    finding = next(each for each in examine_job(changed, spark) if each.check == check)
    assert problem in finding.result
    assert isinstance(finding.error, CheckpointError)
    with pytest.raises(CheckpointError, match=at_start):
        run(changed, spark)


def test_a_damaged_checkpoint_hides_nothing_that_can_be_findings_without_it(
    job_files: JobFiles, spark: SparkSession
) -> None:
    job_files.lineage_files[-1].write_bytes(b"{}")
    findings = examine(job_files, spark)
    assert "is damaged" in findings["checkpoint"].result
    assert "not checked: same error as checkpoint" in findings["plan"].result
    assert findings["properties append"].status == "ok"
    assert findings["checksums"].status == "ok"


@pytest.mark.jobs
@pytest.mark.parametrize("is_written", [False, True])
def test_a_checkpoint_whose_first_batch_is_incomplete_is_reported_without_its_state(
    is_written: bool,
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, FIRST)
    job_files = JobFiles(broker, topic, tmp_path, tmp_path)

    def crash(*_: object) -> None:
        raise CrashError

    with monkeypatch.context() as patch:
        if not is_written:
            patch.setattr("tidegate.engine.micro_batch.write_side_outputs", crash)
        with crash_after(tmp_path / "views"), pytest.raises(RunTimeError, match="CrashError"):
            run(job_files.job(), spark)
    checkpoint = job_files.checkpoint
    assert [(checkpoint / log / "0").exists() for log in ("offsets", "commits")] == [True, False]
    assert (checkpoint / "state" / "0" / "_metadata").exists()
    findings = examine(job_files, spark)
    assert checks_with_status(findings, "error") == []
    assert findings["state"].result == "no state"
    run(job_files.job(), spark)
    assert "rows in 2 partitions" in examine(job_files, spark)["state"].result
    assert job_files.window_counts() == {0: 2, 10: 2, 20: 1}


def test_the_headroom_of_unread_records_is_reported_as_time(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=10 * HOUR)
    now = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for hours in (9.5, 4):
        producer.produce(topic, b"", partition=0, timestamp=now - int(hours * HOUR))
    producer.flush()
    source = KafkaSource(broker.bootstrap_servers, topic)
    with open_kafka_client(spark, source) as kafka:
        none_read, one_read, all_read = (
            describe_headroom(kafka, {topic: {0: read, 1: 0}}) for read in range(3)
        )
        assert isinstance(none_read, CheckWarning)
        assert "2 offsets unread" in none_read
        assert "the oldest unread one for another 2" in none_read
        assert not isinstance(one_read, CheckWarning)
        assert "retains records for 10 hours, the oldest unread one for another 5 hours" in one_read
        assert "all are read" in all_read
        broker.delete_records(topic, {0: 1})
        with pytest.raises(SourceError, match=r"-0 from 0 to 1\b"):
            describe_headroom(kafka, {topic: {0: 0}})


def test_a_retention_of_days_is_reported_in_days(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, retention_ms=7 * 24 * HOUR)
    at = int(time.time() * 1000) - 36 * HOUR
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce(topic, b"", partition=0, timestamp=at)
    producer.flush()
    with open_kafka_client(spark, KafkaSource(broker.bootstrap_servers, topic)) as kafka:
        unread = describe_headroom(kafka, {topic: {0: 0}})
        assert (
            f"{topic} retains records for 7 days, the oldest unread one for another 5 days 1"
            in unread
        )
        all_read = describe_headroom(kafka, {topic: {0: 1}})
        assert f"{topic} retains records for 7 days; all are read" in all_read


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def overwritten(file: Path) -> None:
    file.write_bytes(b"PAR1" + bytes(200) + b"PAR1")


@pytest.mark.jobs
@pytest.mark.parametrize(
    ("damage", "has_checksums"),
    [(cut_off, True), (Path.unlink, True), (emptied, False), (overwritten, False)],
)
def test_a_damaged_checkpoint_of_a_table_is_named_before_a_start(
    job_files: JobFiles, spark: SparkSession, damage: Callable[[Path], None], has_checksums: bool
) -> None:
    table = job_files.root / "views"
    version = checkpoint_table(spark, str(table))
    log = table / "_delta_log"
    for commit in sorted(log.glob("*.json"))[:version]:
        commit.unlink()
    checksums = list(log.glob(".*.crc")) + ([] if has_checksums else list(log.glob("*.crc")))
    for checksum in checksums:
        checksum.unlink(missing_ok=True)
    (checkpoint,) = log.glob("*.parquet")
    damage(checkpoint)
    clear_table_cache(spark)
    findings = examine(job_files, spark)
    error = findings["log append"].error
    assert isinstance(error, TableMismatchError)
    assert error.problem == f"output 'append': the log of {table} cannot be read"
    assert "restore the table from a copy" in error.remedy
    assert findings["log late"].status == "ok"
    code, output = invoke("status", str(job_files.root))
    assert code == 5, output
    assert f"{table}: _delta_log/" in output
