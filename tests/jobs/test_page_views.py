"""The page views job: stopped and started again, and stopped by its own limits."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs.page_views import PageViews, job
from tidegate.commit import Batch
from tidegate.errors import DeadLetterFloodError
from tidegate.runtime.job import Job
from tidegate.runtime.query.run import run
from tidegate.sinks import Outcome, Sink
from tidegate.testing import Broker
from tidegate.testing.clicks import SCHEMA, clicks
from tidegate.testing.ledger import Sent, expected, produce

from .. import tables
from ..configured import configured

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

LATENESS_MS, WINDOW_MS = 10_000, 10_000


@dataclass
class Signalled:
    """A sink in front of the job's own, during whose first write the process gets a signal."""

    inner: Sink
    number: signal.Signals

    @property
    def path(self) -> str:
        return self.inner.path

    @property
    def step(self) -> str:
        return self.inner.step

    def tables(self) -> list[tuple[str, str]]:
        return self.inner.tables()

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        os.kill(os.getpid(), self.number)
        return self.inner.write(frames, batch, rows_out=rows_out)


def planned(broker: Broker, topic: str, root: Path, *overrides: str) -> Job:
    options = {
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "input.max_rows": 2_000,
        "input.schema": SCHEMA,
        "input.lateness": f"{LATENESS_MS} milliseconds",
        "window.size": f"{WINDOW_MS} milliseconds",
        "output.root": root,
    }
    return job(configured(PageViews, options, *overrides))


def sent(broker: Broker, topic: str, count: int) -> list[Sent]:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    return produce(broker.servers, topic, clicks(count, seed=5), partitions=4)


def place(root: Path, table: str) -> set[tuple[int, int]]:
    stored = tables.rows(root / table, ["partition", "offset"])
    found = {(row["partition"], row["offset"]) for row in stored}
    assert len(found) == len(stored)
    return found


def test_a_job_stopped_by_sigterm_and_started_again_gives_what_the_ledger_says(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    ledger = sent(broker, topic, 6_000)
    whole = planned(broker, topic, tmp_path)

    first = run(replace(whole, sink=Signalled(whole.sink, signal.SIGTERM)), spark)
    assert (first.stopped, first.batches, first.rows_in) == (True, 1, 2_000)
    assert (tmp_path / "_checkpoints" / "page_views" / "commits" / "0").exists()

    second = run(whole, spark)
    assert (second.stopped, second.skipped, first.rows_in + second.rows_in) == (False, 0, 6_000)

    newest = max(s.click.at for s in ledger if s.click.fault != "far future")
    views = expected(ledger, WINDOW_MS)
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
                view.size,
                view.slowest_ms,
            )
            assert row["mean_ms"] == pytest.approx(view.total_ms / view.views)

    assert place(tmp_path, "late_rows") == {
        (s.partition, s.offset) for s in ledger if s.click.straggler
    }
    assert place(tmp_path, "dead_letters") == {
        (s.partition, s.offset) for s in ledger if s.click.fault
    }


def test_a_flood_of_dead_letters_stops_the_job_before_anything_is_written(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    sent(broker, topic, 1_000)
    with pytest.raises(DeadLetterFloodError, match="malformed JSON"):
        run(planned(broker, topic, tmp_path, "limits.dead_rows=1"), spark)
    assert [path.name for path in tmp_path.iterdir()] == ["_checkpoints"]
