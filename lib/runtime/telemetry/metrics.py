"""Metrics for machines: a run's numbers over HTTP, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...errors import SetupError
from ..summary import Summary
from .progress import Gauge

LOOPBACK = "127.0.0.1"
"""This machine alone: whoever reads the numbers from elsewhere has to be let in by an address."""


class Metrics(Collector):
    """The numbers of a run and of its last batch, read whenever they are asked for.

    tidegate_rows_total{kind}: rows "in", "out", "late", "corrected" (late, and merged into their
        windows), "dead", "clamped" (a time too far ahead, brought back) and "filtered" (left out by
        a reading's `where`).
    tidegate_batches_total, tidegate_late_alarms_total: batches, and those with more late rows than
    the limits say.
    tidegate_lost_offsets_total: offsets that a topic had lost before they were read.
    tidegate_lag_rows: unread rows in the topics. tidegate_watermark_seconds: the watermark, in
    seconds since 1970. tidegate_batch_seconds, tidegate_state_bytes: the last batch's time, and the
    state after it.

    Each bears the label `job`. The totals begin at 0 with each run.
    """

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self.last: Gauge | None = None

    def collect(self) -> Iterator[Metric]:
        """Return the numbers as they are now."""
        done = self._summary
        rows = {"in": done.rows_in, "out": done.rows_out, "late": done.late, "dead": done.dead}
        counted = CounterMetricFamily("tidegate_rows", "Rows of this run.", labels=["job", "kind"])
        rows |= {"corrected": done.corrected, "clamped": done.clamped, "filtered": done.filtered}
        for kind, number in rows.items():
            counted.add_metric([done.job, kind], number)
        yield counted
        yield self._one(
            CounterMetricFamily("tidegate_batches", "Batches.", labels=["job"]), done.batches
        )
        alarms = CounterMetricFamily(
            "tidegate_late_alarms", "Batches with too many late rows.", labels=["job"]
        )
        yield self._one(alarms, done.alarms)
        lost = CounterMetricFamily(
            "tidegate_lost_offsets", "Offsets that were gone before they were read.", labels=["job"]
        )
        yield self._one(lost, done.lost)
        yield from self._gauges()

    def _gauges(self) -> Iterator[Metric]:
        if self.last is None:
            return
        watermark = (
            None
            if self.last.watermark is None
            else datetime.fromisoformat(self.last.watermark).timestamp()
        )
        for name, told, value in (
            ("tidegate_lag_rows", "Unread rows in the topics.", self.last.lag),
            ("tidegate_watermark_seconds", "The watermark, since 1970.", watermark),
            ("tidegate_batch_seconds", "The last batch's time.", self.last.seconds),
            ("tidegate_state_bytes", "The state after the last batch.", self.last.state_bytes),
        ):
            if value is not None:
                yield self._one(GaugeMetricFamily(name, told, labels=["job"]), value)

    def _one(self, family: CounterMetricFamily | GaugeMetricFamily, value: float) -> Metric:
        family.add_metric([self._summary.job], value)
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
