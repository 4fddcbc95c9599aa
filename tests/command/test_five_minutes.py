"""The README's first five minutes: a topic and columns of one's own, and a result by SQL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.runtime.process.installation import project_root
from tidegate.testing import Broker

SCRIPT = Path(__file__).with_name("five_minutes.sh")
pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_the_first_five_minutes_end_with_a_result_read_by_sql(
    broker: Broker, tmp_path: Path
) -> None:
    path = os.pathsep.join([str(project_root()), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        ["sh", str(SCRIPT), sys.executable, broker.servers, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "160"},
        capture_output=True,
        text=True,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    # The last window ends at 1,200 s, the watermark at 989 s: 900 of 1,000 readings are out.
    assert [line for line in done.stdout.splitlines() if line.startswith("sql: ")] == [
        "sql: s0 300 8.0",
        "sql: s1 300 8.0",
        "sql: s2 300 8.0",
    ]
    assert "1,000 records sent to readings." in done.stdout
    assert "1,000 rows read, 9 written, 0 late, 0 dead" in done.stderr
    assert "windows: the watermark is 2026-01-02 00:16:29Z; later results are open" in done.stderr
    assert "with an event of 2026-01-02 00:20:10Z or later" in done.stderr
    assert "Read: 1,000 offsets of readings, in batches 0 to 1." in done.stdout
    assert "Waiting in the topics: 0 offsets." in done.stdout
