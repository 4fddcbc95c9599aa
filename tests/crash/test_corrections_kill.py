"""Page views with corrections killed between log and table: each late row counts once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.page_views import PageViews
from jobs.page_views import job as page_views
from tidegate.runtime.query.late_rows import replay_late
from tidegate.sinks import rebuilt
from tidegate.testing import Broker
from tidegate.testing.clicks import SCHEMA, clicks
from tidegate.testing.ledger import produce

from ..configured import configured
from ..tables import rows
from ..worlds.page_views import LATENESS_MS, accepted, answers, closed, kept_aside, tumbled
from .left import batches
from .submitted import SubmittedJob

pytestmark = [pytest.mark.broker, pytest.mark.crash]


@pytest.mark.draws("more_kills", short=[False], long=[True])
def test_corrections_killed_between_their_tables_count_each_late_row_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, more_kills: bool
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    made = clicks(3_400, seed=4, pages=6, rate=10, stragglers=0.02)
    ledger = produce(broker.servers, topic, made, partitions=4)
    options: dict[str, object] = {
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "input.max_rows": 680,
        "input.schema": SCHEMA,
        "input.lateness": f"{LATENESS_MS} milliseconds",
        "window.corrections": "3 hours",
    }
    job = SubmittedJob("page_views", tmp_path / "tables", tmp_path / "job.log", options)
    views, log = job.root / "views", job.root / "corrections"

    def killed_between(commits: int) -> None:
        """Kill the job after so many commits in the log, before the last one's table."""
        job.killed_at("corrections", skip=commits - len(batches(job.root, "corrections")) - 1)
        logged = batches(job.root, "corrections")
        assert batches(job.root, "views") == logged[:-1], "the kill came too late"

    if more_kills:
        # New windows alone.
        killed_between(2)
    # Past two thirds of the batches: corrections too.
    killed_between(4)
    if more_kills:
        # A late row was kept aside, and the log does not have its batch.
        job.killed_at("late_rows")
        aside = batches(job.root, "late_rows")[-1]
        assert aside > batches(job.root, "views")[-1], "the kill came too late"
    summary = job.finished(spark)
    assert summary.rows_in > 0

    kept = kept_aside(job.root)
    strays = {(sent.partition, sent.offset) for sent in ledger if sent.click.straggler}
    assert kept
    assert kept < strays
    in_time = closed(tumbled(accepted(ledger, job.root)), ledger)
    assert answers(row for row in rows(views) if row["final"]) == in_time

    before = len(batches(job.root, "views"))
    job.killed_at("corrections", "--replay-late")
    assert len(batches(job.root, "views")) == before, "the kill came too late"
    wanted = page_views(configured(PageViews, {**options, "output.root": job.root}))
    assert replay_late(wanted, spark) == len(kept)
    assert replay_late(wanted, spark) == 0
    assert answers(row for row in rows(views) if row["final"]) == closed(tumbled(ledger), ledger)

    now, entries = (spark.read.format("delta").load(str(path)) for path in (views, log))
    same = ["window", "page", "views", "bytes", "version"]
    assert (
        rebuilt(entries, ["page"]).select(same).exceptAll(now.where("final").select(same)).isEmpty()
    )
    assert entries.agg(F.sum("net.views")).first() == now.where("final").agg(F.sum("views")).first()
