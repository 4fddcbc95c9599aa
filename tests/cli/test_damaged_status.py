"""The status names each damaged table and checkpoint with its fault, and reports the others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.cli.test_cli import invoke
from tests.cli.test_redrive import views
from tests.replication.test_replicated_tables import USERS
from tests.support.raw_records import produce
from tests.support.replicated_database import Database
from tidegate import run
from tidegate.checkpoint.lineage import CheckpointLineage
from tidegate.checkpoint.spark_logs import hash_content
from tidegate.commit.batch import Stamp
from tidegate.startup.swap_journal import SwapJournal, write_swap_journal
from tidegate.testing import Broker

LOG = "views/_delta_log"
LINEAGE = "views.checkpoint/tidegate/lineage-000001.json"
STATE_FILES = ("state/0/_metadata/metadata", "state/0/0/_metadata/schema")
TABLE_CHECKPOINT = f"{LOG}/{1:020d}.checkpoint.parquet"


def write_job(root: Path, job: str) -> None:
    """Write a table with three commits, and its checkpoint."""
    log, checkpoint = root / job / "_delta_log", root / f"{job}.checkpoint"
    for folder in (log, *(checkpoint / name for name in ("offsets", "commits", "tidegate"))):
        folder.mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": f"query-{job}"}))
    for number in range(3):
        end = {"clicks": {0: 10 * (number + 1)}}
        stamp = Stamp(
            job=job,
            query=f"query-{job}",
            run="r",
            batch=number,
            output="append",
            offsets_hash="",
            end=end,
            row_counts={},
        )
        info = {
            "timestamp": 1_790_000_000_000 + number,
            "userMetadata": stamp.to_json(),
            "operationMetrics": {"numOutputRows": "10"},
        }
        (log / f"{number:020d}.json").write_text(json.dumps({"commitInfo": info}))
        (checkpoint / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(end)}")
        (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for name in STATE_FILES:
        (checkpoint / name).parent.mkdir(parents=True)
        (checkpoint / name).write_text(f"v1\n{name}")

    def hashes(log_name: str) -> dict[int, str]:
        files = {number: checkpoint / log_name / str(number) for number in (1, 2)}
        return {number: hash_content(file.read_bytes()) for number, file in files.items()}

    lineage = CheckpointLineage(
        job=job,
        query=f"query-{job}",
        epoch=1,
        last_batch=2,
        offsets_hashes=hashes("offsets"),
        commit_hashes=hashes("commits"),
        file_hashes={n: hash_content((checkpoint / n).read_bytes()) for n in STATE_FILES},
    )
    (checkpoint / "tidegate" / "lineage-000001.json").write_text(lineage.to_json())
    pq.write_table(pa.table({"version": [1]}), log / f"{1:020d}.checkpoint.parquet")


def replaced(path: str, content: bytes) -> Callable[[Path], object]:
    def replace(root: Path) -> None:
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(content)

    return replace


def removed(*paths: str) -> Callable[[Path], object]:
    def remove(root: Path) -> None:
        for path in paths:
            (root / path).unlink()

    return remove


def cut_off(path: str) -> Callable[[Path], object]:
    def cut(root: Path) -> None:
        (root / path).write_bytes((root / path).read_bytes()[:-9])

    return cut


def commit(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


@pytest.mark.parametrize(
    ("damage", "folder", "fault"),
    [
        (replaced(commit(1), b'{"commitInfo": {'), "views", "00001.json is damaged: Expecting"),
        (replaced(commit(2), b""), "views", "00002.json is damaged: it has no actions"),
        (replaced(commit(2), b"[]"), "views", "00002.json is damaged: it has no actions"),
        (removed(commit(1)), "views", "00001.json is missing"),
        (removed(commit(0), commit(1), commit(2)), "views", "_delta_log has no commits"),
        (replaced("views.checkpoint/metadata", b"{"), "views.checkpoint", "metadata is damaged"),
        (replaced("views.checkpoint/metadata", b"[]"), "views.checkpoint", "metadata is damaged"),
        (removed("views.checkpoint/metadata"), "views.checkpoint", "metadata is missing"),
        (removed("views.checkpoint/offsets/2"), "views.checkpoint", "offsets/2 is missing"),
        (replaced("views.checkpoint/offsets/2", b""), "views.checkpoint", "offsets/2 is damaged"),
        (replaced(LINEAGE, b"{"), "views.checkpoint", "lineage-000001.json"),
        (removed(LINEAGE), "views.checkpoint", "no lineage file is in tidegate"),
        (replaced(LINEAGE, b""), "views.checkpoint", "no lineage file is in tidegate"),
        (
            replaced("views.checkpoint/metadata", b'{"id": "query-view"}'),
            "views.checkpoint",
            "metadata has the query query-view; the lineage has query-views",
        ),
        (replaced("views.checkpoint/offsets/1", b""), "views.checkpoint", "offsets/1 was changed"),
        (removed("views.checkpoint/commits/1"), "views.checkpoint", "commits/1 is missing"),
        (
            replaced(f"views.checkpoint/{STATE_FILES[0]}", b"v1"),
            "views.checkpoint",
            f"{STATE_FILES[0]} was changed",
        ),
        (
            removed(f"views.checkpoint/{STATE_FILES[1]}"),
            "views.checkpoint",
            f"{STATE_FILES[1]} is missing",
        ),
        (cut_off(TABLE_CHECKPOINT), "views", "00001.checkpoint.parquet is damaged: "),
        (replaced(TABLE_CHECKPOINT, b""), "views", "00001.checkpoint.parquet is damaged: "),
        (replaced(TABLE_CHECKPOINT, b"PAR1 PAR1"), "views", "00001.checkpoint.parquet is damaged"),
        (removed(TABLE_CHECKPOINT, commit(0)), "views", "00000.json is missing, and no checkpoint"),
        (
            replaced("views.checkpoint.swap.json", b"{"),
            "views.checkpoint.swap.json",
            "views.checkpoint.swap.json is damaged",
        ),
        (replaced("views.checkpoint/commits/2", b"v1"), "views.checkpoint", "commits/2 is damaged"),
    ],
)
def test_a_damaged_folder_is_named_with_its_fault_and_the_other_job_is_reported(
    tmp_path: Path, damage: Callable[[Path], object], folder: str, fault: str
) -> None:
    write_job(tmp_path, "views")
    write_job(tmp_path, "users")
    damage(tmp_path)
    code, output = invoke("status", str(tmp_path))
    assert code == 5, output
    problem = f"TableMismatchError: damaged below {tmp_path}: {tmp_path / folder}\n"
    assert problem in output
    assert fault in output
    assert "job users, last commit" in output
    code, output = invoke("status", str(tmp_path), "--json")
    assert code == 5
    jobs = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert "users" in [job["job"] for job in jobs]


def test_undamaged_folders_and_a_log_without_its_oldest_commits_are_reported(
    tmp_path: Path,
) -> None:
    write_job(tmp_path, "views")
    removed(commit(0))(tmp_path)
    code, output = invoke("status", str(tmp_path))
    assert (code, "job views" in output) == (0, True), output


def test_an_interrupted_swap_is_reported_with_the_command_that_finishes_it(tmp_path: Path) -> None:
    write_job(tmp_path, "views")
    journal = tmp_path / "views.checkpoint.swap.json"
    write_swap_journal(journal, SwapJournal(".before", ".replay", []))
    code, output = invoke("status", str(tmp_path))
    assert code == 0, output
    assert f"Tables are being swapped, as {journal} records." in output
    assert "tidegate replay JOB --swap --back finishes it." in output
    assert "job views" in output


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
@pytest.mark.parametrize("unreadable", [commit(1), "views.checkpoint/offsets", TABLE_CHECKPOINT])
def test_an_unreadable_file_or_folder_is_named_and_the_other_job_is_reported(
    tmp_path: Path, unreadable: str
) -> None:
    write_job(tmp_path, "views")
    write_job(tmp_path, "users")
    (tmp_path / unreadable).chmod(0)
    command = [sys.executable, "-m", "tidegate", "status", str(tmp_path)]
    # Root may read everything, unless it has lost its capabilities.
    unprivileged = ["setpriv", "--bounding-set=-all"] if os.getuid() == 0 else []
    try:
        result = subprocess.run([*unprivileged, *command], capture_output=True, text=True)
    finally:
        (tmp_path / unreadable).chmod(0o755)
    assert result.returncode == 5, result
    assert f"{tmp_path / unreadable}" in result.stderr
    assert "Permission denied" in result.stderr
    assert "Traceback" not in result.stderr
    assert "job users, last commit" in result.stdout


@pytest.mark.broker
@pytest.mark.jobs
def test_a_damaged_control_table_and_redrive_log_are_named_and_all_jobs_are_reported(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    database = Database(broker, tmp_path)
    database.send("users", USERS.change("c", 1, {"id": 1, "name": "ann"}))
    database.run(spark)
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    produce(broker.bootstrap_servers, topic, [b"#"])
    run(views(broker, topic, f"{tmp_path}/views"), spark)
    dead_letters = f"{tmp_path}/views.dead_letters"
    redrive = ["redrive", dead_letters, "--servers", broker.bootstrap_servers]
    code, output = invoke(*redrive)
    assert code == 0, output
    code, output = invoke("status", str(tmp_path))
    assert (code, "public.users" in output) == (0, True), output

    (data_file,) = (tmp_path / "replication").glob("*.parquet")
    data_file.write_bytes(data_file.read_bytes()[:-9])
    log = tmp_path / "views.dead_letters.redriven" / "_delta_log" / f"{1:020d}.json"
    log.write_text('{"commitInfo": {')
    for options in ([], ["--json"]):
        code, output = invoke("status", str(tmp_path), *options)
        assert code == 5, output
        assert f"{tmp_path}/replication: " in output
        assert f"{tmp_path}/views.dead_letters.redriven: " in output
        assert "_delta_log/00000000000000000001.json is damaged" in output
        for job in ("views", "replicate"):
            assert f"job {job}, " in output or f'"job": "{job}"' in output
    code, output = invoke(*redrive)
    assert code == 13, output
    assert "DataError: a file of a table is damaged or missing" in output
    assert f"{dead_letters}.redriven/_delta_log/00000000000000000001.json" in output
    assert "fix: restore the file from a copy" in output
