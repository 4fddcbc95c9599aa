"""The job of alarms killed between its windows and its alarms: each alarm comes once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.testing import Broker
from tidegate.testing.ledger import produce

from ..worlds.alarms import OPTIONS, clicked, log, standing, unusual
from .left import batches
from .submitted import SubmittedJob

pytestmark = [pytest.mark.broker, pytest.mark.crash]


def test_alarms_killed_after_their_windows_are_raised_and_withdrawn_once(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    ledger = produce(broker.servers, topic, clicked(), partitions=1)
    own = {"kafka.servers": broker.servers, "input.topics": topic}
    job = SubmittedJob("alarms", tmp_path / "tables", tmp_path / "job.log", {**OPTIONS, **own})
    job.killed_at("windows", skip=2)
    written = batches(job.root, "windows")
    assert batches(job.root, "alarms") == written[:-1], "the kill came too late"
    job.run()
    alarms = job.root / "alarms"
    assert standing(alarms) == unusual(ledger)
    entries = log(alarms)
    places = [(version, alarm) for version, alarm, _ in entries]
    assert len(set(places)) == len(places)
    assert {version for version, _, _ in entries} == {1, 2}
