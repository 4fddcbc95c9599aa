"""A job is replayed beside itself, compared, switched, and goes on; and back."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.aggregates import count
from tidegate.errors import ArgumentError, CheckpointError, DifferenceError
from tidegate.runtime.cli import replayed, switched
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.run import run
from tidegate.runtime.replaying.beside import beside
from tidegate.runtime.replaying.replay import replay
from tidegate.runtime.replaying.switch import switch
from tidegate.sinks import Append, FanOut, Mapped
from tidegate.testing import Broker
from tidegate.windows import Tumbling, Windowed

from ..left import THIRD, WINDOWS, Left
from ..topics import reading, sent

pytestmark = pytest.mark.jobs

CHANGED = Windowed(Tumbling("10 seconds"), aggs={"n": count(), "pages": count()})


@pytest.mark.broker
def test_a_changed_job_is_replayed_compared_switched_and_goes_on(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = Left.made(spark, broker, topic, tmp_path)
    before = left.views()
    new = left.job(transform=CHANGED)
    sent(broker.servers, topic, THIRD)
    # The topic has more by now than the job has read: the replay ends where the job is.
    with pytest.raises(DifferenceError, match="1 differ"):
        replayed(new, spark, (), as_json=False)
    said = capsys.readouterr().out
    assert "Late in the job alone: 1 rows; late in the replay alone: 0." in said
    assert "All differences are in windows of these rows." in said
    assert "Not compared, since one table alone has it: pages" in said
    assert left.views() == before
    # The job goes on meanwhile, and what is compared stays what it was.
    run(left.job(), spark)
    assert left.views() == WINDOWS
    with pytest.raises(DifferenceError):
        replayed(new, spark, (), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["found"]["rows"], told["found"]["different"]) == (6, 1)
    assert (told["late"], told["unexplained"]["different"]) == ([1, 0], 0)
    with pytest.raises(CheckpointError, match="begun with another plan: transform was"):
        replay(left.job(), spark)
    switched(new, spark, back=False)
    run(new, spark)
    # Every record once: those that were replayed, and those after the end of the replay.
    assert left.views() == {**WINDOWS, 0: 3}
    assert left.aside("late") == {(0, 16): 1}
    assert sorted(at for _, at in left.aside("dead_letters").elements()) == [2, 10, 17]
    with pytest.raises(CheckpointError, match="in the way"):
        switch(new, spark)
    switched(new, spark, back=True)
    assert left.views() == WINDOWS
    run(left.job(), spark)
    assert left.views() == WINDOWS
    with pytest.raises(CheckpointError, match="the replay ends at"):
        replay(new, spark)


def a_job(**others: object) -> Job:
    parts: dict[str, object] = {
        "name": "beside",
        "inputs": {"pages": Input(reading("nowhere:9092", "pages"))},
        "sink": Append("/nowhere/rows"),
    }
    return Job(**{**parts, **others})  # type: ignore[arg-type]


def seen(rows: DataFrame, path: str) -> DataFrame:
    return rows if path else rows.limit(0)


@pytest.mark.usefixtures("spark")
def test_every_path_of_a_job_is_put_beside() -> None:
    sink = FanOut(
        Mapped(rows=partial(seen, path="/nowhere/b"), sink=Append("/nowhere/a/")),
        also=[Append("/nowhere/b", step="b")],
    )
    new = beside(a_job(sink=sink, checkpoint="/nowhere/a/_checkpoint", metrics_port=9))
    assert new.sink.tables() == [("/nowhere/b.replay", "b"), ("/nowhere/a.replay", "append")]
    assert new.places.checkpoint == "/nowhere/a.replay/_checkpoint"
    assert new.places.dead.path == "/nowhere/a.dead_letters.replay"
    assert new.metrics_port is None


@pytest.mark.usefixtures("spark")
def test_a_job_whose_function_holds_a_path_or_that_has_a_clock_is_not_replayed() -> None:
    path = "/nowhere/rows"
    with pytest.raises(ArgumentError, match="each_batch names /nowhere/rows"):
        beside(a_job(each_batch=lambda rows: seen(rows, path)))
    idle = {"pages": Input(reading("nowhere:9092", "pages"), idle="1 minute")}
    with pytest.raises(ArgumentError, match="has an idle time-out"):
        beside(a_job(inputs=idle, every="1 second"))


def test_what_cannot_be_switched_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = a_job(sink=Append(f"{tmp_path}/rows"))
    with pytest.raises(CheckpointError, match="no checkpoint"):
        switch(job, spark)
    (tmp_path / "rows.before").mkdir()
    with pytest.raises(CheckpointError, match=r"rows\.before is in the way"):
        switch(job, spark)
    with pytest.raises(ArgumentError, match="not on this machine"):
        switch(a_job(sink=Append("s3a://lake/rows")), spark)
    with pytest.raises(CheckpointError, match="has no whole batch"):
        replay(job, spark)
