"""Page views with corrections killed between log and table: each late row counts once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.scenarios.page_views import (
    LATENESS_MS,
    accepted,
    answers,
    closed,
    late_positions,
    tumbled,
)
from tests.support.crash_leftovers import batches
from tests.support.delta_tables import rows
from tests.support.spark_session import configured
from tests.support.spark_submit import SubmittedJob
from tidegate import merge_late_rows
from tidegate.jobs.page_views import PageViews
from tidegate.jobs.page_views import job as page_views
from tidegate.jobs.sample_clicks import SCHEMA, clicks, send_clicks
from tidegate.sinks import windows_from_log
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]


@pytest.mark.draws("more_kills", short=[False], long=[True])
def test_corrections_killed_between_their_tables_count_each_late_row_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, more_kills: bool
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    made = clicks(3_400, seed=4, pages=6, rate=10, late_share=0.02)
    ledger = send_clicks(broker.bootstrap_servers, topic, made, partitions=4)
    options: dict[str, object] = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "input.max_records_per_batch": 680,
        "input.schema": SCHEMA,
        "input.watermark_delay": f"{LATENESS_MS} milliseconds",
        "window.allowed_lateness": "3 hours",
    }
    job = SubmittedJob("page_views", tmp_path / "tables", tmp_path / "job.log", options)
    views, log = job.root / "views", job.root / "corrections"

    def killed_between(commits: int) -> None:
        """Kill the job after this number of commits in the log, before the table of the last."""
        job.killed_at("corrections", skip=commits - len(batches(job.root, "corrections")) - 1)
        logged = batches(job.root, "corrections")
        assert batches(job.root, "views") == logged[:-1], "the kill came too late"

    if more_kills:
        # New windows alone.
        killed_between(2)
    # Past two thirds of the batches: corrections too.
    killed_between(4)
    if more_kills:
        # A late row was written to its table, and the log does not have its batch.
        job.killed_at("late_rows")
        aside = batches(job.root, "late_rows")[-1]
        assert aside > batches(job.root, "views")[-1], "the kill came too late"
    summary = job.finished(spark)
    assert summary.rows_in > 0

    late = late_positions(job.root)
    strays = {(sent.partition, sent.offset) for sent in ledger if sent.click.is_late}
    assert late
    assert late < strays
    in_time = closed(tumbled(accepted(ledger, job.root)), ledger)
    assert answers(row for row in rows(views) if row["final"]) == in_time

    before = len(batches(job.root, "views"))
    job.killed_at("corrections", "--replay-late")
    assert len(batches(job.root, "views")) == before, "the kill came too late"
    wanted = page_views(configured(PageViews, {**options, "output.root": job.root}))
    assert merge_late_rows(wanted, spark) == len(late)
    assert merge_late_rows(wanted, spark) == 0
    assert answers(row for row in rows(views) if row["final"]) == closed(tumbled(ledger), ledger)

    now, entries = (spark.read.format("delta").load(str(path)) for path in (views, log))
    same = ["window", "page", "views", "bytes", "version"]
    assert (
        windows_from_log(entries, ["page"])
        .select(same)
        .exceptAll(now.where("final").select(same))
        .isEmpty()
    )
    assert entries.agg(F.sum("net.views")).first() == now.where("final").agg(F.sum("views")).first()
