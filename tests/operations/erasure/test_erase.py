"""Erasure deletes rows, files, statistics and log entries, and the jobs resume."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tests.cli.test_cli import invoke
from tests.support.erasure_scenario import (
    ANNA,
    NUMBER,
    WHERE,
    events_sink,
    paths_with_subject,
    write_batch,
    write_dead_letters,
)
from tests.support.sink_batches import batch
from tidegate import erase
from tidegate.commit.batch import LATE_REPLAY_QUERY
from tidegate.delta.table_layout import TableLayout
from tidegate.errors import ArgumentError, CheckpointError, TableMismatchError
from tidegate.jvm import checkpoint_table, delta_state
from tidegate.operations.erasure.subject import DataSubject, Identifier
from tidegate.operations.late_replay import rows_added_between
from tidegate.sinks import Append, AppendUnique, SideOutputTable
from tidegate.sinks.external.mirror import APPLIED_SCHEMA
from tidegate.sinks.external.webhook import POSTED_SCHEMA
from tidegate.sinks.kafka.kafka_sink import SENT_SCHEMA
from tidegate.sketches import BloomTable, approx_top_k

pytestmark = pytest.mark.jobs

SUBJECT = DataSubject([Identifier.parse(f"user_id={ANNA}"), Identifier.parse("customer.no=42")])


def rows(spark: SparkSession, path: Path) -> list[Row]:
    return spark.read.format("delta").load(str(path)).collect()


def rows_of_others(all_rows: list[Row]) -> list[str]:
    return sorted(str(row) for row in all_rows if row.user_id != ANNA)


def modification_times(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_no_byte_below_the_root_identifies_the_subject_and_sinks_resume(
    spark: SparkSession, tmp_path: Path
) -> None:
    root, report = tmp_path / "root", tmp_path / "report.json"
    for number in range(2):
        assert write_batch(spark, root, number) == ["written"] * 2
    write_dead_letters(spark, root)
    export = root / "export.csv"
    export.write_text(f"1,{ANNA}\n", encoding="utf-8")
    tables = {name: rows(spark, root / name) for name in ("events", "starts")}
    before = modification_times(root)

    dry_run = erase(spark, [str(root)], WHERE, dry_run=True)
    assert modification_times(root) == before
    deleted_rows = {Path(each.path).name: each.rows for each in dry_run.tables}
    assert deleted_rows == {"events": 2, "starts": 1, "letters": 5}

    command = ["erase", str(root), "--where", WHERE[0], "--where", WHERE[1], "--stopped"]
    code, output = invoke(*command, "--report", str(report))
    assert code == 12, output
    assert paths_with_subject(root) == ["export.csv"]
    assert "export.csv (bytes, 1 times): a file outside of all tables" in output
    export.unlink()
    before = modification_times(root)
    code, output = invoke(*command)
    assert code == 0, output
    assert "Nothing below these folders identifies the subject." in output
    assert modification_times(root) == before
    assert paths_with_subject(root) == []

    for name, old in tables.items():
        assert rows_of_others(rows(spark, root / name)) == rows_of_others(old)
        assert not [row for row in rows(spark, root / name) if row.user_id == ANNA]
    offsets = [row.offset for row in rows(spark, root / "letters")]
    assert sorted(offsets) == [6, 7, 8, 9]

    assert write_batch(spark, root, 1) == ["skipped"] * 2
    with pytest.raises(TableMismatchError):
        events_sink(root).write({"rows": spark.range(1)}, batch(1, "other"))
    assert write_batch(spark, root, 2) == ["written"] * 2
    assert len([row for row in rows(spark, root / "events") if row.user_id == ANNA]) == 1


@pytest.mark.parametrize(
    ("roots", "where", "message"),
    [
        (["."], [], "invalid where: none"),
        (["."], ["user_id"], "invalid --where: '"),
        (["."], ["letters:=alice"], "invalid --where: '"),
        ([], ["a=b"], "invalid roots: none"),
        (["no/such"], ["a=b"], "invalid root: .*no/such"),
        ([".", "inside"], ["a=b"], "do not contain one another"),
        ([".", "."], ["a=b"], "do not contain one another"),
    ],
)
def test_invalid_arguments_are_errors(
    spark: SparkSession, tmp_path: Path, roots: list[str], where: list[str], message: str
) -> None:
    (tmp_path / "inside").mkdir()
    with pytest.raises(ArgumentError, match=message):
        erase(spark, [str(tmp_path / root) for root in roots], where)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("anna.b-77", True),
        ('{"user": "anna.b-77"}', True),
        ("/users/anna.b-77/cart.", True),
        ("phone of anna.b-77.", True),
        ("joanna.b-77", False),
        ("anna.b-77-2", False),
        ("anna.b-77@home", False),
        ('{"no": 42}', True),
        ('{\\"minValues\\":{\\"no\\":42', True),
        ("no=42/part-0", True),
        ("(no#12 = 42)", True),
        ('{"no": 421}', False),
        ('{"no": 42.5}', False),
        ("42", False),
    ],
)
def test_text_matches_complete_words_and_short_values_after_their_column(
    text: str, matches: bool
) -> None:
    assert SUBJECT.is_in_text(text) is matches


def test_bytes_match_although_lengths_look_like_letters() -> None:
    assert SUBJECT.is_in_bytes(b"\x00\x02Hanna.b-77H\xff")
    assert not SUBJECT.is_in_bytes(b"joanna.b-77")
    assert not SUBJECT.is_in_bytes(b"\x00\x02\x54")


@pytest.mark.slow
def test_a_bloom_filter_is_rebuilt_and_query_state_is_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    users = spark.createDataFrame([(ANNA, 1), ("ben", 2)], "user_id string, n int").coalesce(1)
    keys_table = BloomTable(key="user_id", expected_items=1_000)
    filter_path = root / "seen"
    sink = AppendUnique(
        str(root / "first"),
        duplicates=str(root / "repeated"),
        filter_path=str(filter_path),
        keys_table=keys_table,
    )
    assert sink.write({"rows": users}, batch(0)) == "written"
    stream = spark.readStream.format("delta").load(str(root / "first")).groupBy("user_id").count()
    writer = stream.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    writer.start(checkpointLocation=str(root / "counted")).awaitTermination()

    report = erase(spark, [str(root)], WHERE, jobs_stopped=True)
    counts = {(Path(each.path).name, each.part): each.count for each in report.remaining}
    assert counts.pop(("counted", "state of stateStoreSave 0")) == 1
    assert all(checkpoint == "counted" for checkpoint, _ in counts)
    assert not report.is_clean
    assert not filter_path.exists()
    assert sink.write({"rows": users}, batch(1)) == "written"
    assert sorted(row.user_id for row in rows(spark, root / "first")) == [ANNA, "ben"]
    assert [row.user_id for row in rows(spark, root / "repeated")] == ["ben"]


@pytest.mark.slow
def test_sidecars_are_deleted_and_sketches_and_external_destinations_are_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    user_rows = [(ANNA, NUMBER, 77), ("ben", NUMBER + 1, 78)]
    schema = "user_id string, no bigint, part int"
    users = spark.createDataFrame(user_rows, schema).coalesce(1)
    layout = TableLayout(partition_by=["user_id"], properties={"delta.checkpointPolicy": "v2"})
    partitioned = Append(str(root / "partitioned"), layout=layout)
    for number in range(2):
        partitioned.write({"rows": users}, batch(number))
        checkpoint_table(spark, partitioned.path)
    assert [name for name in paths_with_subject(root) if "_sidecars" in name]
    sketches = [
        approx_top_k(name, 2).partial(F.lit(None)).alias(name) for name in ("user_id", "no")
    ]
    sketched = users.groupBy("part").agg(*sketches)
    Append(str(root / "busiest")).write({"rows": sketched}, batch(0))
    for name, columns, row in (
        ("sent", SENT_SCHEMA, ("orders", 0, 2)),
        ("posted", POSTED_SCHEMA, (0, 2)),
        ("applied", APPLIED_SCHEMA, ("totals", 0, 2)),
    ):
        sent_rows = spark.createDataFrame([row], columns).coalesce(1)
        sent_rows.write.format("delta").save(str(root / name))

    where = [
        f"partitioned:user_id={ANNA}",
        f"user={ANNA}",
        f"partitioned:no={NUMBER}",
        f"number={NUMBER}",
    ]
    report = erase(spark, [str(root)], where, jobs_stopped=True)
    assert {name.split("/")[0] for name in paths_with_subject(root)} <= {"busiest"}
    counts = {
        each.part: each.count
        for each in report.remaining
        if each.reason.startswith("a top-k sketch contains")
    }
    assert {each.path for each in report.remaining} == {str(root / "busiest")}
    assert (counts.pop("user_id.sketch"), counts.pop("no.sketch")) == (1, 1)
    assert [(each.destination_type, each.name) for each in report.external_destinations] == [
        ("store", "totals"),
        ("webhook", "the address of the job"),
        ("topic", "orders"),
    ]
    assert f"topic orders, recorded in {root / 'sent'}" in report.format_text()
    assert partitioned.write({"rows": users}, batch(1)) == "skipped"
    assert partitioned.write({"rows": users}, batch(2)) == "written"


@pytest.mark.slow
def test_merged_late_rows_are_not_merged_again_after_an_erasure(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    late, windows = (
        SideOutputTable(str(root / "late"), output="late"),
        Append(str(root / "windows")),
    )

    def add_late_rows(*users: tuple[int, str], number: int) -> int:
        schema = "topic string, partition int, offset bigint, user_id string"
        late_rows = [("t", 0, offset, user) for offset, user in users]
        late.write(spark.createDataFrame(late_rows, schema), batch(number))
        return delta_state(spark, late.path).version

    def replay_late_rows(version: int) -> None:
        replay_batch = batch(version, query_id=LATE_REPLAY_QUERY)
        windows.write({"rows": spark.range(1)}, replay_batch)

    replay_late_rows(add_late_rows((0, ANNA), (1, "ben"), number=0))
    merged = add_late_rows((2, "carl"), number=1)
    with pytest.raises(CheckpointError, match="not merged yet"):
        erase(spark, [str(root)], WHERE, jobs_stopped=True)
    assert len(rows(spark, root / "late")) == 3
    replay_late_rows(merged)
    assert erase(spark, [str(root)], WHERE, jobs_stopped=True).is_clean
    newest = add_late_rows((3, "dora"), number=2)
    assert [
        row.user_id for row in rows_added_between(spark, late.path, merged, newest).collect()
    ] == ["dora"]
    with pytest.raises(AnalysisException):
        rows_added_between(spark, late.path, merged - 1, newest).collect()
