"""`python -m tidegate.testing`: a broker with topics."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.testing import Broker

COMMAND = [sys.executable, "-m", "tidegate.testing"]


@pytest.mark.jobs
@pytest.mark.broker
def test_the_broker_creates_topics_and_reuses_a_data_folder(
    tmp_path: Path,
) -> None:
    for _ in range(2):
        command = [*COMMAND, "--dir", str(tmp_path), "--topic", "clicks:4", "--topic", "views"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            listens = running.stdout.readline()
            topics = running.stdout.readline()
            running.send_signal(signal.SIGINT)
            assert running.wait(30) == 0
        assert "Kafka listens on 127.0.0.1:" in listens
        assert topics == "Topics: clicks (4 partitions), views (1 partitions)\n"
    with Broker.start(tmp_path) as broker:
        assert broker.topics() == {"clicks": 4, "views": 1}


@pytest.mark.parametrize("topic", ["clicks:", "clicks:none", ":4", "clicks:0"])
def test_an_invalid_topic_is_rejected_before_the_broker_starts(topic: str) -> None:
    done = subprocess.run(
        [*COMMAND, "--topic", topic], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "such as clicks:4" in done.stderr
