"""Preflight checks refuse a checkpoint, tables and a configuration that do not fit together."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoint_files import JobFiles
from tests.support.kafka_topics import pages_input
from tidegate.aggregates import count
from tidegate.checkpoint.lineage_files import LineageFiles
from tidegate.commit.batch import UNIX_EPOCH, BatchPlan
from tidegate.commit.driver_lease import DriverLease
from tidegate.delta.table_layout import TableLayout
from tidegate.engine.streams import build_streams
from tidegate.engine.topic_monitor import TopicMonitor
from tidegate.errors import (
    CheckpointError,
    LostCheckpointError,
    SourceError,
    TableError,
    TableMismatchError,
    TidegateError,
)
from tidegate.sinks import Append, FanOut
from tidegate.startup.preflight import Preflight
from tidegate.transform import Stateless
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = pytest.mark.broker
Damage = Callable[[JobFiles, SparkSession], None]


def preflight_error(job_files: JobFiles, spark: SparkSession, **options: object) -> TidegateError:
    with pytest.raises(TidegateError) as error:
        Preflight(job_files.job(**options), spark).require_all()
    return error.value


def restore_version(job_files: JobFiles, spark: SparkSession, version: int = 0) -> None:
    spark.sql(f"RESTORE TABLE delta.`{job_files.root}/views` TO VERSION AS OF {version}")


def restore_copy(table: str) -> Damage:
    def damage(job_files: JobFiles, spark: SparkSession) -> None:
        shutil.rmtree(job_files.root / table)
        shutil.copytree(job_files.before / table, job_files.root / table)

    return damage


def delete(table: str) -> Damage:
    return lambda job_files, spark: shutil.rmtree(job_files.root / table)


def replace_table(job_files: JobFiles, spark: SparkSession) -> None:
    """Replace the target with another table of the same rows."""
    views = spark.read.format("delta").load(f"{job_files.root}/views").localCheckpoint()
    shutil.rmtree(job_files.root / "views")
    views.write.format("delta").save(f"{job_files.root}/views")


def diverge(job_files: JobFiles, spark: SparkSession) -> None:
    """Restore an older copy of the target, and write to it as another writer."""
    recorded_version = job_files.lineage.tables["append"].version
    restore_copy("views")(job_files, spark)
    views = spark.read.format("delta").load(f"{job_files.root}/views").localCheckpoint()
    for _ in range(recorded_version):
        views.write.format("delta").mode("append").save(f"{job_files.root}/views")


def edit_log(log: str, pattern: str, replacement: str) -> Damage:
    """Edit the newest file of a log of the checkpoint, or the file of that name."""

    def damage(job_files: JobFiles, spark: SparkSession) -> None:
        path = job_files.checkpoint / log
        newest = max(path.iterdir()) if path.is_dir() else path
        text = newest.read_text()
        edited = re.sub(pattern, replacement, text)
        assert edited != text
        newest.write_text(edited)
        # Hadoop's checksum file would report the change before the hash does.
        (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)

    return damage


def delete_newest(log: str) -> Damage:
    def damage(job_files: JobFiles, spark: SparkSession) -> None:
        numbers = [file for file in (job_files.checkpoint / log).iterdir() if file.name.isdecimal()]
        max(numbers, key=lambda file: int(file.name)).unlink()

    return damage


def edit_lineage(change: Callable[[bytes], bytes | None]) -> Damage:
    """Edit every lineage file, or delete them all."""

    def damage(job_files: JobFiles, spark: SparkSession) -> None:
        for file in job_files.lineage_files:
            content = change(file.read_bytes())
            file.unlink()
            if content is not None:
                file.write_bytes(content)

    return damage


def delete_newest_lineage(job_files: JobFiles, spark: SparkSession) -> None:
    job_files.lineage_files[-1].unlink()


def delete_checkpoint(job_files: JobFiles, spark: SparkSession) -> None:
    shutil.rmtree(job_files.checkpoint)


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (restore_copy("views"), TableMismatchError, "'append'.*older than its checkpoint"),
        (restore_copy("views.dead_letters"), TableMismatchError, "'dead_letters'.*older than"),
        (restore_version, TableMismatchError, "views was restored to an older version by commit"),
        (delete("views"), TableMismatchError, "views does not exist.*RESTORE.*--recreate append"),
        (delete("views.dead_letters"), TableMismatchError, "dead_letters does not exist"),
        (delete("views.late"), TableMismatchError, "'late'.*does not exist"),
        (replace_table, TableMismatchError, "is another table"),
        (diverge, TableMismatchError, "another commit at version"),
        (edit_log("offsets", r'"0":1', '"0":2'), CheckpointError, r"offsets/\d was changed"),
        (edit_log("offsets", r'(WatermarkMs":)1', r"\g<1>2"), CheckpointError, r"offsets/\d was c"),
        (edit_log("commits", r'(WatermarkMs":)1', r"\g<1>2"), CheckpointError, r"commits/\d was c"),
        (delete_newest("offsets"), CheckpointError, r"offsets/\d is missing"),
        (delete_newest("commits"), CheckpointError, r"commits/\d is missing"),
        (edit_log("metadata", r'"id":"', '"id":"0'), CheckpointError, "metadata has the query 0"),
        (edit_lineage(lambda old: old[:-9]), CheckpointError, "lineage-000002.json is damaged"),
        (edit_lineage(lambda old: old.replace(b"1", b"2", 1)), CheckpointError, "is damaged"),
        (edit_lineage(lambda old: b""), CheckpointError, "incomplete: no lineage file is in"),
        (edit_lineage(lambda old: None), CheckpointError, "incomplete: no lineage file is in"),
        (delete_newest_lineage, CheckpointError, "lineage file ends with batch"),
        (delete_checkpoint, LostCheckpointError, "with another checkpoint"),
    ],
)
def test_a_damaged_checkpoint_or_table_is_refused_by_name(
    job_files: JobFiles,
    spark: SparkSession,
    damage: Damage,
    error: type[TidegateError],
    message: str,
) -> None:
    damage(job_files, spark)
    raised = preflight_error(job_files, spark)
    assert type(raised) is error, raised
    assert re.search(message, str(raised), re.DOTALL), raised


def test_a_renamed_job_another_table_and_another_output_are_refused(
    job_files: JobFiles, spark: SparkSession
) -> None:
    renamed = preflight_error(job_files, spark, name="other")
    assert type(renamed) is CheckpointError
    assert "the checkpoint belongs to the job 'left', not to 'other'" in str(renamed)
    root, checkpoint = str(job_files.root), str(job_files.checkpoint)
    locations = {
        "checkpoint": checkpoint,
        "dead_letters": f"{root}/views.dead_letters",
        "late_rows": f"{root}/views.late",
    }
    moved = preflight_error(job_files, spark, sink=Append(f"{root}/views2"), **locations)
    assert type(moved) is CheckpointError
    assert "to be written to" in str(moved)
    assert "views2, where no table exists" in str(moved)
    output = preflight_error(job_files, spark, sink=Append(f"{root}/views", output="pages"))
    assert "no longer writes the outputs 'append'" in str(output)


def test_a_second_checkpoint_on_the_same_tables_is_refused(
    job_files: JobFiles, spark: SparkSession, tmp_path: Path
) -> None:
    error = preflight_error(job_files, spark, checkpoint=str(tmp_path / "second"))
    assert type(error) is LostCheckpointError
    assert str(job_files.lineage.query) in str(error)


@pytest.mark.parametrize(
    ("transform", "change"),
    [
        (
            WindowAggregation(Tumbling("20 seconds"), aggs={"n": count()}),
            "window=tumbling(size=0:00:10) to window=tumbling(size=0:00:20)\n",
        ),
        (
            WindowAggregation(Tumbling("10 seconds"), aggs={"n": count("page")}),
            "aggs={'n': count()} to aggs={'n': count(value='page')}\n",
        ),
        (Stateless(lambda rows: rows), "window_aggregation("),
    ],
)
def test_a_changed_stateful_query_on_an_existing_checkpoint_is_refused_with_the_change(
    job_files: JobFiles, spark: SparkSession, transform: object, change: str
) -> None:
    error = preflight_error(job_files, spark, transform=transform)
    assert type(error) is CheckpointError
    assert f"transform changed from {change}" in str(error)


def test_the_watermark_delay_and_the_spelling_of_a_duration_may_change(
    job_files: JobFiles, spark: SparkSession
) -> None:
    same = WindowAggregation(Tumbling("10000 ms"), aggs={"n": count()})
    wider = pages_input(
        job_files.broker.bootstrap_servers, job_files.topic, watermark_delay="3 seconds"
    )
    checks = Preflight(job_files.job(inputs={"pages": wider}, transform=same), spark)
    checks.require_all()
    assert [
        text.split(" changed from ")[0] for text in checks.decision.fingerprint_diff.descriptions
    ] == ["pages.input"]


def test_a_table_with_other_columns_or_another_layout_is_refused_before_a_start(
    job_files: JobFiles, spark: SparkSession
) -> None:
    path = f"{job_files.root}/views"
    layout_error = preflight_error(
        job_files, spark, sink=Append(path, layout=TableLayout(partition_by=["n"]))
    )
    assert "the partitioning of the table: []" in str(layout_error)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN note STRING")
    schema_error = preflight_error(job_files, spark)
    assert isinstance(schema_error, TableError)
    assert "note is missing" in str(schema_error)
    both = FanOut(Append(path), other_sinks=[Append(f"{job_files.root}/archive", output="archive")])
    with pytest.raises(TableError, match="note is missing"):
        Preflight(job_files.job(sink=both), spark, recreate=["archive"]).require_all()


def test_a_re_created_topic_is_refused(job_files: JobFiles, spark: SparkSession) -> None:
    lineage = job_files.lineage
    other = replace(lineage, topic_ids=dict.fromkeys(lineage.topic_ids, "another"))
    job_files.lineage_files[-1].write_text(other.to_json())
    error = preflight_error(job_files, spark)
    assert type(error) is SourceError
    assert re.search("deleted and created again", str(error)), error


def test_a_topic_that_was_re_created_while_no_broker_answered_at_the_start_is_refused(
    job_files: JobFiles, spark: SparkSession
) -> None:
    job = job_files.job()
    plan = BatchPlan(
        job="left",
        query_id="q",
        run_id="r",
        number=9,
        offsets_hash="",
        start={},
        end={},
        watermark=UNIX_EPOCH,
    )
    with TopicMonitor(job, build_streams(job, spark), spark, job_files.lineage.topic_ids) as topics:
        topics.require_unchanged(plan)
        assert topics.topic_ids == job_files.lineage.topic_ids
    recorded_ids = {job_files.topic: "another"}
    with (
        TopicMonitor(job, build_streams(job, spark), spark, recorded_ids) as topics,
        pytest.raises(SourceError, match="id another"),
    ):
        topics.require_unchanged(plan)


@pytest.mark.jobs
def test_tables_are_compared_with_the_lineage_before_each_batch(
    job_files: JobFiles, spark: SparkSession
) -> None:
    lineage = job_files.lineage
    paths = {output: recorded.path for output, recorded in lineage.tables.items()}
    lease = DriverLease(LineageFiles(spark, str(job_files.checkpoint)), lineage, paths)
    lease.require_unchanged_tables(spark)
    views = spark.read.format("delta").load(f"{job_files.root}/views")
    views.limit(0).write.format("delta").mode("append").save(f"{job_files.root}/views")
    lease.require_unchanged_tables(spark)
    restore_version(job_files, spark)
    with pytest.raises(TableMismatchError, match="views was restored to an older version"):
        lease.require_unchanged_tables(spark)
    restore_version(job_files, spark, lineage.tables["append"].version)
    lease.require_unchanged_tables(spark)
    delete("views.dead_letters")(job_files, spark)
    with pytest.raises(TableMismatchError, match="dead_letters does not exist"):
        lease.require_unchanged_tables(spark)
