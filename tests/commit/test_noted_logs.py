"""A checkpoint's own logs, held against what its identity notes of them: without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.commit.identity import Identity
from tidegate.commit.logs import Logs, digest
from tidegate.commit.noted_logs import require_logs
from tidegate.errors import CheckpointError


def offsets(watermark: int, end: int) -> bytes:
    return f'v1\n{{"batchWatermarkMs":{watermark}}}\n{{"t":{{"0":{end}}}}}'.encode()


def commit(watermark: int) -> bytes:
    return f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'.encode()


LOGS = Logs(
    path="c",
    planned=[0, 1, 2],
    committed=[0, 1],
    offsets={0: offsets(0, 5), 1: offsets(3, 7), 2: offsets(4, 9)},
    commits={0: commit(3), 1: commit(4)},
    files={"sources/0/0": b"\0v1\n{}"},
    query="q",
)
NOTED = Identity(
    job="j",
    query="q",
    batch=1,
    offsets={0: digest(offsets(0, 5)), 1: digest(offsets(3, 7))},
    commits={0: digest(commit(3))},
    files={"sources/0/0": digest(b"\0v1\n{}")},
)


def test_logs_as_they_were_noted_and_a_plan_that_follows_are_taken() -> None:
    require_logs(NOTED, LOGS)
    require_logs(NOTED, replace(LOGS, planned=[0, 1], committed=[0]))
    require_logs(Identity(job="j"), Logs(path="c", planned=[0], offsets={0: offsets(0, 5)}))


@pytest.mark.parametrize(
    ("logs", "says"),
    [
        (replace(LOGS, offsets={**LOGS.offsets, 1: offsets(3, 8)}), "c/offsets/1 was changed"),
        (replace(LOGS, offsets={**LOGS.offsets, 0: offsets(1, 5)}), "c/offsets/0 was changed"),
        (replace(LOGS, commits={**LOGS.commits, 0: commit(2)}), "c/commits/0 was changed"),
        (
            replace(LOGS, offsets={**LOGS.offsets, 2: offsets(6, 9)}),
            "offsets/2 has the watermark 6",
        ),
        (replace(LOGS, commits={**LOGS.commits, 1: commit(6)}), "commit of batch 1 says 6 ms"),
        (replace(LOGS, commits={**LOGS.commits, 1: b"v1\n["}), "c/commits/1 cannot be read"),
        (replace(LOGS, offsets={**LOGS.offsets, 2: offsets(4, 6)}), "ends at 6 in t-0, and batch"),
        (replace(LOGS, offsets={**LOGS.offsets, 2: b"v1"}), "c/offsets/2 begins with"),
        (replace(LOGS, planned=[0, 1, 2, 3]), "c/offsets/3 is there, and the identity file"),
        (replace(LOGS, committed=[0, 1, 2]), "c/commits/2 is there, and the identity file"),
        (replace(LOGS, planned=[0]), "c/offsets/1 is missing"),
        (replace(LOGS, committed=[]), "c/commits/0 is missing"),
        (replace(LOGS, committed=[0]), "c/commits/1 is missing"),
        (replace(LOGS, files={"sources/0/0": b"\0v1\n{1}"}), "c/sources/0/0 was changed"),
        (replace(LOGS, files={}), "c/sources/0/0 is missing"),
        (replace(LOGS, query="p"), "c/metadata has the query p; noted is q"),
        (replace(LOGS, query=None), "c/metadata has the query None"),
    ],
)
def test_logs_that_were_changed_are_refused_with_the_name_of_the_file(
    logs: Logs, says: str
) -> None:
    with pytest.raises(CheckpointError, match=says):
        require_logs(NOTED, logs)
