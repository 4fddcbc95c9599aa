"""A job's metrics over HTTP while it runs."""

from __future__ import annotations

import socket
import urllib.request

import pytest

from tidegate.commit import Batch
from tidegate.errors import SetupError
from tidegate.runtime.job import Limits
from tidegate.runtime.query.accounting import too_late
from tidegate.runtime.summary import Counted, Summary
from tidegate.runtime.telemetry.metrics import Metrics, served
from tidegate.runtime.telemetry.progress import gauge

from ..sinks.batches import batch
from .test_progress import REPORT, total


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def asked(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_a_run_tells_its_numbers_while_it_goes_on() -> None:
    metrics, port = Metrics(summary := total()), free_port()
    with served(metrics, port):
        assert asked(port)['tidegate_rows_total{job="page_views",kind="late"}'] == 2
        metrics.last = gauge(REPORT)
        late = Counted(
            number=2,
            rows_in=9,
            rows_out=4,
            dead=0,
            late=5,
            corrected=3,
            alarm=True,
            reached={},
            outcome="written",
        )
        summary.add(late)
        told = asked(port)
    assert told['tidegate_rows_total{job="page_views",kind="late"}'] == 7
    assert told['tidegate_rows_total{job="page_views",kind="corrected"}'] == 3
    assert told['tidegate_late_alarms_total{job="page_views"}'] == 1
    assert told['tidegate_lag_rows{job="page_views"}'] == 27
    assert told['tidegate_watermark_seconds{job="page_views"}'] == 1772442351.25
    with pytest.raises(OSError, match="refused"):
        asked(port)


def test_numbers_are_told_to_this_machine_alone_unless_an_address_says_otherwise() -> None:
    metrics, port = Metrics(total()), free_port()
    other = f"http://127.0.0.2:{port}/metrics"
    with served(metrics, port), pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(other, timeout=10)
    with served(metrics, port, "127.0.0.2"), urllib.request.urlopen(other, timeout=10) as answer:
        assert b"tidegate_rows_total" in answer.read()


def test_a_port_that_is_taken_is_named_and_without_one_nothing_is_served() -> None:
    metrics = Metrics(Summary(job="j"))
    with served(metrics, None), socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        with (
            pytest.raises(SetupError, match="a port that is free"),
            served(metrics, taken.getsockname()[1]),
        ):
            pass


@pytest.mark.parametrize(
    ("rows", "late", "limits", "says"),
    [
        (10_000, 1_000, Limits(), None),
        (
            10_000,
            1_001,
            Limits(),
            "1,001 of the 10,000 rows of batch 3 came too late; limits.late_ratio is 10.0%",
        ),
        (999, 999, Limits(), None),
        (
            50,
            6,
            Limits(late_rows=5),
            "6 of the 50 rows of batch 3 came too late; limits.late_rows is 5",
        ),
        (10_000, 9_999, Limits(late_ratio=None), None),
    ],
)
def test_more_late_rows_than_the_limits_say_raise_an_alarm(
    rows: int, late: int, limits: Limits, says: str | None
) -> None:
    given: Batch = batch(3, rows_in=rows, late=late)
    assert too_late(given, limits) == says
