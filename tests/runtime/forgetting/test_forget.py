"""A person's rows, files, statistics and log entries are gone, and the jobs go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tidegate.commit.kept import REPLAY
from tidegate.errors import ArgumentError, CheckpointError, ReplayMismatchError
from tidegate.jvm import checkpoint_table, delta_state
from tidegate.runtime.forgetting import forget
from tidegate.runtime.forgetting.person import Identifier, Person
from tidegate.runtime.query.late_rows import gained
from tidegate.sinks import Append, FirstSeen, Layout, SideTable
from tidegate.sinks.mirror import APPLIED
from tidegate.sinks.publish import SENT
from tidegate.sinks.webhook import TOLD
from tidegate.sketches import BloomTable, top

from ...command.test_command import called
from ...sinks.batches import batch
from .world import ANNA, NUMBER, WHERE, events, holding, letters, write

pytestmark = pytest.mark.jobs

PERSON = Person([Identifier.parse(f"user_id={ANNA}"), Identifier.parse("customer.no=42")])


def rows(spark: SparkSession, path: Path) -> list[Row]:
    return spark.read.format("delta").load(str(path)).collect()


def without_anna(found: list[Row]) -> list[str]:
    return sorted(str(row) for row in found if row.user_id != ANNA)


def stat(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_no_byte_below_the_root_tells_of_a_forgotten_person_and_sinks_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    root, report = tmp_path / "root", tmp_path / "report.json"
    for number in range(2):
        assert write(spark, root, number) == ["written"] * 2
    letters(spark, root)
    export = root / "export.csv"
    export.write_text(f"1,{ANNA}\n", encoding="utf-8")
    tables = {name: rows(spark, root / name) for name in ("events", "starts")}
    before = stat(root)

    told = forget(spark, [str(root)], WHERE, dry_run=True)
    assert stat(root) == before
    found = {Path(each.path).name: each.rows for each in told.tables}
    assert found == {"events": 2, "starts": 1, "letters": 5}

    command = ["forget", str(root), "--where", WHERE[0], "--where", WHERE[1], "--stopped"]
    code, said = called(*command, "--report", str(report))
    assert code == 12, said
    assert holding(root) == ["export.csv"]
    assert "export.csv (bytes, 1 times): a file of no table" in said
    export.unlink()
    before = stat(root)
    code, said = called(*command)
    assert (code, "Nothing below these folders tells of the person." in said) == (0, True), said
    assert stat(root) == before
    assert holding(root) == []

    for name, old in tables.items():
        assert without_anna(rows(spark, root / name)) == without_anna(old)
        assert not [row for row in rows(spark, root / name) if row.user_id == ANNA]
    kept = [row.offset for row in rows(spark, root / "letters")]
    assert sorted(kept) == [6, 7, 8, 9]

    assert write(spark, root, 1) == ["skipped"] * 2
    with pytest.raises(ReplayMismatchError):
        events(root).write({"rows": spark.range(1)}, batch(1, "other"))
    assert write(spark, root, 2) == ["written"] * 2
    assert len([row for row in rows(spark, root / "events") if row.user_id == ANNA]) == 1


@pytest.mark.parametrize(
    ("roots", "where", "says"),
    [
        (["."], [], "nothing says whom to forget"),
        (["."], ["user_id"], "names no column and value"),
        (["."], ["letters:=alice"], "names no column and value"),
        ([], ["a=b"], "there is no folder to look in"),
        (["no/such"], ["a=b"], "there is no folder"),
        ([".", "inside"], ["a=b"], "hold one another"),
        ([".", "."], ["a=b"], "hold one another"),
    ],
)
def test_a_wrong_call_is_told(
    spark: SparkSession, tmp_path: Path, roots: list[str], where: list[str], says: str
) -> None:
    (tmp_path / "inside").mkdir()
    with pytest.raises(ArgumentError, match=says):
        forget(spark, [str(tmp_path / root) for root in roots], where)


@pytest.mark.parametrize(
    ("text", "tells"),
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
def test_text_tells_of_a_person_by_whole_words_and_short_ones_by_their_column(
    text: str, tells: bool
) -> None:
    assert PERSON.in_text(text) is tells


def test_bytes_tell_of_a_person_where_lengths_look_like_letters() -> None:
    assert PERSON.in_bytes(b"\x00\x02Hanna.b-77H\xff")
    assert not PERSON.in_bytes(b"joanna.b-77")
    assert not PERSON.in_bytes(b"\x00\x02\x54")


@pytest.mark.slow
def test_a_filter_is_made_anew_and_a_query_s_state_is_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    users = spark.createDataFrame([(ANNA, 1), ("ben", 2)], "user_id string, n int").coalesce(1)
    known = BloomTable(key="user_id", keys=1_000)
    seen = root / "seen"
    sink = FirstSeen(
        str(root / "first"), repeated=str(root / "repeated"), seen=str(seen), known=known
    )
    assert sink.write({"rows": users}, batch(0)) == "written"
    stream = spark.readStream.format("delta").load(str(root / "first")).groupBy("user_id").count()
    counted = stream.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    counted.start(checkpointLocation=str(root / "counted")).awaitTermination()

    told = forget(spark, [str(root)], WHERE, stopped=True)
    kinds = {(Path(each.path).name, each.where): each.count for each in told.left}
    assert kinds.pop(("counted", "state of stateStoreSave 0")) == 1
    assert all(place == "counted" for place, _ in kinds)
    assert not told.clean
    assert not seen.exists()
    assert sink.write({"rows": users}, batch(1)) == "written"
    assert sorted(row.user_id for row in rows(spark, root / "first")) == [ANNA, "ben"]
    assert [row.user_id for row in rows(spark, root / "repeated")] == ["ben"]


@pytest.mark.slow
def test_sidecars_go_and_frequent_values_and_places_outside_are_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    given = [(ANNA, NUMBER, 77), ("ben", NUMBER + 1, 78)]
    shape = "user_id string, no bigint, part int"
    users = spark.createDataFrame(given, shape).coalesce(1)
    layout = Layout(partition_by=["user_id"], properties={"delta.checkpointPolicy": "v2"})
    parted = Append(str(root / "parted"), layout=layout)
    for number in range(2):
        parted.write({"rows": users}, batch(number))
        checkpoint_table(spark, parted.path)
    assert [name for name in holding(root) if "_sidecars" in name]
    kept = [top(name, 2).partial(F.lit(None)).alias(name) for name in ("user_id", "no")]
    sketched = users.groupBy("part").agg(*kept)
    Append(str(root / "busiest")).write({"rows": sketched}, batch(0))
    for name, columns, row in (
        ("sent", SENT, ("orders", 0, 2)),
        ("told", TOLD, (0, 2)),
        ("applied", APPLIED, ("totals", 0, 2)),
    ):
        noted = spark.createDataFrame([row], columns).coalesce(1)
        noted.write.format("delta").save(str(root / name))

    where = [f"parted:user_id={ANNA}", f"user={ANNA}", f"parted:no={NUMBER}", f"number={NUMBER}"]
    told = forget(spark, [str(root)], where, stopped=True)
    assert {name.split("/")[0] for name in holding(root)} <= {"busiest"}
    found = {each.where: each.count for each in told.left if each.why.startswith("a sketch of the")}
    assert {each.path for each in told.left} == {str(root / "busiest")}
    assert (found.pop("user_id.sketch"), found.pop("no.sketch")) == (1, 1)
    assert [(each.kind, each.name) for each in told.outside] == [
        ("store", "totals"),
        ("topic", "orders"),
        ("webhook", "the address of the job"),
    ]
    assert f"topic orders, as {root / 'sent'} notes" in told.text()
    assert parted.write({"rows": users}, batch(1)) == "skipped"
    assert parted.write({"rows": users}, batch(2)) == "written"


@pytest.mark.slow
def test_late_rows_that_are_merged_are_not_merged_again_after_one_was_forgotten(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    late, windows = SideTable(str(root / "late"), step="late"), Append(str(root / "windows"))

    def add(*users: tuple[int, str], number: int) -> int:
        shape = "topic string, partition int, offset bigint, user_id string"
        given = [("t", 0, offset, user) for offset, user in users]
        late.write(spark.createDataFrame(given, shape), batch(number))
        return delta_state(spark, late.path).version

    def replayed(version: int) -> None:
        at = replace(batch(version), query_id=REPLAY)
        windows.write({"rows": spark.range(1)}, at)

    replayed(add((0, ANNA), (1, "ben"), number=0))
    done = add((2, "carl"), number=1)
    with pytest.raises(CheckpointError, match="not merged yet"):
        forget(spark, [str(root)], WHERE, stopped=True)
    assert len(rows(spark, root / "late")) == 3
    replayed(done)
    assert forget(spark, [str(root)], WHERE, stopped=True).clean
    newest = add((3, "dora"), number=2)
    assert [row.user_id for row in gained(spark, late.path, done, newest).collect()] == ["dora"]
    with pytest.raises(AnalysisException):
        gained(spark, late.path, done - 1, newest).collect()
