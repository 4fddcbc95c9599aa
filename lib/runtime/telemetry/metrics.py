"""Metrics for machines: a run's numbers over HTTP, as Prometheus reads them."""

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

from ... import __version__
from ...errors import SetupError
from .behind import Behind
from .gauge import Place
from .record import BUCKETS, Record, Snapshot

LOOPBACK = "127.0.0.1"
"""This machine alone: whoever reads the numbers from elsewhere has to be let in by an address."""
_PLACE = ("topic", "partition")


class Metrics(Collector):
    """The numbers of a run and of its last batch, read whenever they are asked for.

    Which there are, with their units, is told in docs/guides/running.md. The totals begin at 0 with
    each run. No metric bears the label `job`, which is Prometheus' own for what it scrapes: the
    job's name is in `tidegate_info`. What is not known, such as a watermark before the first event,
    is left out.
    """

    def __init__(self, record: Record) -> None:
        self._record = record

    def collect(self) -> Iterator[Metric]:
        """Return the numbers as they are now."""
        now = self._record.now()
        labels = {"tidegate_job": now.summary.job, "version": __version__, "query": now.query or ""}
        yield InfoMetricFamily("tidegate", "The job, the library and Spark's query.", value=labels)
        yield from _counters(now)
        yield _durations(now)
        yield from _gauges(now)
        yield _by_place("tidegate_lag_rows", "Records that wait to be read.", now.lag)
        if now.behind is not None:
            yield from _of_brokers(now.behind)


def _counters(now: Snapshot) -> Iterator[Metric]:
    done = now.summary
    for name, told, number in (
        ("tidegate_rows_read", "Records that were read.", done.rows_in),
        ("tidegate_rows_written", "Rows that came out.", done.rows_out),
        ("tidegate_rows_dead", "Records that could not be read.", done.dead),
        ("tidegate_rows_late", "Rows that came too late.", done.late),
        ("tidegate_rows_corrected", "Late rows merged into their windows.", done.corrected),
        ("tidegate_rows_clamped", "Rows whose time was brought back.", done.clamped),
        ("tidegate_rows_filtered", "Good rows that `where` left out.", done.filtered),
        ("tidegate_rows_dropped", "Rows that Spark's operators dropped as late.", now.dropped),
        ("tidegate_batches", "Batches.", done.batches),
        ("tidegate_batches_skipped", "Batches that the table had already.", done.skipped),
        ("tidegate_late_alarms", "Batches with too many late rows.", done.alarms),
        ("tidegate_lost_offsets", "Offsets that were gone before they were read.", done.lost),
    ):
        yield CounterMetricFamily(name, told, number)
    dead = CounterMetricFamily(
        "tidegate_dead_letters",
        "Records that could not be read, by their reasons.",
        labels=["stage", "reason"],
    )
    for labels, rows in now.reasons.items():
        dead.add_metric(labels, rows)
    yield dead


def _durations(now: Snapshot) -> Metric:
    counts = [*accumulate(now.buckets)]
    bounds = [*map(str, BUCKETS), "+Inf"]
    return HistogramMetricFamily(
        "tidegate_batch_duration_seconds",
        "The batches' times.",
        buckets=[*zip(bounds, counts, strict=True)],
        sum_value=now.seconds,
    )


def _gauges(now: Snapshot) -> Iterator[Metric]:
    yield GaugeMetricFamily("tidegate_start_timestamp_seconds", "When the run began.", now.started)
    last = now.last
    if last is None:
        return
    for name, told, value in (
        ("tidegate_last_batch_timestamp_seconds", "When the last batch ended.", last.ended),
        ("tidegate_last_batch_duration_seconds", "How long the last batch took.", last.seconds),
        ("tidegate_watermark_timestamp_seconds", "The watermark.", last.mark),
        ("tidegate_state_rows", "Rows of state after the last batch.", last.state_rows),
        ("tidegate_state_bytes", "The state after the last batch.", last.state_bytes),
    ):
        if value is not None:
            yield GaugeMetricFamily(name, told, value)


def _of_brokers(told: Behind) -> Iterator[Metric]:
    yield _by_place("tidegate_lag_seconds", "The oldest unread record's age.", told.seconds)
    yield _by_place(
        "tidegate_head_room_rows", "Read records that are deleted before an unread one.", told.kept
    )
    for name, about, values in (
        ("tidegate_retention_seconds", "How long a topic keeps records.", told.retention),
        ("tidegate_head_room_seconds", "How long all unread is still kept.", told.head_room),
    ):
        family = GaugeMetricFamily(name, about, labels=["topic"])
        for topic, value in values.items():
            family.add_metric([topic], value)
        yield family


def _by_place(name: str, told: str, values: Mapping[Place, float]) -> Metric:
    family = GaugeMetricFamily(name, told, labels=_PLACE)
    for (topic, partition), value in values.items():
        family.add_metric([topic, str(partition)], value)
    return family


@contextmanager
def served(metrics: Metrics, port: int | None, address: str = LOOPBACK) -> Iterator[None]:
    """Answer at http://`address`:`port`/metrics while the block runs; not at all without a port."""
    if port is None:
        yield
        return
    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise SetupError(
            f"metrics cannot be served at {address}, port {port}: {error.strerror}.",
            "an address of this machine, and a port that is free.",
            "metrics.port=9109",
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
