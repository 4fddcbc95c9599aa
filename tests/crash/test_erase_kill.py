"""An erasure that is killed is finished by the next call, and the job continues."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.test_cli import invoke
from tests.support.delta_tables import rows
from tests.support.erasure_scenario import paths_with_subject
from tests.support.killed_steps import Step, kill_at
from tests.support.raw_records import produce
from tidegate import Input, Job, Limits, erase, run
from tidegate.checkpoint.lineage_files import LineageFiles
from tidegate.errors import CheckpointError, TableMismatchError
from tidegate.formats import json_format
from tidegate.jvm import clear_table_cache
from tidegate.operations.erasure import purge
from tidegate.operations.erasure.inventory import Root
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.testing import Broker, CrashError

ANNA = "anna.b-77"
AT = '"event_time": "2026-01-02T03:04:05Z"'
WHERE = [f"user_id={ANNA}"]
STEPS = (
    Step("tidegate.operations.offline_lease:OfflineLease.acquire"),
    Step("tidegate.operations.erasure.erase:delete_subject_rows"),
    Step("tidegate.operations.erasure.purge:_start_purge"),
    Step("tidegate.operations.erasure.purge:_rewrite_stamps"),
    Step("tidegate.operations.erasure.purge:checkpoint_table"),
    Step("tidegate.operations.erasure.purge:_finish_purge"),
    Step("tidegate.operations.erasure.inventory:Root.delete", 3),
    Step("tidegate.operations.erasure.erase:purge_table", 2),
)


def views(broker: Broker, topic: str, root: Path) -> Job:
    value_format = json_format("user_id string, event_time timestamp")
    source = KafkaSource(broker.bootstrap_servers, topic)
    clicks = Input(
        source, value_format, time="event_time", watermark_delay="1 minute", future_tolerance=None
    )
    limits = Limits(dead_ratio=None)
    sink = Append(str(root / "views"))
    return Job(name="views", inputs={"clicks": clicks}, sink=sink, limits=limits)


def sent(broker: Broker, topic: str, *users: str) -> None:
    produce(
        broker.bootstrap_servers,
        topic,
        [f'{{"user_id": "{user}", {AT}}}'.encode() for user in users],
    )


def left(root: Path) -> list[str]:
    return sorted(row["user_id"] for row in rows(root / "views"))


def dying(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, nth: int) -> None:
    """Raise a crash after the nth call of a function."""
    whole = getattr(owner, name)

    def last(*given: object, **named: object) -> object:
        nonlocal nth
        done = whole(*given, **named)
        nth -= 1
        if nth == 0:
            raise CrashError(name)
        return done

    monkeypatch.setattr(owner, name, last)


@pytest.mark.crash
@pytest.mark.broker
def test_a_killed_erasure_is_finished_and_the_job_resumes(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    root, job = tmp_path / "root", views(broker, topic, tmp_path / "root")
    sent(broker, topic, ANNA, "ben")
    produce(broker.bootstrap_servers, topic, [f"#{ANNA}".encode(), b"#carl"])
    run(job, spark)
    copy = shutil.copytree(root / "views", tmp_path / "copy")

    files = LineageFiles(spark, job.locations.checkpoint)
    ended = files.read()
    assert ended is not None
    files.write(replace(ended, released=False))
    with pytest.raises(CheckpointError, match="has not ended"):
        erase(spark, [str(root)], WHERE)
    files.write(ended)
    with pytest.raises(CheckpointError, match="not below the roots"):
        erase(spark, [str(root / "views")], WHERE)
    assert left(root) == [ANNA, "ben"]

    deaths = [(purge, "_start_purge", 1), (purge, "checkpoint_table", 1), (Root, "delete", 2)]
    for owner, name, nth in deaths:
        with monkeypatch.context() as patch:
            dying(patch, owner, name, nth)
            with pytest.raises(CrashError):
                erase(spark, [str(root)], WHERE)
        if name == "checkpoint_table":
            with pytest.raises(TableMismatchError, match="by another driver") as refused:
                run(job, spark)
            assert "tidegate erase was killed" in refused.value.detail
            assert "run tidegate erase again" in refused.value.remedy
    done = erase(spark, [str(root)], WHERE)
    assert done.is_clean
    assert paths_with_subject(root) == []
    assert left(root) == ["ben"]
    values = [row["value"] for row in rows(Path(job.locations.dead_letters.path))]
    assert values == [b"#carl"]
    state = spark.sql(f"SHOW TBLPROPERTIES delta.`{root / 'views'}`").collect()
    assert not [row for row in state if "erasure.retention" in row.key or "Retention" in row.key]

    sent(broker, topic, "dora")
    run(job, spark)
    assert left(root) == ["ben", "dora"]
    code, output = invoke("status", str(root), "--json")
    assert code == 0
    last_batches = {
        Path(row["path"]).name: row["last_batch"] for row in json.loads(output)["tables"]
    }
    assert last_batches == {"views": 1, "views.dead_letters": 0}

    shutil.rmtree(root / "views")
    shutil.copytree(copy, root / "views")
    clear_table_cache(spark)
    with pytest.raises(TableMismatchError):
        run(job, spark)


@pytest.mark.crash
@pytest.mark.broker
@pytest.mark.timeout(900)
@pytest.mark.draws(
    "steps", short=[STEPS[3:4]], long=[STEPS], ids=lambda steps: f"{len(steps)} kills"
)
def test_an_erasure_is_finished_after_a_kill_at_each_step_though_its_job_runs_in_between(
    steps: tuple[Step, ...], spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    root, job = tmp_path / "root", views(broker, topic, tmp_path / "root")
    sent(broker, topic, ANNA, "ben")
    produce(broker.bootstrap_servers, topic, [f"#{ANNA}".encode(), b"#carl"])
    run(job, spark)
    command = ("erase", str(root), "--where", WHERE[0])
    users = ["ben"]
    for number, step in enumerate(steps):
        kill_at(step, *command, log=tmp_path / "log")
        clear_table_cache(spark)
        # The job may start between two calls; otherwise its error names the command to run again.
        sent(broker, topic, f"user{number}", ANNA)
        users.append(f"user{number}")
        refusal = None
        try:
            run(job, spark)
        except TableMismatchError as error:
            refusal = error
        assert refusal is None or "run tidegate erase again" in refusal.remedy, step
    code, output = invoke(*command)
    assert code == 0, output
    clear_table_cache(spark)
    run(job, spark)
    # Records of the subject that the job has read after the last erasure are rows again.
    assert [user for user in left(root) if user != ANNA] == sorted(users)
    code, output = invoke(*command)
    assert code == 0, output
    assert paths_with_subject(root) == []
    assert left(root) == sorted(users)
    sent(broker, topic, "dora")
    run(job, spark)
    assert left(root) == sorted([*users, "dora"])
