"""Metrics of a job over HTTP, and the telemetry behind them."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Mapping

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.query_probe import (
    RECORD_AGE_SECONDS,
    RETENTION_SECONDS,
    ProbedRun,
    free_port,
    samples,
    scrape_metrics,
)
from tests.telemetry.test_console import REPORT, example_summary
from tidegate import Limits, Summary, __version__
from tidegate.commit.batch import BatchStats
from tidegate.engine.accounting import describe_excess_late_rows
from tidegate.errors import SetupError
from tidegate.telemetry.batch_progress import PartitionKey, parse_progress
from tidegate.telemetry.lag import oldest_ages
from tidegate.telemetry.prometheus import PrometheusCollector, serve_metrics
from tidegate.telemetry.run_metrics import MAX_REASONS, OTHER_REASON, BatchHistory, RunMetrics


def new_metrics(summary: Summary | None = None) -> RunMetrics:
    return RunMetrics(summary or example_summary(), clock=lambda: 1_772_442_000.0)


def scrape_samples(port: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {(name, labels): value for name, labels, value in samples(scrape_metrics(port))}


def test_metrics_are_served_during_the_run_only() -> None:
    metrics, port = new_metrics(), free_port()
    with serve_metrics(PrometheusCollector(metrics), port):
        assert scrape_samples(port)["tidegate_late_rows_total", ()] == 2
        assert ("tidegate_watermark_timestamp_seconds", ()) not in scrape_samples(port)
        metrics.add_progress(parse_progress(REPORT))
        late = BatchStats(
            number=2,
            rows_in=9,
            rows_out=4,
            dead_letters=0,
            late_rows=5,
            corrected_rows=3,
            is_over_late_limit=True,
            watermarks={},
            outcome="written",
        )
        metrics.add_batch(late)
        scraped = scrape_samples(port)
    assert scraped["tidegate_late_rows_total", ()] == 7
    assert scraped["tidegate_corrected_rows_total", ()] == 3
    assert scraped["tidegate_batches_over_late_limit_total", ()] == 1
    partition = (("partition", "0"), ("topic", "clicks"))
    assert scraped["tidegate_lag_rows", partition] == 20
    assert scraped["tidegate_watermark_timestamp_seconds", ()] == 1772442351.25
    with pytest.raises(OSError, match="refused"):
        scrape_metrics(port)


def test_metrics_are_served_to_this_machine_only_unless_an_address_is_configured() -> None:
    collector, port = PrometheusCollector(new_metrics()), free_port()
    other = f"http://127.0.0.2:{port}/metrics"
    with serve_metrics(collector, port), pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(other, timeout=10)
    with (
        serve_metrics(collector, port, "127.0.0.2"),
        urllib.request.urlopen(other, timeout=10) as answer,
    ):
        assert b"tidegate_rows_read_total" in answer.read()


def test_an_occupied_port_is_an_error_and_without_a_port_nothing_is_served() -> None:
    collector = PrometheusCollector(new_metrics(Summary(job="j")))
    with serve_metrics(collector, None), socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        with (
            pytest.raises(SetupError, match="a free port"),
            serve_metrics(collector, listener.getsockname()[1]),
        ):
            pass


def test_each_batch_counts_once_in_the_histogram() -> None:
    metrics = new_metrics()
    for number, seconds in enumerate((0.1, 0.11, 40, 40_000)):
        report = {"batchId": number, "durationMs": {"triggerExecution": seconds * 1_000}}
        metrics.add_progress(parse_progress(report))
        metrics.add_progress(parse_progress(report))
    buckets = {
        dict(labels)["le"]: value
        for name, labels, value in samples(generate_latest(PrometheusCollector(metrics)).decode())
        if name == "tidegate_batch_duration_seconds_bucket"
    }
    assert (buckets["0.1"], buckets["0.25"], buckets["30.0"], buckets["60.0"]) == (1, 2, 2, 3)
    assert (buckets["1800.0"], buckets["+Inf"]) == (3, 4)


def test_reasons_are_bounded_and_add_up_to_the_dead_letters() -> None:
    metrics = new_metrics(Summary(job="j"))
    for number in range(40):
        batch_stats = BatchStats(
            number=number,
            rows_in=3,
            rows_out=0,
            dead_letters=3,
            late_rows=0,
            watermarks={},
            dead_letter_reasons={("decode", f"{number:02} is not a page" + "!" * 500): 2},
            outcome="written",
        )
        metrics.add_batch(batch_stats)
    reasons = metrics.snapshot().dead_letter_reasons
    assert len(reasons) == MAX_REASONS + 1
    assert sum(reasons.values()) == metrics.summary.dead_letters == 120
    assert reasons[OTHER_REASON] == 40 + 2 * 20
    assert max(len(reason) for _, reason in reasons) <= 120


def test_the_ages_of_all_partitions_are_found_with_few_requests() -> None:
    now = 10**12
    ages = {("t", 0): 0, ("t", 1): 900, ("t", 2): 3_600_000, ("t", 3): 10**11}
    requests = 0

    def find_older(instants: Mapping[PartitionKey, int]) -> set[PartitionKey]:
        nonlocal requests
        requests += 1
        return {part for part, instant in instants.items() if now - ages[part] < instant}

    found = oldest_ages(set(ages), find_older, now)
    assert all(age <= found[part] <= age * 1.1 + 32 for part, age in ages.items())
    assert requests <= 25
    assert oldest_ages(set(), find_older, now) == {}


def test_the_history_of_a_long_run_is_bounded_and_its_sums_stay_exact() -> None:
    history = BatchHistory(max_buckets=10)
    for number in range(1_234):
        batch_stats = BatchStats(
            number=number,
            rows_in=3,
            rows_out=2,
            dead_letters=1,
            late_rows=1,
            watermarks={},
            outcome="written",
        )
        history.add(batch_stats, None if number % 2 else parse_progress(REPORT), now=number)
    buckets = history.buckets
    assert 10 <= len(buckets) < 20
    assert [each.first_batch for each in buckets[1:]] == [
        each.last_batch + 1 for each in buckets[:-1]
    ]
    assert (buckets[0].first_batch, buckets[-1].last_batch) == (0, 1_233)
    sums = [(s.batches, s.rows_in, s.dead_letters, s.reported_batches, s.seconds) for s in buckets]
    assert [sum(each) for each in zip(*sums, strict=True)] == [1_234, 3_702, 1_234, 617, 1_234.0]


@pytest.mark.broker
def test_a_scrape_of_a_real_run_has_rows_ages_headroom_and_reasons(probed_run: ProbedRun) -> None:
    scraped = probed_run.samples
    partition = (("partition", "0"), ("topic", probed_run.topic))
    topic = (("topic", probed_run.topic),)
    assert scraped["tidegate_rows_read_total", ()] == scraped["tidegate_batches_total", ()] * 7 == 7
    assert scraped["tidegate_dead_letters_total", ()] == 1
    reasons = [key for key in scraped if key[0] == "tidegate_dead_letters_by_reason_total"]
    assert [dict(labels)["stage"] for _, labels in reasons] == ["decode"]
    assert scraped["tidegate_lag_rows", partition] == 7
    assert scraped["tidegate_state_bytes", ()] > 0
    assert ("tidegate_state_rows", ()) not in scraped
    assert "State memory" in probed_run.report_html
    assert "State rows" not in probed_run.report_html
    assert (
        RECORD_AGE_SECONDS <= scraped["tidegate_lag_seconds", partition] <= 1.2 * RECORD_AGE_SECONDS
    )
    assert scraped["tidegate_lag_seconds", (("partition", "1"), ("topic", probed_run.topic))] == 0
    assert scraped["tidegate_retention_seconds", topic] == RETENTION_SECONDS
    headroom = RETENTION_SECONDS - scraped["tidegate_lag_seconds", partition]
    assert scraped["tidegate_headroom_seconds", topic] == headroom
    assert scraped["tidegate_headroom_rows", partition] == 7
    assert scraped["tidegate_batch_duration_seconds_count", ()] == 1
    info = next(dict(labels) for name, labels in scraped if name == "tidegate_info")
    assert (info["tidegate_job"], info["version"]) == ("watched", __version__)
    assert len(info["query"]) == 36


@pytest.mark.broker
def test_metrics_follow_the_naming_conventions_and_avoid_prometheus_labels(
    probed_run: ProbedRun,
) -> None:
    for family in text_string_to_metric_families(probed_run.scrape):
        assert family.documentation, family.name
        assert family.name.startswith("tidegate")
        is_counter = family.type == "counter"
        for sample in family.samples:
            assert not {"job", "instance"} & sample.labels.keys()
            assert sample.name.endswith("_total") == is_counter
        if "timestamp" in family.name:
            assert family.name.endswith("_timestamp_seconds")


@pytest.mark.parametrize(
    ("rows", "late", "limits", "message"),
    [
        (10_000, 1_000, Limits(), None),
        (
            10_000,
            1_001,
            Limits(),
            "1,001 of 10,000 rows of batch 3 were late; limits.late_ratio is 10.0%",
        ),
        (999, 999, Limits(), None),
        (
            50,
            6,
            Limits(late_rows=5),
            "6 of 50 rows of batch 3 were late; limits.late_rows is 5",
        ),
        (10_000, 9_999, Limits(late_ratio=None), None),
    ],
)
def test_more_late_rows_than_the_limits_allow_raise_an_alarm(
    rows: int, late: int, limits: Limits, message: str | None
) -> None:
    assert (
        describe_excess_late_rows(BatchStats(number=3, rows_in=rows, late_rows=late), limits)
        == message
    )
