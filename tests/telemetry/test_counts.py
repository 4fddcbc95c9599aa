"""Every number of a run equals the number that its topic and its tables give."""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tests.cli.test_cli import invoke
from tests.support.delta_tables import rows
from tests.support.kafka_topics import page, pages_input, send_records
from tests.support.query_probe import free_port, samples, scrape_metrics
from tidegate import Input, Job, KafkaSource, Limits, Rule, Summary, json_format, run
from tidegate.aggregates import count
from tidegate.aggregates import sum as sum_of
from tidegate.cli.status_command import OutputFolder, describe_checkpoint, group_by_job, table_rows
from tidegate.commit.table_log import parse_stamp
from tidegate.engine.runner import describe_open_results
from tidegate.errors import TidegateError
from tidegate.jobs.job_command import format_summary
from tidegate.sinks import Append, CorrectedWindows
from tidegate.telemetry.console import ProgressDisplay
from tidegate.testing import Broker
from tidegate.testing.crash_points import crash_after
from tidegate.transform import Stateful
from tidegate.windows import Tumbling, WindowAggregation, tumbling

pytestmark = pytest.mark.jobs

RECORDS: list[float | str] = [
    *(1, 4, 4, "no record", 12, 15, 23, 31),
    *(38, 44, 2, 8, "{}", 57, 59, page("other", 26)),
    *(130, 131, 5, 3, 122, "[]", 140, 155),
    *(158, 152, "[1]", 129, 153, 151, 159, 160),
    *(161, 6, 7, 162, 165, 166, 168, 169),
]
"""Five batches with duplicates, dead letters, a filtered row, and late rows: merged and others."""


class ScrapingDisplay(ProgressDisplay):
    """Scrapes the metrics of a run with each progress report, the last time after its last batch.

    An independent thread could miss the last batch.
    """

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port, self.last_scrape = port, ""

    def show_batch(self, text: str, number: int) -> None:
        super().show_batch(text, number)
        self.last_scrape = scrape_metrics(self.port)


def run_and_scrape(job: Job, spark: SparkSession) -> tuple[Summary, str]:
    """Return the summary of a run, and its metrics after the last batch."""
    assert job.metrics_port is not None
    display = ScrapingDisplay(job.metrics_port)
    return run(job, spark, display=display), display.last_scrape


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
    job = Job(
        name="counted",
        inputs={"pages": replace(pages, where="page = 'p0'")},
        transform=views,
        sink=CorrectedWindows(f"{tmp_path}/views", aggregation=views, log=f"{tmp_path}/log"),
        allowed_lateness="1 minute",
        metrics_port=free_port(),
        report=f"{tmp_path}/run.html",
    )
    with caplog.at_level(logging.INFO, "tidegate"):
        summary, scrape = run_and_scrape(job, spark)
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

    scraped = {name: value for name, labels, value in samples(scrape) if not labels}
    metric_names = {"rows_in": "rows_read", "rows_out": "rows_written"}
    assert {
        name: scraped[f"tidegate_{metric_names.get(name, name)}_total"] for name in expected
    } == expected
    reasons = [
        v for name, _, v in samples(scrape) if name == "tidegate_dead_letters_by_reason_total"
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


MINUTE = datetime(2026, 3, 2, 9, tzinfo=UTC)
MAX_LONG = 2**63 - 1
REPORTED = {
    "rows read": "rows_in",
    "rows written": "rows_out",
    "late rows": "late_rows",
    "dead letters": "dead_letters",
    "clamped rows": "clamped_rows",
    "filtered rows": "filtered_rows",
    "discarded rows": "discarded_rows",
    "overflows": "overflows",
    "lost offsets": "lost_offsets",
    "skipped batches": "skipped_batches",
}
"""The totals of the report, and the names of the same numbers in the summary."""
EXPORTED = {"rows_in": "rows_read", "rows_out": "rows_written"}
"""The names of metrics that differ from those of the summary."""


def produce_values(
    broker: Broker, topic: str, values: Sequence[tuple[str, int, float] | str], partition: int = 0
) -> None:
    """Send a key, a value and a second for each record, all with the same Kafka timestamp."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for value in values:
        record = value
        if not isinstance(value, str):
            key, number, second = value
            at = (MINUTE + timedelta(seconds=second)).isoformat()
            record = json.dumps({"key": key, "value": number, "at": at})
        timestamp = int(MINUTE.timestamp() * 1000)
        producer.produce(topic, str(record).encode(), partition=partition, timestamp=timestamp)
    producer.flush()


def rows_by_batch(table: Path) -> dict[int, int]:
    """Return the number of rows that each batch has appended to a table, from its versions."""
    found: dict[int, int] = {}
    number = 0
    for commit in sorted((table / "_delta_log").glob("*.json")):
        total = DeltaTable(table, version=int(commit.stem)).to_pyarrow_table().num_rows
        stamp = parse_stamp(commit.read_bytes())
        if stamp is not None:
            found[stamp.batch] = found.get(stamp.batch, 0) + total - number
        number = total
    return found


def reported_batches(html: str) -> dict[int, dict[str, int]]:
    """Return the numbers of rows of each batch in a report."""
    table = html[html.index("<h2>Batches</h2>") :]
    names = re.findall(r"<th(?: [^>]*)?>(.*?)</th>", table)
    batches = [
        dict(zip(names, re.findall(r"<td.*?>(.*?)</td>", row), strict=True))
        for row in re.findall(r"<tr>(<td.*?)</tr>", table)
    ]
    counts = ("rows read", "rows written", "late rows", "dead letters")
    return {int(each["batches"]): {name: int(each[name]) for name in counts} for each in batches}


def require_numbers(
    summary: Summary, scrape: str, html: str, expected: dict[str, int], rules: dict[str, int]
) -> None:
    """Require numbers of the summary, of the metrics endpoint and of the report alike."""
    totals = summary.as_dict()
    assert {name: totals[name] for name in expected} == expected
    assert summary.rule_violations == rules
    scraped = {name: value for name, labels, value in samples(scrape) if not labels}
    assert {
        name: scraped[f"tidegate_{EXPORTED.get(name, name)}_total"] for name in expected
    } == expected
    violations = {
        dict(labels)["rule"]: value
        for name, labels, value in samples(scrape)
        if name == "tidegate_rule_violations_total"
    }
    assert violations == rules
    report = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html))
    assert {name: int(report.get(name, "0")) for name in REPORTED} == {
        name: expected[field] for name, field in REPORTED.items()
    }
    for rule, number in rules.items():
        assert re.search(rf"<td[^>]*>{rule}</td><td[^>]*>{number}</td>", html)


@pytest.mark.broker
def test_rare_numbers_are_the_same_in_the_summary_metrics_report_status_and_tables(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    values = Input(
        KafkaSource(broker.bootstrap_servers, topic, on_data_loss="record"),
        json_format("key STRING, value BIGINT, at TIMESTAMP"),
        time="at",
        watermark_delay="0 seconds",
        where="key <> 'skipped'",
        future_tolerance="10 minutes",
        on_future="clamp",
        rules=[
            Rule("positive", "value > 0", on_error="drop"),
            Rule("named", "key <> 'unnamed'"),
        ],
    )
    job = Job(
        name="rare",
        inputs={"values": values},
        transform=WindowAggregation(
            Tumbling("1 minute"), by="key", aggs={"n": count(), "total": sum_of("value")}
        ),
        sink=Append(f"{tmp_path}/sums"),
        limits=Limits(late_rows=0, dead_ratio=None),
        metrics_port=free_port(),
        report=f"{tmp_path}/run.html",
    )
    first: list[tuple[str, int, float] | str] = [("a", 1, 1), ("a", 2, 2), ("b", 3, 61)]
    produce_values(broker, topic, first)
    produce_values(broker, topic, [("a", 1, 3)], partition=1)
    run(job, spark)
    second: list[tuple[str, int, float] | str] = [("a", 4, 62), ("b", 5, 125)]
    produce_values(broker, topic, second)
    # The batch that emits the closed windows is in the table only.
    with crash_after(tmp_path / "sums"), pytest.raises(TidegateError, match="after batch"):
        run(job, spark)
    future = timedelta(days=30).total_seconds()
    third: list[tuple[str, int, float] | str] = [
        *(("over", MAX_LONG, 130), ("over", 1, 131)),
        *(("a", -1, 132), ("a", -2, 132), ("unnamed", 1, 133), ("c", 6, future)),
        *("no record", "{}", ("a", 7, 5), ("a", 8, 140)),
    ]
    lost, retained = [("a", 9, 141), ("a", 9, 142)], [("skipped", 1, 143), ("a", 10, 144)]
    produce_values(broker, topic, third)
    produce_values(broker, topic, [*lost, *retained], partition=1)
    broker.delete_records(topic, {1: 3})
    summary, scrape = run_and_scrape(job, spark)

    written = rows_by_batch(tmp_path / "sums")
    late = rows_by_batch(tmp_path / "sums.late")
    dead = rows_by_batch(tmp_path / "sums.dead_letters")
    (gap,) = rows(tmp_path / "sums.offset_gaps")
    assert gap["end_offset"] - gap["start_offset"] == len(lost)
    results = rows(tmp_path / "sums")
    overflows = [row for row in results if row["total"] is None]
    assert [(row["key"], row["n"]) for row in overflows] == [("over", 2)]
    html = (tmp_path / "run.html").read_text()
    batches = reported_batches(html)
    rows_in = len(third) + len(retained)
    expected = {
        "rows_in": rows_in,
        "rows_out": sum(written.get(batch, 0) for batch in batches),
        "dead_letters": sum(dead.values()),
        "late_rows": sum(late.values()),
        "clamped_rows": 1,
        "filtered_rows": 1,
        "discarded_rows": 2,
        "overflows": len(overflows),
        "lost_offsets": len(lost),
        "skipped_batches": 1,
        "batches_over_late_limit": 1,
    }
    require_numbers(summary, scrape, html, expected, {"positive": 2, "named": 1})
    per_batch = {"rows written": written, "late rows": late, "dead letters": dead}
    assert {
        batch: {name: counts[name] for name in per_batch} for batch, counts in batches.items()
    } == {
        batch: {name: numbers.get(batch, 0) for name, numbers in per_batch.items()}
        for batch in batches
    }
    assert [counts["rows read"] for counts in batches.values() if counts["rows read"]] == [rows_in]
    assert format_summary(summary, "written").endswith(
        f": {rows_in} rows read, {expected['rows_out']} written, 1 late, 3 dead letters, "
        "1 filtered out, 2 discarded, 1 clamped, 1 overflows, 2 lost offsets, 1 batches skipped"
    )

    code, output = invoke("status", str(tmp_path), "--json")
    assert code == 0, output
    (status,) = map(json.loads, output.splitlines())
    number_of_records = len(first) + 1 + len(second) + len(third) + len(lost) + len(retained)
    assert status["read"] == number_of_records
    assert {table["output"]: table["rows"] for table in status["tables"]} == {
        "append": len(results),
        "dead_letters": 3,
        "late": 1,
        "offset_gaps": 1,
    }
    counts = {"filtered": 1, "discarded": 2, "overflows": 1, "rule positive": 2, "rule named": 1}
    assert status["counts"] == counts
    code, output = invoke("status", str(tmp_path))
    line = "Counts: discarded 2, filtered 1, overflows 1, rule named 1, rule positive 2."
    assert line in output.splitlines()
    assert status["batch"] == max(batches)
    assert status["unfinished_batch"] is None
    # The clamped event is 10 minutes after the Kafka timestamp.
    assert status["watermark"] == "2026-03-02T09:10:00Z"
    open_rows = [row for row in results if row["key"] == "c"]
    assert open_rows == []


@pytest.mark.broker
def test_the_numbers_of_a_job_with_two_inputs_are_those_of_both(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    first, second = f"{topic}-first", f"{topic}-second"
    for name in (first, second):
        broker.create_topic(name, partitions=1, retention_ms=-1)
    # Batches of three rows of each input; the minimum of both watermarks counts.
    first_records: list[float | str] = [10, 70, 200, 5, "no json", 210, 220, 330, 15]
    second_records: list[float | str] = [20, 75, 190, 140, 195, 80, "{}", 400, 100]
    send_records(broker.bootstrap_servers, first, first_records)
    send_records(broker.bootstrap_servers, second, second_records)

    def both(one: DataFrame, other: DataFrame) -> DataFrame:
        return tumbling(one.unionByName(other), "1 minute", aggs={"n": count()})

    job = Job(
        name="both",
        inputs={
            name: pages_input(broker.bootstrap_servers, each, max_records=3)
            for name, each in (("first", first), ("second", second))
        },
        transform=Stateful(both, late_from=Tumbling("1 minute").late_at),
        sink=Append(f"{tmp_path}/views"),
        late_rows={name: f"{tmp_path}/late_{name}" for name in ("first", "second")},
        limits=Limits(dead_ratio=None),
        metrics_port=free_port(),
        report=f"{tmp_path}/run.html",
    )
    summary, scrape = run_and_scrape(job, spark)
    written = rows_by_batch(tmp_path / "views")
    dead = rows_by_batch(tmp_path / "views.dead_letters")
    late = [rows_by_batch(tmp_path / f"late_{name}") for name in ("first", "second")]
    html = (tmp_path / "run.html").read_text()
    expected = dict.fromkeys((*REPORTED.values(), "corrected_rows", "batches_over_late_limit"), 0)
    expected |= {
        "rows_in": len(first_records) + len(second_records),
        "rows_out": sum(written.values()),
        "dead_letters": sum(dead.values()),
        "late_rows": sum(sum(each.values()) for each in late),
    }
    assert (expected["dead_letters"], expected["late_rows"]) == (2, 2)
    require_numbers(summary, scrape, html, expected, {})
    batches = reported_batches(html)
    assert [counts["rows read"] for counts in batches.values() if counts["rows read"]] == [6, 6, 6]
    for batch, counts in batches.items():
        assert counts["rows written"] == written.get(batch, 0)
        assert counts["dead letters"] == dead.get(batch, 0)
        assert counts["late rows"] == sum(each.get(batch, 0) for each in late)
    # The second input is behind: its last event is at 400 s, and the first input's at 330 s.
    assert summary.slowest_stream == first
    lags = {
        dict(labels)["topic"]: value
        for name, labels, value in samples(scrape)
        if name == "tidegate_lag_rows"
    }
    assert lags == {first: 0, second: 0}

    code, output = invoke("status", str(tmp_path), "--servers", broker.bootstrap_servers, "--json")
    assert code == 0, output
    (status,) = map(json.loads, output.splitlines())
    assert {table["output"]: table["rows"] for table in status["tables"]} == {
        "append": expected["rows_out"],
        "dead_letters": 2,
        "late_first": 1,
        "late_second": 1,
    }
    assert status["read"] == expected["rows_in"]
    assert status["watermark"] == "2026-03-02T09:05:30Z"
