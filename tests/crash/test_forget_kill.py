"""Forgetting a person that dies is finished by the next call, and the job goes on with its log."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.commit.epochs import EpochFiles
from tidegate.errors import CheckpointError, ReplayMismatchError
from tidegate.formats import json_format
from tidegate.jvm import forget_tables
from tidegate.runtime import Input, Job, Limits, run
from tidegate.runtime.forgetting import forget, purge
from tidegate.runtime.forgetting.places import Root
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading
from tidegate.testing import Broker, CrashError

from ..command.test_command import called
from ..runtime.forgetting.world import holding
from ..sources.raw import produce
from ..tables import rows

ANNA = "anna.b-77"
AT = '"event_time": "2026-01-02T03:04:05Z"'
WHERE = [f"user_id={ANNA}"]


def views(broker: Broker, topic: str, root: Path) -> Job:
    form = json_format("user_id string, event_time timestamp")
    source = KafkaSource(broker.servers, topic)
    reading = Reading(source, form, time="event_time", lateness="1 minute", future_tolerance=None)
    limits = Limits(dead_ratio=None)
    sink = Append(str(root / "views"))
    return Job(name="views", inputs={"clicks": Input(reading)}, sink=sink, limits=limits)


def sent(broker: Broker, topic: str, *users: str) -> None:
    produce(broker.servers, topic, [f'{{"user_id": "{user}", {AT}}}'.encode() for user in users])


def left(root: Path) -> list[str]:
    return sorted(row["user_id"] for row in rows(root / "views"))


def dying(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, nth: int) -> None:
    """Let the nth call of a function be done, and the process die after it."""
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
def test_what_was_killed_is_finished_and_the_job_goes_on(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    root, job = tmp_path / "root", views(broker, topic, tmp_path / "root")
    sent(broker, topic, ANNA, "ben")
    produce(broker.servers, topic, [f"#{ANNA}".encode(), b"#carl"])
    run(job, spark)
    copy = shutil.copytree(root / "views", tmp_path / "copy")

    files = EpochFiles(spark, job.places.checkpoint)
    ended = files.read()
    assert ended is not None
    files.write(replace(ended, ended=False))
    with pytest.raises(CheckpointError, match="has not ended"):
        forget(spark, [str(root)], WHERE)
    files.write(ended)
    with pytest.raises(CheckpointError, match="not below the roots"):
        forget(spark, [str(root / "views")], WHERE)
    assert left(root) == [ANNA, "ben"]

    deaths = [(purge, "_begin", 1), (purge, "checkpoint_table", 1), (Root, "delete", 2)]
    for owner, name, nth in deaths:
        with monkeypatch.context() as patch:
            dying(patch, owner, name, nth)
            with pytest.raises(CrashError):
                forget(spark, [str(root)], WHERE)
    done = forget(spark, [str(root)], WHERE)
    assert done.clean
    assert holding(root) == []
    assert left(root) == ["ben"]
    kept = [row["value"] for row in rows(Path(job.places.dead.path))]
    assert kept == [b"#carl"]
    state = spark.sql(f"SHOW TBLPROPERTIES delta.`{root / 'views'}`").collect()
    assert not [row for row in state if "forgetting" in row.key or "Retention" in row.key]

    sent(broker, topic, "dora")
    run(job, spark)
    assert left(root) == ["ben", "dora"]
    code, said = called("status", str(root), "--json")
    assert code == 0
    told = {Path(row["path"]).name: row["last_batch"] for row in json.loads(said)["tables"]}
    assert told == {"views": 1, "views.dead_letters": 0}

    shutil.rmtree(root / "views")
    shutil.copytree(copy, root / "views")
    forget_tables(spark)
    with pytest.raises(ReplayMismatchError):
        run(job, spark)
