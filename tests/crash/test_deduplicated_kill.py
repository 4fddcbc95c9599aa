"""The deduplicating job killed between its target and its filter: what runs again does not meet its own keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.runtime.paths import project_root
from lib.runtime.submit import QUICK, command, environment, with_options
from lib.testing import Broker
from lib.testing.ledger import produce
from lib.testing.process import GuardedProcess, until

from ..jobs.redelivery import OPTIONS, for_ever, out, places, redelivered, within
from .left import batches
from .submitted import at_once

pytestmark = [pytest.mark.broker, pytest.mark.slow]
SECOND = f"{1:020d}.json"
"""The target's second commit, on which the job is killed: the first batch that meets keys in the filter's table."""


def test_a_job_killed_between_target_and_filter_loses_no_row_and_repeats_none(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    ledger = produce(broker.servers, topic, redelivered(3_000), partitions=4)
    root = tmp_path / "tables"
    options = {
        **OPTIONS,
        "kafka.servers": broker.servers,
        "kafka.topics": topic,
        "kafka.max_rows": 1_000,
        "deduplicate.keys": 100_000,
        "deduplicate.false_positives": 0.0001,
        "output.root": root,
    }

    def started() -> GuardedProcess:
        script = project_root() / "jobs" / "deduplicated.py"
        line = command(script, *with_options(options), conf={"spark.ui.enabled": "false"}, java=QUICK)
        return GuardedProcess(line, tmp_path / "job.log", name="the job", env=environment())

    process = started()
    try:
        log = root / "events" / "_delta_log"
        at_once(lambda: (log / SECOND).exists() or not process.alive, what="the second batch")
        assert process.alive, f"the job ended early; its last words:\n{process.tail(40)}"
    finally:
        process.kill()
    assert (len(batches(root, "events")), batches(root, "seen")) == (2, [0]), "the kill came too late"

    process = started()
    try:
        until(lambda: not process.alive, within=300, what="the job's end")
    finally:
        process.kill()
    assert batches(root, "seen") == batches(root, "events")
    first = for_ever(ledger)
    again = [sent for sent in within(ledger) if sent not in set(first)]
    assert places(root / "events") == out(first, ledger), process.tail(40)
    assert places(root / "repeated") == out(again, ledger)
