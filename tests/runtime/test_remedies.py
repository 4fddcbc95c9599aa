"""Each way on that a refusal names leads on: the tables then hold each record once."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.commit.epochs import EpochFiles
from tidegate.commit.identity import Identity
from tidegate.commit.ledger import Ledger
from tidegate.commit.stamp import app_id
from tidegate.errors import (
    ArgumentError,
    CheckpointError,
    FencedError,
    LostCheckpointError,
    ReplayMismatchError,
    TableError,
    TidegateError,
)
from tidegate.formats import json_format
from tidegate.runtime.doctor import examine
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.preflight import Preflight
from tidegate.runtime.query.run import run
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading
from tidegate.testing import Broker
from tidegate.testing.crash import crash_after

from ..tables import rows
from .left import WINDOWS, Left
from .topics import reading, sent

pytestmark = pytest.mark.broker


def require_whole(left: Left) -> None:
    assert left.views() == WINDOWS
    assert left.aside("dead_letters") == Counter([(0, 2), (0, 10), (0, 17)])
    assert left.aside("late") == Counter([(0, 8), (0, 16)])


def test_a_table_put_back_is_put_forward_again_and_a_folder_may_move(
    left: Left, spark: SparkSession
) -> None:
    table = f"{left.root}/views"
    noted = left.identity.tables["append"].version
    for version in (0, noted):
        spark.sql(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF {version}")
    shutil.move(left.root / "views.late", left.root / "stragglers")
    run(left.job(late=f"{left.root}/stragglers"), spark)
    shutil.move(left.root / "stragglers", left.root / "views.late")
    require_whole(left)


def test_tables_that_are_gone_begin_anew_when_that_is_asked_for(
    left: Left, spark: SparkSession
) -> None:
    shutil.rmtree(left.root / "views")
    shutil.rmtree(left.root / "views.dead_letters")
    with pytest.raises(ReplayMismatchError, match="--recreate append"):
        run(left.job(), spark, recreate=["dead"])
    with pytest.raises(ArgumentError, match=r"recreate names 'late', whose table is there"):
        run(left.job(), spark, recreate=["late"])
    run(left.job(), spark, recreate=["all"])
    assert left.views() == {70: 1, 80: 1, 90: 1}
    assert left.aside("dead_letters") == Counter([(0, 17)])
    assert left.aside("late") == Counter([(0, 8), (0, 16)])


def test_windows_go_on_after_a_lost_checkpoint_without_those_whose_state_is_lost(
    left: Left, spark: SparkSession
) -> None:
    shutil.rmtree(left.checkpoint)
    with pytest.raises(LostCheckpointError, match="--resume-from-table"):
        run(left.job(), spark)
    run(left.job(), spark, resume_from_table=True)
    assert left.views() == {start: n for start, n in WINDOWS.items() if start != 70}
    run(left.job(), spark)
    assert left.views() == {start: n for start, n in WINDOWS.items() if start != 70}
    assert left.aside("dead_letters") == Counter([(0, 2), (0, 10), (0, 17)])


def test_a_checkpoint_of_before_there_were_identity_files_is_adopted_and_goes_on(
    left: Left, spark: SparkSession
) -> None:
    shutil.rmtree(left.checkpoint / "tidegate")
    own = r',\\"(epoch|latest)\\":\d+|,\\"plan\\":\\"[0-9a-f]+\\"'
    for commit in left.root.glob("views*/_delta_log/*.json"):
        commit.write_text(re.sub(own, "", commit.read_text()))
        (commit.parent / f".{commit.name}.crc").unlink(missing_ok=True)
    with pytest.raises(CheckpointError, match="is of the job 'left'"):
        Preflight(left.job(name="other"), spark).require()
    run(left.job(), spark)
    require_whole(left)
    assert left.identity.job == "left"


@dataclass(frozen=True)
class Numbers:
    """A job that keeps no state, over a topic of numbers of which not all fit an INT."""

    broker: Broker
    topic: str
    root: Path

    def job(
        self,
        kind: str = "INT",
        each_batch: Callable[[DataFrame], DataFrame] | None = None,
        max_rows: int | None = None,
    ) -> Job:
        schema = f"n {kind}, event_time TIMESTAMP"
        source = KafkaSource(self.broker.servers, self.topic, max_rows=max_rows)
        read = Reading(source, json_format(schema), time="event_time", lateness="0 seconds")
        return Job(
            name="numbers",
            inputs={"numbers": Input(read)},
            each_batch=each_batch or (lambda rows: rows.selectExpr("cast(n AS DOUBLE) AS n")),
            sink=Append(f"{self.root}/numbers"),
        )

    def send(self, *numbers: float) -> None:
        time = "2026-03-02T09:00:00Z"
        values = [f'{{"n": {number}, "event_time": "{time}"}}' for number in numbers]
        sent(self.broker.servers, self.topic, values)

    def found(self) -> list[float]:
        return sorted(row["n"] for row in rows(self.root / "numbers"))

    def dead(self) -> list[int]:
        return sorted(row["offset"] for row in rows(self.root / "numbers.dead_letters"))

    @property
    def newest(self) -> Path:
        return max(self.root.glob("numbers.checkpoint/tidegate/identity-*.json"))

    @property
    def identity(self) -> Identity:
        return Identity.parse(self.newest.read_bytes(), str(self.newest))

    @property
    def dead_letters(self) -> str:
        return f"{self.root}/numbers.dead_letters"


@pytest.fixture
def numbers(broker: Broker, topic: str, tmp_path: Path) -> Numbers:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    made = Numbers(broker, topic, tmp_path)
    made.send(1, 2.5, 3)
    return made


def test_a_batch_that_was_begun_is_finished_as_it_was_begun_and_then_the_schema_may_change(
    numbers: Numbers, spark: SparkSession
) -> None:
    with crash_after(numbers.dead_letters), pytest.raises(TidegateError, match="after batch"):
        run(numbers.job(), spark)
    with pytest.raises(ReplayMismatchError, match=r"is in dead already.*numbers.format was") as no:
        run(numbers.job("DOUBLE"), spark)
    assert "finish the batch with the configuration that began it" in str(no.value)
    run(numbers.job(), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0], [1])
    numbers.send(4.5)
    run(numbers.job("DOUBLE"), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0, 4.5], [1])


def test_a_schema_that_does_not_fit_the_target_is_refused_and_new_columns_are_let_in(
    numbers: Numbers, spark: SparkSession
) -> None:
    def job(kind: str, *, evolve: bool = False) -> Job:
        sink = Append(f"{numbers.root}/numbers", evolve=evolve)
        return replace(numbers.job(kind), each_batch=None, sink=sink)

    run(job("INT"), spark)
    claimed = numbers.identity
    for kind, found in {"DOUBLE": "n was int and is double", "INT, m INT": "m is new"}.items():
        with pytest.raises(TableError, match=found) as no:
            run(job(kind), spark)
        assert "evolve=True where columns were only added" in no.value.hint
    assert numbers.identity == claimed
    numbers.send(4)
    run(job("INT, m INT", evolve=True), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0, 4.0], [1])


def test_late_rows_of_fewer_columns_are_refused_before_the_first_one_and_their_table_begins_anew(
    left: Left, spark: SparkSession
) -> None:
    given = reading(left.broker.servers, left.topic)
    fewer = Input(replace(given, format=json_format("event_time TIMESTAMP")))
    with pytest.raises(TableError, match=r"views\.late: page is missing") as no:
        run(left.job(inputs={"pages": fewer}), spark)
    assert "--recreate late" in no.value.hint
    shutil.move(left.root / "views.late", left.root / "away")
    run(left.job(inputs={"pages": fewer}), spark, recreate=["late"])
    assert left.views() == WINDOWS
    assert left.aside("late") == Counter([(0, 16)])


def test_a_lost_checkpoint_goes_on_at_the_last_commit_though_it_crashes_once_more(
    numbers: Numbers, spark: SparkSession
) -> None:
    run(numbers.job(), spark)
    numbers.send(4, 5.5, 6)
    with crash_after(numbers.dead_letters), pytest.raises(TidegateError, match="after batch"):
        run(numbers.job(), spark)
    assert numbers.dead() == [1, 4]
    shutil.rmtree(f"{numbers.root}/numbers.checkpoint")
    with crash_after(numbers.dead_letters), pytest.raises(TidegateError, match="after batch"):
        run(numbers.job(), spark, resume_from_table=True)
    run(numbers.job(), spark)
    numbers.send(7)
    run(numbers.job(), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0, 4.0, 6.0, 7.0], [1, 4])


def test_a_table_deleted_while_the_job_runs_is_never_made_again(
    numbers: Numbers, spark: SparkSession
) -> None:
    table = numbers.root / "numbers"

    def deleting(batch: DataFrame) -> DataFrame:
        if table.exists():
            shutil.rmtree(table)
        return batch.selectExpr("cast(n AS DOUBLE) AS n")

    with pytest.raises(ReplayMismatchError, match=r"'append'.*numbers is gone"):
        run(numbers.job(each_batch=deleting, max_rows=1), spark)
    assert not (table / "_delta_log").exists()
    with pytest.raises(ReplayMismatchError, match=r"'append'.*numbers is gone"):
        run(numbers.job(), spark)


def test_a_driver_writes_no_more_once_another_has_claimed_its_checkpoint(
    numbers: Numbers, spark: SparkSession
) -> None:
    checkpoint = f"{numbers.root}/numbers.checkpoint"

    def taken_over(batch: DataFrame) -> DataFrame:
        files = EpochFiles(batch.sparkSession, checkpoint)
        noted = files.read()
        if noted is not None and noted.epoch == 1:
            Ledger.claimed(files, noted, {})
        return batch.selectExpr("cast(n AS DOUBLE) AS n")

    with pytest.raises(FencedError, match=r"is in epoch 2.* has epoch 1"):
        run(numbers.job(each_batch=taken_over), spark)
    assert rows(numbers.root / "numbers") == []
    run(numbers.job(each_batch=taken_over), spark)
    assert (numbers.found(), numbers.dead()) == ([1.0, 3.0], [1])
    assert len(list(Path(checkpoint, "tidegate").glob("identity-*.json"))) == 3


def test_what_was_put_back_as_it_was_is_gone_on_with(
    left: Left, spark: SparkSession, tmp_path: Path
) -> None:
    """One run for all of them, since each refusal has written nothing."""
    copy = tmp_path / "checkpoint"
    shutil.copytree(left.checkpoint, copy)

    def refused(kind: type[TidegateError], remedy: str, **others: object) -> None:
        with pytest.raises(kind) as no:
            run(left.job(**others), spark)
        assert remedy in no.value.hint

    shutil.rmtree(left.checkpoint)
    refused(LostCheckpointError, "restore that checkpoint")
    shutil.copytree(copy, left.checkpoint)
    max((left.checkpoint / "commits").glob("[0-9]*")).unlink()
    refused(CheckpointError, "restore the checkpoint as a whole from a copy")
    shutil.rmtree(left.checkpoint)
    shutil.copytree(copy, left.checkpoint)
    refused(CheckpointError, "name='left'", name="other")
    table = f"delta.`{left.root}/views`"
    kept = "delta.setTransactionRetentionDuration"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{kept}' = 'interval 1 day')")
    refused(TableError, f"UNSET TBLPROPERTIES ('{kept}')")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{kept}')")
    run(left.job(), spark)
    require_whole(left)


def test_a_check_sum_that_a_killed_run_has_left_is_told_from_a_second_query_and_deleted(
    left: Left, spark: SparkSession
) -> None:
    log = left.checkpoint / "offsets"
    number = max(int(file.name) for file in log.iterdir() if file.name.isdecimal()) + 1
    orphan = log / f".{number}.crc"
    orphan.write_bytes(b"crc\x00\x00\x00\x02\x00")
    (told,) = [each for each in examine(left.job(), spark) if each.check == "check sums"]
    assert f"no second query: {orphan}" in told.found
    orphan.unlink()
    run(left.job(), spark)
    require_whole(left)


def test_a_table_that_a_sleeping_driver_has_made_is_refused_and_moved_away(
    numbers: Numbers, spark: SparkSession
) -> None:
    """It slept in the commit that makes the table, where there is nothing yet to be fenced."""
    dead = Path(numbers.dead_letters)

    def awoken(batch: DataFrame) -> DataFrame:
        noted = numbers.identity
        if noted.batch == 0 and not dead.exists():
            of_before = batch.select("n").write.format("delta").option("txnVersion", "0")
            app = app_id("numbers", noted.query or "", "dead")
            of_before.option("txnAppId", app).option("userMetadata", "{}").save(str(dead))
        return batch.select("n")

    run(numbers.job("DOUBLE"), spark)
    # Its driver has not said that it ended.
    numbers.newest.write_text(replace(numbers.identity, ended=False).text())
    numbers.send(4, 5)
    says = "dead_letters has batch 0, which was finished without this table"
    with pytest.raises(ReplayMismatchError, match=says):
        run(numbers.job("DOUBLE", awoken, max_rows=1), spark)
    with pytest.raises(ReplayMismatchError, match=says) as no:
        run(numbers.job("DOUBLE"), spark)
    assert "move the table's folder away" in no.value.hint
    shutil.move(dead, numbers.root / "away")
    run(numbers.job("DOUBLE"), spark)
    assert (numbers.found(), dead.exists()) == ([1.0, 2.5, 3.0, 4.0, 5.0], False)
