"""Rescaling: the same results with another number of state partitions, or an error."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.test_cli import invoke
from tests.support.checkpoint_files import JobFiles
from tests.support.delta_tables import rows
from tests.support.kafka_topics import START, page, pages_input, send_records
from tidegate import Job, run
from tidegate.aggregates import count
from tidegate.checkpoint.lineage import CheckpointLineage, Rescaling
from tidegate.checkpoint.lineage_files import LineageFiles
from tidegate.checkpoint.spark_logs import CheckpointLogs
from tidegate.commit.driver_lease import DriverLease
from tidegate.errors import ArgumentError, CheckpointError, FencedError
from tidegate.jvm import repartition_state
from tidegate.operations import rescale as rescale_module
from tidegate.operations.doctor import examine_job
from tidegate.operations.erasure.erase import OfflineLeases
from tidegate.operations.rescale import plan_for_logs, plan_rescale, rescale
from tidegate.sinks import Append
from tidegate.spark.presets import STATE_STORE_PROVIDER
from tidegate.testing import Broker, CrashError
from tidegate.windows import Tumbling, WindowAggregation


def window_counts(root: Path) -> Counter[tuple[str, int]]:
    """Return the number of records by page and first second of the window."""
    return Counter(
        {
            (row["page"], int((row["window"]["start"] - START).total_seconds())): row["n"]
            for row in rows(root / "views")
        }
    )


@pytest.mark.jobs
@pytest.mark.broker
def test_results_are_exact_after_interrupted_rescales_up_and_down(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    job = Job(
        name="views",
        inputs={
            "pages": pages_input(broker.bootstrap_servers, topic, watermark_delay="20 seconds")
        },
        transform=WindowAggregation(Tumbling("10 seconds"), by="page", aggs={"n": count()}),
        sink=Append(str(tmp_path / "views")),
    )
    checkpoint = str(tmp_path / "views.checkpoint")
    expected: Counter[tuple[str, int]] = Counter()
    for phase, target in enumerate((8, 2, None)):
        seconds = [20 * phase + at * 7 % 30 for at in range(60)]
        values = [page(f"p{at % 13}", s) for at, s in enumerate(seconds)]
        send_records(
            broker.bootstrap_servers,
            topic,
            [*values, page("last", 500)] if target is None else values,
        )
        expected.update((f"p{at % 13}", s // 10 * 10) for at, s in enumerate(seconds))
        run(job, spark)
        if target is not None:
            if target == 8:
                kill_rescales(spark, job, target, monkeypatch)
            rescale(spark, plan_rescale(spark, checkpoint, target))
            folders = {path.name for path in Path(checkpoint, "state", "0").iterdir()}
            assert folders == {*map(str, range(target)), "_metadata"}
            assert "nothing to do" in str(plan_rescale(spark, checkpoint, target))
            findings = {each.check: each for each in examine_job(job, spark)}
            assert findings["checkpoint"].status == "ok"
            if target == 8:
                assert f"tidegate rescale {checkpoint} --to 2" in findings["state"].result
                assert findings["state"].status == "warning"
            else:
                assert "in 2" in findings["state"].result
                assert findings["state"].status == "ok"
    assert window_counts(tmp_path) == expected


def kill_rescales(
    spark: SparkSession, job: Job, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill a rescale with a part of the new state, and with all of it; starts are refused."""
    checkpoint = job.locations.checkpoint
    files = LineageFiles(spark, checkpoint)
    before = files.read()
    assert before is not None

    def die_during_write(spark: SparkSession, checkpoint: str, number: int) -> None:
        repartition_state(spark, checkpoint, number)
        commits = Path(checkpoint, "commits")
        for file in [*commits.glob(f"{plan.batch}"), *commits.glob(f".{plan.batch}.crc")]:
            file.unlink()
        for part in (3, 4, 7):
            shutil.rmtree(Path(checkpoint, "state", "0", str(part)))
        raise CrashError("within")

    def die_after_write(spark: SparkSession, checkpoint: str, number: int) -> None:
        repartition_state(spark, checkpoint, number)
        raise CrashError("after")

    deaths = [die_during_write, die_after_write]
    for die in deaths:
        plan = plan_rescale(spark, checkpoint, target)
        with monkeypatch.context() as patch:
            patch.setattr(rescale_module, "repartition_state", die)
            with pytest.raises(CrashError):
                rescale(spark, plan)
        with pytest.raises(CheckpointError, match=f"is being rescaled from 2 to {target}"):
            run(job, spark)
        with pytest.raises(CheckpointError, match=f"--to {target}, which finishes it"):
            plan_rescale(spark, checkpoint, 4)
        # A start that read the lineage before the rescale fails to claim the checkpoint.
        with pytest.raises(CheckpointError, match="is being rescaled"):
            DriverLease.acquire(files, before, {})
        with pytest.raises(CheckpointError, match="is being rescaled"):
            OfflineLeases.acquire(spark, [checkpoint])
    assert {each.check for each in examine_job(job, spark) if each.error} == {"checkpoint", "state"}
    assert "resume rescaling" in str(plan_rescale(spark, checkpoint, target))
    code, output = invoke("status", str(Path(checkpoint).parent))
    assert (code, f"tidegate rescale {checkpoint} --to {target} resumes it" in output) == (
        0,
        True,
    ), output


@pytest.mark.broker
def test_a_checkpoint_whose_job_has_not_ended_is_not_changed(
    spark: SparkSession, job_files: JobFiles, tmp_path: Path
) -> None:
    checkpoint = str(job_files.checkpoint)
    files = LineageFiles(spark, checkpoint)
    plan, ended = plan_rescale(spark, checkpoint, 8), job_files.lineage
    assert (plan.current_partitions, plan.target_partitions, plan.batch) == (
        2,
        8,
        ended.last_batch + 1,
    )
    with pytest.raises(ArgumentError, match="invalid --to: 0"):
        plan_rescale(spark, checkpoint, 0)
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        plan_rescale(spark, str(tmp_path), 8)
    code, output = invoke("rescale", checkpoint, "--to", "8", "--dry-run")
    assert (code, "from 2 to 8 partitions, as batch" in output) == (0, True), output
    files.write(replace(ended, released=False))
    code, output = invoke("rescale", checkpoint, "--to", "8")
    assert (code, "has not ended" in output) == (5, True), output
    files.write(ended)
    assert files.create(ended.epoch + 1)
    with pytest.raises(FencedError, match="was started meanwhile"):
        rescale(spark, plan)
    lineage = files.read()
    assert lineage is not None
    assert lineage.rescaling is None
    assert not Path(checkpoint, "offsets", str(plan.batch)).exists()


def checkpoint_logs(
    operator: str, *, provider: str = "a.b.RocksDBStateStoreProvider", key: str = "x"
) -> CheckpointLogs:
    """Return the logs of a checkpoint with one operator, whose key has one column or none."""
    conf = {STATE_STORE_PROVIDER: provider, "spark.sql.shuffle.partitions": "2"}
    metadata = {
        "operatorInfo": {"operatorId": 0, "operatorName": operator},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}],
    }
    fields = [{"name": key, "type": "string", "nullable": True, "metadata": {}}] if key else []
    schema = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
    return CheckpointLogs(
        path="/c",
        planned_batches=[0],
        committed_batches=[0],
        offsets_contents={0: f"v1\n{json.dumps({'conf': conf})}\n-".encode()},
        static_files={
            "state/0/_metadata/metadata": f"v1\n{json.dumps(metadata)}".encode(),
            "state/0/0/_metadata/schema": b"\0\2v2" + schema.encode(),
        },
    )


@pytest.mark.parametrize(
    ("logs", "cause"),
    [
        (
            checkpoint_logs("stateStoreSave", provider="a.HDFSBackedStateStoreProvider"),
            "HDFSBacked",
        ),
        (
            replace(checkpoint_logs("stateStoreSave"), path="s3a://shop/a b/checkpoint"),
            "remote path with a space",
        ),
        (checkpoint_logs("transformWithStateExec"), "has state of transformWithStateExec"),
        (checkpoint_logs("stateStoreSave", key=""), "operator 0 has no key"),
        (checkpoint_logs("sessionWindowStateStoreSaveExec"), "operator 0 has no key"),
    ],
)
def test_state_that_spark_cannot_repartition_is_an_error(logs: CheckpointLogs, cause: str) -> None:
    with pytest.raises(CheckpointError, match=cause):
        plan_for_logs(logs, CheckpointLineage(job="j", last_batch=0), 8)


def test_a_checkpoint_without_state_needs_no_rescale() -> None:
    plan = plan_for_logs(
        replace(checkpoint_logs("stateStoreSave"), static_files={}),
        CheckpointLineage(job="j", last_batch=0),
        8,
    )
    assert not plan.is_needed
    assert "spark.sql.shuffle.partitions=8 applies from its next start" in str(plan)


def test_a_lineage_with_a_rescale_is_read_as_written() -> None:
    lineage = CheckpointLineage(
        job="j", rescaling=Rescaling(batch=3, partitions_before=2, partitions_after=8)
    )
    assert CheckpointLineage.from_json(lineage.to_json().encode(), "file") == lineage
