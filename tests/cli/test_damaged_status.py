"""The status names each damaged table and checkpoint with its fault, and reports the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_cli import invoke
from tidegate.commit.batch import Stamp

LOG = "views/_delta_log"
LINEAGE = "views.checkpoint/tidegate/lineage-000001.json"


def write_job(root: Path, job: str) -> None:
    """Write a table with three commits, and its checkpoint."""
    log, checkpoint = root / job / "_delta_log", root / f"{job}.checkpoint"
    for folder in (log, checkpoint / "offsets", checkpoint / "commits"):
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
