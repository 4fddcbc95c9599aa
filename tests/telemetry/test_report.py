"""The report of a run: complete, correct and self-contained."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.query_probe import ProbedRun
from tests.telemetry.test_console import REPORT
from tidegate import Summary
from tidegate.commit.batch import BatchStats
from tidegate.errors import SetupError
from tidegate.telemetry.batch_progress import parse_progress
from tidegate.telemetry.lag import ConsumerLag
from tidegate.telemetry.report import RunReport
from tidegate.telemetry.report.chart import (
    Line,
    axis_ticks,
    format_bytes,
    format_duration,
    format_short_number,
    render_chart,
)
from tidegate.telemetry.report.page import Status, render_page
from tidegate.telemetry.run_metrics import RunMetrics

STARTED_AT = 1_772_442_350.0
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


class ParsedPage(HTMLParser):
    """The elements, attributes and texts of a page; totals by name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes += attrs
        self._open.append(tag)

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1], data))

    def texts_of(self, element: str) -> list[str]:
        return [text for tag, text in self.texts if tag == element]

    @property
    def totals(self) -> dict[str, str]:
        return dict(zip(self.texts_of("dt"), self.texts_of("dd"), strict=True))


def example_metrics(batches: int = 3) -> RunMetrics:
    metrics = RunMetrics(Summary(job=HOSTILE), detailed=True, clock=lambda: STARTED_AT)
    for number in range(batches):
        batch = BatchStats(
            number=number,
            rows_in=1_000 + number,
            rows_out=10,
            dead_letters=2,
            late_rows=5,
            watermarks={},
            dead_letter_reasons={("decode", HOSTILE): 2},
            outcome="written",
        )
        metrics.add_batch(batch)
        metrics.add_progress(
            replace(parse_progress(REPORT), batch=number, ended_at=STARTED_AT + 2 * number)
        )
    partition = (HOSTILE, 0)
    metrics.set_consumer_lag(
        ConsumerLag(
            rows={partition: 27},
            seconds={partition: 90.0},
            headroom_rows={partition: 4},
            retention_seconds={HOSTILE: 7_200.0},
            headroom_seconds={HOSTILE: 7_110.0},
        )
    )
    return metrics


def render(metrics: RunMetrics, status: Status = "ended", message: str = "Ended.") -> str:
    return render_page(metrics.snapshot(), status, message, STARTED_AT + 60)


def test_the_page_shows_the_numbers_of_the_run() -> None:
    page = ParsedPage(render(example_metrics()))
    assert page.totals == {
        "batches": "3",
        "rows read": "3,003",
        "rows written": "30",
        "late rows": "15",
        "dead letters": "6",
        "lag (records)": "27",
        "watermark lag": "58.8 s",
        "run time": "1 min",
    }
    cells = page.texts_of("td")
    assert cells[:3] == ["decode", HOSTILE, "6"]
    assert cells[3:8] == [HOSTILE, "0", "27", "1.5 min", "1.98 h"]
    assert cells[-12:-4] == ["2", "2026-03-02 09:05:54Z", "1,002", "10", "5", "2", "2.000", "2 s"]
    assert cells[-4:] == ["27", "2026-03-02 09:05:51Z", "10", "1,500,000"]


def test_html_in_names_is_escaped_and_the_page_loads_no_external_resource() -> None:
    text = render(example_metrics(), "failed", f"Failed: {HOSTILE}")
    page = ParsedPage(text)
    assert not {"script", "img", "link", "iframe", "object"} & page.elements
    assert not [name for name, _ in page.attributes if name in ("src", "href") or name[:2] == "on"]
    assert f"Failed: {HOSTILE}" in "".join(page.texts_of("p"))
    assert "http" not in re.sub(r'http-equiv="[^"]*"', "", text)
    assert not [name for name, _ in page.attributes if name == "style"]


def test_the_page_of_a_long_run_stays_small() -> None:
    assert len(render(example_metrics(30_000))) < 1_000_000


def test_a_page_shows_how_the_run_ended_and_that_a_killed_run_was_running(
    tmp_path: Path,
) -> None:
    path = tmp_path / "new" / "run.html"
    with RunReport(example_metrics(), str(path), lambda: False):
        running = path.read_text()
    assert "Running when this page was written" in running
    assert 'http-equiv="refresh"' in running
    assert "Ended." in path.read_text()
    assert 'http-equiv="refresh"' not in path.read_text()
    metrics = example_metrics()
    unreported = BatchStats(
        number=3,
        rows_in=7,
        rows_out=0,
        dead_letters=0,
        late_rows=0,
        watermarks={},
        outcome="written",
    )
    metrics.add_batch(unreported)
    with pytest.raises(ValueError, match="broken"), RunReport(metrics, str(path), lambda: False):
        raise ValueError("broken <b>")
    failed = ParsedPage(path.read_text())
    assert "Failed: ValueError: broken <b>" in failed.texts_of("p")
    assert failed.totals["rows read"] == "3,010"
    assert failed.texts_of("td")[-12] == "3"
    assert list(path.parent.iterdir()) == [path]


def test_an_unwritable_path_fails_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(SetupError, match="cannot write the report"),
        RunReport(example_metrics(), str(tmp_path / "file" / "run.html"), lambda: False),
    ):
        pass


def test_a_run_without_a_batch_has_a_page() -> None:
    empty = RunMetrics(Summary(job="j"), clock=lambda: STARTED_AT)
    assert ParsedPage(render(empty)).totals["rows read"] == "0"


def test_charts_interrupt_lines_at_unknown_values_and_stay_in_their_frame() -> None:
    chart = render_chart(
        "t", [Line("a", [(0, 1), (1, None), (2, 5), (3, 1e12)])], format_short_number
    )
    assert chart.count("<polyline") == 2
    heights = [
        float(y)
        for y in re.findall(r"[\d.]+,([\d.]+)", " ".join(re.findall(r'points="([^"]*)"', chart)))
    ]
    assert 12 <= min(heights) <= max(heights) <= 190
    assert "unknown" in render_chart("t", [Line("a", [(0, None)])], format_short_number)


@pytest.mark.parametrize("max_value", [1e-9, 0.3, 1, 7, 99.9, 1_000, 123_456_789, 0])
def test_axes_have_few_round_ticks_up_to_the_maximum(max_value: float) -> None:
    ticks = axis_ticks(max_value)
    assert ticks[0] == 0
    assert ticks[-1] >= max_value * 0.999
    assert 2 <= len(ticks) <= 6


def test_numbers_are_formatted_with_units() -> None:
    assert [format_duration(s) for s in (None, 0.25, 60, 5_400, 1e9)] == [
        "-",
        "0.25 s",
        "1 min",
        "1.5 h",
        "11,574 d",
    ]
    assert [format_bytes(n) for n in (None, 12, 2_500_000)] == ["-", "12 B", "2.5 MB"]


@pytest.mark.broker
def test_the_page_of_a_real_run_has_the_numbers_of_its_summary(probed_run: ProbedRun) -> None:
    page, summary = ParsedPage(probed_run.report_html), probed_run.summary
    assert "Ended." in page.texts_of("p")
    names = ("batches", "rows read", "rows written", "late rows", "dead letters")
    counts = (
        summary.batches,
        summary.rows_in,
        summary.rows_out,
        summary.late_rows,
        summary.dead_letters,
    )
    assert [page.totals[name] for name in names] == [f"{count:,}" for count in counts]
    assert summary.dead_letters == 2
    cells = page.texts_of("td")
    assert sum(cells[at + 1] == probed_run.topic for at in range(len(cells) - 1)) == 2
    assert page.totals["lag (records)"] == "0"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_shows_the_page_without_policy_violations(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_text(render(example_metrics()))
    browser = subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--enable-logging=stderr",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ParsedPage(browser.stdout).totals == ParsedPage(path.read_text()).totals
    assert "Content Security Policy" not in browser.stderr
