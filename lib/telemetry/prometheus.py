"""Metrics of a run over HTTP for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from .. import __version__
from ..errors import SetupError
from .batch_progress import PartitionKey
from .lag import ConsumerLag
from .run_metrics import DURATION_BUCKETS, MetricsSnapshot, RunMetrics

LOOPBACK = "127.0.0.1"
"""Metrics are served to this machine only, unless an address is configured."""


class PrometheusCollector(Collector):
    """Exports the metrics of a run at each scrape.

    docs/reference/metrics.md lists the metrics and their units. Counters start at 0 with each run.
    The label `job` belongs to Prometheus; the name of the job is in `tidegate_info`. An unknown
    value, such as the watermark before the first event, is omitted.
    """

    def __init__(self, run_metrics: RunMetrics) -> None:
        self._run_metrics = run_metrics

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        snapshot = self._run_metrics.snapshot()
        labels = {
            "tidegate_job": snapshot.summary.job,
            "version": __version__,
            "query": snapshot.query or "",
        }
        yield InfoMetricFamily("tidegate", "The job, the library and Spark's query.", value=labels)
        yield from _counter_metrics(snapshot)
        yield _duration_histogram(snapshot)
        yield from _gauge_metrics(snapshot)
        yield _partition_gauge("tidegate_lag_rows", "Unread records.", snapshot.lag_by_partition)
        if snapshot.consumer_lag is not None:
            yield from _lag_metrics(snapshot.consumer_lag)


def _counter_metrics(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    summary = snapshot.summary
    for name, description, number in (
        ("tidegate_rows_read", "Records read.", summary.rows_in),
        ("tidegate_rows_written", "Rows written to the target.", summary.rows_out),
        ("tidegate_dead_letters", "Records that were rejected.", summary.dead_letters),
        ("tidegate_late_rows", "Rows behind the watermark.", summary.late_rows),
        ("tidegate_corrected_rows", "Late rows merged into windows.", summary.corrected_rows),
        ("tidegate_clamped_rows", "Rows with a clamped event time.", summary.clamped_rows),
        ("tidegate_filtered_rows", "Valid rows that `where` removed.", summary.filtered_rows),
        ("tidegate_discarded_rows", "Rows removed by on_error = drop.", summary.discarded_rows),
        ("tidegate_overflows", "Results that do not fit their types.", summary.overflows),
        ("tidegate_dropped_rows", "Rows that Spark dropped as late.", snapshot.dropped_rows),
        ("tidegate_batches", "Batches.", summary.batches),
        ("tidegate_skipped_batches", "Batches already in the table.", summary.skipped_batches),
        (
            "tidegate_batches_over_late_limit",
            "Batches with more late rows than allowed.",
            summary.batches_over_late_limit,
        ),
        ("tidegate_lost_offsets", "Offsets deleted before they were read.", summary.lost_offsets),
    ):
        yield CounterMetricFamily(name, description, number)
    dead = CounterMetricFamily(
        "tidegate_dead_letters_by_reason",
        "Dead letters by stage and reason.",
        labels=["stage", "reason"],
    )
    for labels, rows in snapshot.dead_letter_reasons.items():
        dead.add_metric(labels, rows)
    yield dead
    violations = CounterMetricFamily(
        "tidegate_rule_violations", "Rows that violate a rule.", labels=["rule"]
    )
    for rule, rows in summary.rule_violations.items():
        violations.add_metric([rule], rows)
    yield violations


def _duration_histogram(snapshot: MetricsSnapshot) -> Metric:
    counts = [*accumulate(snapshot.duration_counts)]
    bounds = [*map(str, DURATION_BUCKETS), "+Inf"]
    return HistogramMetricFamily(
        "tidegate_batch_duration_seconds",
        "Durations of batches.",
        buckets=[*zip(bounds, counts, strict=True)],
        sum_value=snapshot.total_seconds,
    )


def _gauge_metrics(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "tidegate_start_timestamp_seconds", "Start of the run.", snapshot.started_at
    )
    last_batch = snapshot.last_progress
    if last_batch is None:
        return
    for name, description, value in (
        ("tidegate_last_batch_timestamp_seconds", "End of the last batch.", last_batch.ended_at),
        ("tidegate_last_batch_duration_seconds", "Last batch's duration.", last_batch.seconds),
        ("tidegate_watermark_timestamp_seconds", "The watermark.", last_batch.watermark_seconds),
        ("tidegate_state_rows", "State rows after the last batch.", last_batch.state_rows),
        ("tidegate_state_bytes", "State memory after the last batch.", last_batch.state_bytes),
    ):
        if value is not None:
            yield GaugeMetricFamily(name, description, value)


def _lag_metrics(lag: ConsumerLag) -> Iterator[Metric]:
    yield _partition_gauge("tidegate_lag_seconds", "Age of the oldest unread record.", lag.seconds)
    yield _partition_gauge(
        "tidegate_headroom_rows",
        "Read records that retention deletes before an unread one.",
        lag.headroom_rows,
    )
    for name, description, values in (
        ("retention", "The topic's retention time.", lag.retention_seconds),
        ("headroom", "Time until retention deletes an unread record.", lag.headroom_seconds),
    ):
        family = GaugeMetricFamily(f"tidegate_{name}_seconds", description, labels=["topic"])
        for topic, value in values.items():
            family.add_metric([topic], value)
        yield family


def _partition_gauge(name: str, description: str, values: Mapping[PartitionKey, float]) -> Metric:
    family = GaugeMetricFamily(name, description, labels=["topic", "partition"])
    for (topic, partition), value in values.items():
        family.add_metric([topic, str(partition)], value)
    return family


@contextmanager
def serve_metrics(
    collector: PrometheusCollector, port: int | None, address: str = LOOPBACK
) -> Iterator[None]:
    """Serve http://`address`:`port`/metrics while the block runs; do nothing without a port."""
    if port is None:
        yield
        return
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise SetupError(
            f"cannot serve metrics at {address}:{port}",
            str(error.strerror),
            "choose an address of this machine and a free port: metrics.port=9109",
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
