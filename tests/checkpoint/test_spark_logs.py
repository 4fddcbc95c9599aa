"""The logs of a checkpoint against the hashes in its lineage: without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.checkpoint.lineage import CheckpointLineage
from tidegate.checkpoint.spark_logs import CheckpointLogs, hash_content, require_recorded_logs
from tidegate.errors import CheckpointError


def offsets(watermark: int, end: int) -> bytes:
    return f'v1\n{{"batchWatermarkMs":{watermark}}}\n{{"t":{{"0":{end}}}}}'.encode()


def commit(watermark: int) -> bytes:
    return f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'.encode()


LOGS = CheckpointLogs(
    path="c",
    planned_batches=[0, 1, 2],
    committed_batches=[0, 1],
    offsets_contents={0: offsets(0, 5), 1: offsets(3, 7), 2: offsets(4, 9)},
    commit_contents={0: commit(3), 1: commit(4)},
    static_files={"sources/0/0": b"\0v1\n{}"},
    query="q",
)
LINEAGE = CheckpointLineage(
    job="j",
    query="q",
    last_batch=1,
    offsets_hashes={0: hash_content(offsets(0, 5)), 1: hash_content(offsets(3, 7))},
    commit_hashes={0: hash_content(commit(3))},
    file_hashes={"sources/0/0": hash_content(b"\0v1\n{}")},
)


def test_recorded_logs_and_a_plan_that_follows_from_them_are_accepted() -> None:
    recorded = {number: hash_content(LOGS.offsets_contents[number]) for number in (0, 1)}
    assert recorded == LINEAGE.offsets_hashes
    assert max(LOGS.planned_batches) == LINEAGE.last_batch + 1
    require_recorded_logs(LINEAGE, LOGS)
    require_recorded_logs(LINEAGE, replace(LOGS, planned_batches=[0, 1], committed_batches=[0]))
    require_recorded_logs(
        CheckpointLineage(job="j"),
        CheckpointLogs(path="c", planned_batches=[0], offsets_contents={0: offsets(0, 5)}),
    )


@pytest.mark.parametrize(
    ("logs", "message"),
    [
        (
            replace(LOGS, offsets_contents={**LOGS.offsets_contents, 1: offsets(3, 8)}),
            "c/offsets/1 was changed",
        ),
        (
            replace(LOGS, offsets_contents={**LOGS.offsets_contents, 0: offsets(1, 5)}),
            "c/offsets/0 was changed",
        ),
        (
            replace(LOGS, commit_contents={**LOGS.commit_contents, 0: commit(2)}),
            "c/commits/0 was changed",
        ),
        (
            replace(LOGS, offsets_contents={**LOGS.offsets_contents, 2: offsets(6, 9)}),
            "offsets/2 has the watermark 6",
        ),
        (
            replace(LOGS, commit_contents={**LOGS.commit_contents, 1: commit(6)}),
            "commit of batch 1 has 6 ms",
        ),
        (
            replace(LOGS, commit_contents={**LOGS.commit_contents, 1: b"v1\n["}),
            "c/commits/1 cannot be read",
        ),
        (
            replace(LOGS, offsets_contents={**LOGS.offsets_contents, 2: offsets(4, 6)}),
            "ends at 6 in t-0, but batch",
        ),
        (
            replace(LOGS, offsets_contents={**LOGS.offsets_contents, 2: b"v1"}),
            "c/offsets/2 starts with",
        ),
        (
            replace(LOGS, planned_batches=[0, 1, 2, 3]),
            "c/offsets/3 exists, but the lineage file ends with batch 1",
        ),
        (replace(LOGS, committed_batches=[0, 1, 2]), "c/commits/2 exists, but the lineage file"),
        (replace(LOGS, planned_batches=[0]), "c/offsets/1 is missing"),
        (replace(LOGS, committed_batches=[]), "c/commits/0 is missing"),
        (replace(LOGS, committed_batches=[0]), "c/commits/1 is missing"),
        (replace(LOGS, static_files={"sources/0/0": b"\0v1\n{1}"}), "c/sources/0/0 was changed"),
        (replace(LOGS, static_files={}), "c/sources/0/0 is missing"),
        (replace(LOGS, query="p"), "c/metadata has the query p; the lineage has q"),
        (replace(LOGS, query=None), "c/metadata has the query None"),
    ],
)
def test_a_changed_or_missing_file_is_refused_by_name(logs: CheckpointLogs, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        require_recorded_logs(LINEAGE, logs)
