"""The job page_views: stops, restarts and limits."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support import delta_tables as tables
from tests.support.expected_views import expected_views
from tests.support.spark_session import configured
from tidegate import Job, run
from tidegate.commit.batch import CommitContext
from tidegate.commit.protocol import Outcome
from tidegate.errors import DeadLetterLimitError
from tidegate.jobs.page_views import PageViews, job
from tidegate.jobs.sample_clicks import SCHEMA, SentRecord, clicks, send_clicks
from tidegate.sinks import Sink, WrappingSink
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

LATENESS_MS, WINDOW_MS = 10_000, 10_000


@dataclass
class SignalOnWrite(WrappingSink):
    """Sends a signal to this process before each write of the wrapped sink."""

    sink: Sink
    number: signal.Signals

    @property
    def inner_sinks(self) -> Sequence[Sink]:
        return (self.sink,)

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        os.kill(os.getpid(), self.number)
        return self.sink.write(frames, batch, rows_out=rows_out)


def build_job(broker: Broker, topic: str, root: Path, *overrides: str) -> Job:
    options = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "input.max_records_per_batch": 2_000,
        "input.schema": SCHEMA,
        "input.watermark_delay": f"{LATENESS_MS} milliseconds",
        "window.size": f"{WINDOW_MS} milliseconds",
        "output.root": root,
    }
    return job(configured(PageViews, options, *overrides))


def send_sample(broker: Broker, topic: str, count: int) -> list[SentRecord]:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    return send_clicks(broker.bootstrap_servers, topic, clicks(count, seed=5), partitions=4)


def positions(root: Path, table: str) -> set[tuple[int, int]]:
    stored = tables.rows(root / table, ["partition", "offset"])
    found = {(row["partition"], row["offset"]) for row in stored}
    assert len(found) == len(stored)
    return found


def test_a_job_that_is_stopped_and_restarted_equals_the_sent_records(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    ledger = send_sample(broker, topic, 6_000)
    whole = build_job(broker, topic, tmp_path)

    first = run(replace(whole, sink=SignalOnWrite(whole.sink, signal.SIGTERM)), spark)
    assert (first.stopped, first.batches, first.rows_in) == (True, 1, 2_000)
    assert (tmp_path / "_checkpoints" / "page_views" / "commits" / "0").exists()

    second = run(whole, spark)
    assert (second.stopped, second.skipped_batches, first.rows_in + second.rows_in) == (
        False,
        0,
        6_000,
    )

    newest = max(s.click.event_time_ms for s in ledger if s.click.fault != "far future")
    views = expected_views(ledger, WINDOW_MS)
    closed = {
        key: view for key, view in views.items() if key[0] + WINDOW_MS <= newest - LATENESS_MS
    }
    by_spark = [
        row.asDict(recursive=True)
        for row in spark.read.format("delta").load(whole.sink.path).collect()
    ]
    for rows in (by_spark, tables.rows(Path(whole.sink.path))):
        assert len(rows) == len(closed)
        for row in rows:
            view = closed[int(row["window"]["start"].timestamp() * 1000), row["page"]]
            assert (row["views"], row["bytes"], row["slowest_ms"]) == (
                view.views,
                view.total_bytes,
                view.slowest_ms,
            )
            assert row["mean_ms"] == pytest.approx(view.total_ms / view.views)

    assert positions(tmp_path, "late_rows") == {
        (s.partition, s.offset) for s in ledger if s.click.is_late
    }
    assert positions(tmp_path, "dead_letters") == {
        (s.partition, s.offset) for s in ledger if s.click.fault
    }


def test_too_many_dead_letters_stop_the_job_before_any_write(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    send_sample(broker, topic, 1_000)
    with pytest.raises(DeadLetterLimitError, match="malformed JSON"):
        run(build_job(broker, topic, tmp_path, "limits.dead_rows=1"), spark)
    assert [path.name for path in tmp_path.iterdir()] == ["_checkpoints"]
