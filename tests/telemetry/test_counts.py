"""Every number of a run equals the number that its topic and its tables give."""

from __future__ import annotations

import logging
import re
import threading
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import page, pages_input, send_records
from tests.support.query_probe import free_port, samples, scrape_metrics
from tidegate import Job, run
from tidegate.aggregates import count
from tidegate.cli.status_command import OutputFolder, describe_checkpoint, group_by_job, table_rows
from tidegate.engine.runner import describe_open_results
from tidegate.sinks import CorrectedWindows
from tidegate.testing import Broker
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = pytest.mark.jobs

RECORDS: list[float | str] = [
    *(1, 4, 4, "no record", 12, 15, 23, 31),
    *(38, 44, 2, 8, "{}", 57, 59, page("other", 26)),
    *(130, 131, 5, 3, 122, "[]", 140, 155),
    *(158, 152, "[1]", 129, 153, 151, 159, 160),
    *(161, 6, 7, 162, 165, 166, 168, 169),
]
"""Five batches with duplicates, dead letters, a filtered row, and late rows: merged and others."""


class Poll(threading.Thread):
    """Scrapes the metrics of a run until it ends."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port, self.last, self.done = port, "", threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.05):
            try:
                self.last = scrape_metrics(self.port)
            except OSError:
                continue


@pytest.mark.broker
def test_the_numbers_of_a_run_are_those_of_its_topic_and_tables(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, RECORDS)
    views = WindowAggregation(Tumbling("10 seconds"), by="page", aggs={"n": count()})
    pages = pages_input(broker.bootstrap_servers, topic, max_records=8)
    port = free_port()
    job = Job(
        name="counted",
        inputs={"pages": replace(pages, where="page = 'p0'")},
        transform=views,
        sink=CorrectedWindows(f"{tmp_path}/views", aggregation=views, log=f"{tmp_path}/log"),
        allowed_lateness="1 minute",
        metrics_port=port,
        report=f"{tmp_path}/run.html",
    )
    poll = Poll(port)
    poll.start()
    with caplog.at_level(logging.INFO, "tidegate"):
        summary = run(job, spark)
    poll.done.set()
    poll.join()
    views_rows, log = rows(tmp_path / "views"), rows(tmp_path / "log")
    late, dead = len(rows(tmp_path / "views.late")), len(rows(tmp_path / "views.dead_letters"))
    by_window = defaultdict(list)
    for row in sorted(log, key=lambda row: row["version"]):
        by_window[row["window"]["start"]].append(row["new"]["n"])
    merged = sum(counts[-1] - counts[0] for counts in by_window.values())
    filtered, still_open = 1, sum(isinstance(each, int) and each >= 160 for each in RECORDS)
    counted = sum(row["n"] for row in views_rows)
    assert dead == 4
    assert late == 2
    assert merged > 0
    assert counted + late + dead + filtered + still_open == len(RECORDS)

    expected = {
        "rows_in": len(RECORDS),
        "rows_out": len(views_rows),
        "dead_letters": dead,
        "late_rows": late + merged,
        "corrected_rows": merged,
        "filtered_rows": filtered,
        "lost_offsets": 0,
        "clamped_rows": 0,
        "skipped_batches": 0,
        "batches_over_late_limit": 0,
    }
    totals = summary.as_dict()
    assert {name: totals[name] for name in expected} == expected

    scraped = {name: value for name, labels, value in samples(poll.last) if not labels}
    metric_names = {"rows_in": "rows_read", "rows_out": "rows_written"}
    assert {
        name: scraped[f"tidegate_{metric_names.get(name, name)}_total"] for name in expected
    } == expected
    reasons = [
        v for name, _, v in samples(poll.last) if name == "tidegate_dead_letters_by_reason_total"
    ]
    assert sum(reasons) == dead

    *_, line = [message for message in caplog.messages if " rows/s | " in message]
    assert (
        f"| in {len(RECORDS)} out {len(views_rows)} late {late + merged} ({merged} merged) "
        f"dead {dead} filtered {filtered} |" in line
    )
    assert "| lag 0 | watermark 2026-03-02 09:02:49 |" in line

    html = (tmp_path / "run.html").read_text()
    report = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html))
    assert {name: int(value) for name, value in report.items() if value.isdigit()} == {
        "batches": summary.batches,
        "rows read": len(RECORDS),
        "rows written": len(views_rows),
        "late rows": late + merged,
        "dead letters": dead,
        "lag (records)": 0,
        "late rows merged": merged,
        "filtered rows": filtered,
    }

    (status,) = group_by_job(*OutputFolder(str(tmp_path)).scan())
    assert {row.output: row.rows for row in table_rows(status)} == {
        "windows": len(log),
        "windows_log": len(log),
        "dead_letters": dead,
        "late": late,
    }
    description = " ".join(describe_checkpoint(status))
    assert f"Read: {len(RECORDS)} offsets of {topic}, in batches 0 to" in description
    assert "the watermark is 2026-03-02T09:02:49Z" in description
    assert "the watermark is 2026-03-02 09:02:49Z" in str(describe_open_results(job, spark))
