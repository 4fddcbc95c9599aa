"""The state of a checkpoint in other partitions: the same answer, or a refusal that says why."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.commit.epochs import EpochFiles
from tidegate.commit.identity import Identity, Rescaling
from tidegate.commit.ledger import Ledger
from tidegate.commit.logs import Logs
from tidegate.errors import ArgumentError, CheckpointError, FencedError
from tidegate.jvm import repartition_state
from tidegate.runtime.doctor import examine
from tidegate.runtime.forgetting.claims import Claims
from tidegate.runtime.job import Input, Job
from tidegate.runtime.process.presets import STATE
from tidegate.runtime.query.run import run
from tidegate.runtime.rescaling import rescale as rescaling
from tidegate.runtime.rescaling import state
from tidegate.runtime.rescaling.rescale import rescale
from tidegate.runtime.rescaling.state import planned
from tidegate.sinks import Append
from tidegate.testing import Broker, CrashError
from tidegate.windows import Tumbling, Windowed

from ..command.test_command import called
from ..tables import rows
from .left import Left
from .topics import START, page, reading, sent


def found(root: Path) -> Counter[tuple[str, int]]:
    """Return how many records each page's window has, by its first second."""
    return Counter(
        {
            (row["page"], int((row["window"]["start"] - START).total_seconds())): row["n"]
            for row in rows(root / "views")
        }
    )


@pytest.mark.broker
def test_state_that_is_spread_wider_and_back_gives_the_same_answer_though_the_rescale_dies(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    job = Job(
        name="views",
        inputs={"pages": Input(reading(broker.servers, topic, lateness="20 seconds"))},
        transform=Windowed(Tumbling("10 seconds"), by="page", aggs={"n": count()}),
        sink=Append(str(tmp_path / "views")),
    )
    checkpoint = str(tmp_path / "views.checkpoint")
    wanted: Counter[tuple[str, int]] = Counter()
    for phase, to in enumerate((8, 2, None)):
        seconds = [20 * phase + at * 7 % 30 for at in range(60)]
        values = [page(f"p{at % 13}", s) for at, s in enumerate(seconds)]
        sent(broker.servers, topic, [*values, page("last", 500)] if to is None else values)
        wanted.update((f"p{at % 13}", s // 10 * 10) for at, s in enumerate(seconds))
        run(job, spark)
        if to is not None:
            if to == 8:
                dies_and_is_refused(spark, job, to, monkeypatch)
            rescale(spark, planned(spark, checkpoint, to))
            there = {path.name for path in Path(checkpoint, "state", "0").iterdir()}
            assert there == {*map(str, range(to)), "_metadata"}
            assert "nothing to do" in str(planned(spark, checkpoint, to))
            told = {each.check: each for each in examine(job, spark)}
            assert told["checkpoint"].mark == "ok"
            kept = (f"tidegate rescale {checkpoint} --to 2", "look") if to == 8 else ("in 2", "ok")
            assert (kept[0] in told["state"].found, told["state"].mark) == (True, kept[1])
    assert found(tmp_path) == wanted


def dies_and_is_refused(
    spark: SparkSession, job: Job, to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let a rescale die with a part of the state written anew, and with all of it."""
    checkpoint = job.places.checkpoint
    files = EpochFiles(spark, checkpoint)
    before = files.read()
    assert before is not None

    def dies_within(spark: SparkSession, checkpoint: str, number: int) -> None:
        repartition_state(spark, checkpoint, number)
        commits = Path(checkpoint, "commits")
        for file in [*commits.glob(f"{plan.batch}"), *commits.glob(f".{plan.batch}.crc")]:
            file.unlink()
        for part in (3, 4, 7):
            shutil.rmtree(Path(checkpoint, "state", "0", str(part)))
        raise CrashError("within")

    def dies_after(spark: SparkSession, checkpoint: str, number: int) -> None:
        repartition_state(spark, checkpoint, number)
        raise CrashError("after")

    deaths = [dies_within, dies_after]
    for dies in deaths:
        plan = planned(spark, checkpoint, to)
        with monkeypatch.context() as patch:
            patch.setattr(rescaling, "repartition_state", dies)
            with pytest.raises(CrashError):
                rescale(spark, plan)
        with pytest.raises(CheckpointError, match=f"is being rescaled from 2 to {to}"):
            run(job, spark)
        with pytest.raises(CheckpointError, match=f"--to {to}, which finishes it"):
            planned(spark, checkpoint, 4)
        # A start that had looked at the checkpoint before is refused by its claim.
        with pytest.raises(CheckpointError, match="is being rescaled"):
            Ledger.claimed(files, before, {})
        with pytest.raises(CheckpointError, match="is being rescaled"):
            Claims.of(spark, [checkpoint])
    assert {each.check for each in examine(job, spark) if each.error} == {"checkpoint", "state"}
    assert "goes on" in str(planned(spark, checkpoint, to))
    code, said = called("status", str(Path(checkpoint).parent))
    assert (code, f"tidegate rescale {checkpoint} --to {to} finishes it" in said) == (0, True), said


@pytest.mark.broker
def test_a_checkpoint_whose_job_has_not_ended_is_left_as_it_is(
    spark: SparkSession, left: Left, tmp_path: Path
) -> None:
    checkpoint = str(left.checkpoint)
    files = EpochFiles(spark, checkpoint)
    plan, ended = planned(spark, checkpoint, 8), left.identity
    assert (plan.before, plan.after, plan.batch) == (2, 8, ended.batch + 1)
    with pytest.raises(ArgumentError, match="--to is 0"):
        planned(spark, checkpoint, 0)
    with pytest.raises(CheckpointError, match="no identity file"):
        planned(spark, str(tmp_path), 8)
    code, said = called("rescale", checkpoint, "--to", "8", "--dry-run")
    assert (code, "from 2 to 8 partitions, as batch" in said) == (0, True), said
    files.write(replace(ended, ended=False))
    code, said = called("rescale", checkpoint, "--to", "8")
    assert (code, "has not ended" in said) == (5, True), said
    files.write(ended)
    assert files.create(ended.epoch + 1)
    with pytest.raises(FencedError, match="was started on it meanwhile"):
        rescale(spark, plan)
    noted = files.read()
    assert noted is not None
    assert noted.rescaling is None
    assert not Path(checkpoint, "offsets", str(plan.batch)).exists()


def logs(operator: str, *, provider: str = "a.b.RocksDBStateStoreProvider", key: str = "x") -> Logs:
    """Return what a checkpoint says of one operator, whose key has one column or none."""
    conf = {STATE: provider, "spark.sql.shuffle.partitions": "2"}
    told = {
        "operatorInfo": {"operatorId": 0, "operatorName": operator},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}],
    }
    fields = [{"name": key, "type": "string", "nullable": True, "metadata": {}}] if key else []
    schema = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
    return Logs(
        path="/c",
        planned=[0],
        committed=[0],
        offsets={0: f"v1\n{json.dumps({'conf': conf})}\n-".encode()},
        files={
            "state/0/_metadata/metadata": f"v1\n{json.dumps(told)}".encode(),
            "state/0/0/_metadata/schema": b"\0\2v2" + schema.encode(),
        },
    )


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (logs("stateStoreSave", provider="a.HDFSBackedStateStoreProvider"), "HDFSBacked"),
        (logs("transformWithStateExec"), "keeps state of transformWithStateExec"),
        (logs("stateStoreSave", key=""), "operator 0 has no key"),
        (logs("sessionWindowStateStoreSaveExec"), "operator 0 has no key"),
    ],
)
def test_state_that_spark_does_not_spread_rightly_is_refused(of: Logs, why: str) -> None:
    with pytest.raises(CheckpointError, match=why):
        state.plan_of(of, Identity(job="j", batch=0), 8)


def test_a_checkpoint_without_state_in_spark_needs_the_setting_alone() -> None:
    plan = state.plan_of(replace(logs("stateStoreSave"), files={}), Identity(job="j", batch=0), 8)
    assert not plan.needed
    assert "spark.sql.shuffle.partitions=8 counts from its next start on" in str(plan)


def test_an_identity_tells_of_a_rescale_after_it_was_written() -> None:
    noted = Identity(job="j", rescaling=Rescaling(batch=3, before=2, after=8))
    assert Identity.parse(noted.text().encode(), "file") == noted
