"""Checkpoint, tables and configuration that ceased to belong together are refused, by name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.commit import EPOCH, Batch
from tidegate.commit.epochs import EpochFiles
from tidegate.commit.ledger import Ledger
from tidegate.errors import (
    CheckpointError,
    LostCheckpointError,
    ReplayMismatchError,
    SourceError,
    TableError,
    TidegateError,
)
from tidegate.runtime.job import Input
from tidegate.runtime.query.preflight import Preflight
from tidegate.runtime.query.streams import streams
from tidegate.runtime.query.topics import Topics
from tidegate.sinks import Append, FanOut, Layout
from tidegate.transform import Stateless
from tidegate.windows import Tumbling, Windowed

from .left import Left
from .topics import reading

pytestmark = pytest.mark.broker
Damage = Callable[[Left, SparkSession], None]


def refused(left: Left, spark: SparkSession, **others: object) -> TidegateError:
    with pytest.raises(TidegateError) as error:
        Preflight(left.job(**others), spark).require()
    return error.value


def restored(left: Left, spark: SparkSession, version: int = 0) -> None:
    spark.sql(f"RESTORE TABLE delta.`{left.root}/views` TO VERSION AS OF {version}")


def copied_back(table: str) -> Damage:
    def damage(left: Left, spark: SparkSession) -> None:
        shutil.rmtree(left.root / table)
        shutil.copytree(left.before / table, left.root / table)

    return damage


def gone(table: str) -> Damage:
    return lambda left, spark: shutil.rmtree(left.root / table)


def replaced(left: Left, spark: SparkSession) -> None:
    """Put another table of the same rows in place of the target."""
    views = spark.read.format("delta").load(f"{left.root}/views").localCheckpoint()
    shutil.rmtree(left.root / "views")
    views.write.format("delta").save(f"{left.root}/views")


def went_on(left: Left, spark: SparkSession) -> None:
    """Put an older copy of the target back, and let somebody else write to it."""
    noted = left.identity.tables["append"].version
    copied_back("views")(left, spark)
    views = spark.read.format("delta").load(f"{left.root}/views").localCheckpoint()
    for _ in range(noted):
        views.write.format("delta").mode("append").save(f"{left.root}/views")


def changed(log: str, pattern: str, by: str) -> Damage:
    """Change the newest file of a log of the checkpoint, or the file of that name."""

    def damage(left: Left, spark: SparkSession) -> None:
        place = left.checkpoint / log
        newest = max(place.iterdir()) if place.is_dir() else place
        text = newest.read_text()
        other = re.sub(pattern, by, text)
        assert other != text
        newest.write_text(other)
        # A check sum of Hadoop's would tell before the hash does.
        (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)

    return damage


def removed(log: str) -> Damage:
    def damage(left: Left, spark: SparkSession) -> None:
        numbers = [file for file in (left.checkpoint / log).iterdir() if file.name.isdecimal()]
        max(numbers, key=lambda file: int(file.name)).unlink()

    return damage


def identity(change: Callable[[bytes], bytes | None]) -> Damage:
    """Change every identity file, or remove them all."""

    def damage(left: Left, spark: SparkSession) -> None:
        for file in left.identities:
            content = change(file.read_bytes())
            file.unlink()
            if content is not None:
                file.write_bytes(content)

    return damage


def newest_identity_gone(left: Left, spark: SparkSession) -> None:
    left.identities[-1].unlink()


def checkpoint_gone(left: Left, spark: SparkSession) -> None:
    shutil.rmtree(left.checkpoint)


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [
        (copied_back("views"), ReplayMismatchError, "'append'.*older than its checkpoint"),
        (copied_back("views.dead_letters"), ReplayMismatchError, "'dead'.*older than"),
        (restored, ReplayMismatchError, "views was put back to an older version by the commit"),
        (gone("views"), ReplayMismatchError, "views is gone.*RESTORE.*--recreate append"),
        (gone("views.dead_letters"), ReplayMismatchError, "dead_letters is gone"),
        (gone("views.late"), ReplayMismatchError, "'late'.*is gone"),
        (replaced, ReplayMismatchError, "is another table"),
        (went_on, ReplayMismatchError, "another commit at version"),
        (changed("offsets", r'"0":1', '"0":2'), CheckpointError, r"offsets/\d was changed"),
        (changed("offsets", r'(WatermarkMs":)1', r"\g<1>2"), CheckpointError, r"offsets/\d was c"),
        (changed("commits", r'(WatermarkMs":)1', r"\g<1>2"), CheckpointError, r"commits/\d was c"),
        (removed("offsets"), CheckpointError, r"offsets/\d is missing"),
        (removed("commits"), CheckpointError, r"commits/\d is missing"),
        (changed("metadata", r'"id":"', '"id":"0'), CheckpointError, "metadata has the query 0"),
        (identity(lambda old: old[:-9]), CheckpointError, "identity-000002.json is damaged"),
        (identity(lambda old: old.replace(b"1", b"2", 1)), CheckpointError, "is damaged"),
        (identity(lambda old: b""), CheckpointError, "identity-000002.json is missing"),
        (identity(lambda old: None), CheckpointError, "identity-000002.json is missing"),
        (newest_identity_gone, CheckpointError, "identity file knows no batch after"),
        (checkpoint_gone, LostCheckpointError, "with another checkpoint"),
    ],
)
def test_what_was_changed_is_refused_by_name(
    left: Left, spark: SparkSession, damage: Damage, error: type[TidegateError], says: str
) -> None:
    damage(left, spark)
    found = refused(left, spark)
    assert type(found) is error, found
    assert re.search(says, str(found), re.DOTALL), found


def test_a_renamed_job_another_table_and_another_step_are_refused(
    left: Left, spark: SparkSession
) -> None:
    renamed = refused(left, spark, name="other")
    assert type(renamed) is CheckpointError
    assert "is of the job 'left', and this one is called 'other'" in str(renamed)
    root, checkpoint = str(left.root), str(left.checkpoint)
    beside = {"checkpoint": checkpoint, "dead": f"{root}/views.dead_letters"}
    beside["late"] = f"{root}/views.late"
    moved = refused(left, spark, sink=Append(f"{root}/views2"), **beside)
    assert type(moved) is CheckpointError
    assert "to be written to" in str(moved)
    assert "views2, where there is no table" in str(moved)
    step = refused(left, spark, sink=Append(f"{root}/views", step="pages"))
    assert "has written the steps 'append'" in str(step)


def test_a_second_checkpoint_on_the_same_tables_is_refused(
    left: Left, spark: SparkSession, tmp_path: Path
) -> None:
    found = refused(left, spark, checkpoint=str(tmp_path / "second"))
    assert type(found) is LostCheckpointError
    assert str(left.identity.query) in str(found)


@pytest.mark.parametrize(
    ("part", "others"),
    [
        ("transform", {"transform": Windowed(Tumbling("20 seconds"), aggs={"n": count()})}),
        ("transform", {"transform": Windowed(Tumbling("10 seconds"), aggs={"n": count("page")})}),
        ("transform", {"transform": Stateless(lambda rows: rows)}),
    ],
)
def test_another_stateful_query_on_an_old_checkpoint_is_refused_with_what_changed(
    left: Left, spark: SparkSession, part: str, others: dict[str, object]
) -> None:
    found = refused(left, spark, **others)
    assert type(found) is CheckpointError
    assert f"{part} was Windowed(window=Tumbling(size=0:00:10)" in str(found)


def test_lateness_the_place_of_new_columns_and_a_duration_in_other_words_may_change(
    left: Left, spark: SparkSession
) -> None:
    same = Windowed(Tumbling("10000 ms"), aggs={"n": count()})
    wider = Input(reading(left.broker.servers, left.topic, lateness="3 seconds"))
    checks = Preflight(left.job(inputs={"pages": wider}, transform=same), spark)
    checks.require()
    assert [text.split(" was ")[0] for text in checks.replanned.told] == ["pages.reading"]


def test_a_table_of_other_columns_or_another_layout_is_refused_before_a_start(
    left: Left, spark: SparkSession
) -> None:
    path = f"{left.root}/views"
    parted = refused(left, spark, sink=Append(path, layout=Layout(partition_by=["n"])))
    assert "partitioned by []" in str(parted)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN note STRING")
    drifted = refused(left, spark)
    assert isinstance(drifted, TableError)
    assert "note is missing" in str(drifted)
    both = FanOut(Append(path), also=[Append(f"{left.root}/archive", step="archive")])
    with pytest.raises(TableError, match="note is missing"):
        Preflight(left.job(sink=both), spark, recreate=["archive"]).require()


def test_a_topic_that_was_made_again_is_refused(left: Left, spark: SparkSession) -> None:
    noted = left.identity
    other = replace(noted, topics=dict.fromkeys(noted.topics, "another"))
    left.identities[-1].write_text(other.text())
    assert "deleted and made again" in str(refused(left, spark))


def test_a_topic_that_was_made_again_while_no_broker_answered_at_the_start_is_refused_all_the_same(
    left: Left, spark: SparkSession
) -> None:
    job = left.job()
    batch = Batch(
        job="left",
        query_id="q",
        run_id="r",
        number=9,
        offsets_hash="",
        start={},
        end={},
        watermark=EPOCH,
    )
    with Topics(job, streams(job, spark), spark, left.identity.topics) as topics:
        topics.require_same(batch)
        assert topics.ids == left.identity.topics
    known = {left.topic: "another"}
    with (
        Topics(job, streams(job, spark), spark, known) as topics,
        pytest.raises(SourceError, match="had the id another when it was read"),
    ):
        topics.require_same(batch)


def test_tables_are_held_against_what_was_noted_before_each_batch(
    left: Left, spark: SparkSession
) -> None:
    noted = left.identity
    paths = {step: mark.path for step, mark in noted.tables.items()}
    ledger = Ledger(EpochFiles(spark, str(left.checkpoint)), noted, paths)
    ledger.require_tables(spark)
    views = spark.read.format("delta").load(f"{left.root}/views")
    views.limit(0).write.format("delta").mode("append").save(f"{left.root}/views")
    ledger.require_tables(spark)
    restored(left, spark)
    with pytest.raises(ReplayMismatchError, match="views was put back to an older version"):
        ledger.require_tables(spark)
    restored(left, spark, noted.tables["append"].version)
    ledger.require_tables(spark)
    gone("views.dead_letters")(left, spark)
    with pytest.raises(ReplayMismatchError, match="dead_letters is gone"):
        ledger.require_tables(spark)
