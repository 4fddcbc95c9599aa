"""The progress line and the summary of a run."""

from __future__ import annotations

import io
import logging
import re
from typing import Any

import pytest
from rich.console import Console

from tidegate import Summary
from tidegate.commit.batch import BatchStats
from tidegate.telemetry.batch_progress import parse_progress
from tidegate.telemetry.console import ProgressDisplay, format_progress, format_start
from tidegate.telemetry.report.chart import format_bytes

REPORT: dict[str, Any] = {
    "batchId": 12,
    "durationMs": {"triggerExecution": 2_000},
    "eventTime": {"watermark": "2026-03-02T09:05:51.250Z"},
    "stateOperators": [
        {"numRowsTotal": 10, "memoryUsedBytes": 1_500_000},
        {"numRowsTotal": 0, "memoryUsedBytes": 0},
    ],
    "sources": [
        {
            "numInputRows": 15_000,
            "endOffset": {"clicks": {"0": 40, "1": 50}},
            "latestOffset": {"clicks": {"0": 60, "1": 50, "2": 7}},
        }
    ],
}


def example_summary() -> Summary:
    summary = Summary(job="page_views")
    summary.add_batch(
        BatchStats(
            number=0,
            rows_in=9,
            rows_out=4,
            dead_letters=1,
            late_rows=2,
            watermarks={"clicks": 17},
            outcome="written",
        )
    )
    summary.add_batch(
        BatchStats(
            number=1,
            rows_in=1,
            rows_out=0,
            dead_letters=0,
            late_rows=0,
            watermarks={"clicks": None},
            outcome="skipped",
        )
    )
    return summary


def test_a_line_shows_throughput_lag_watermark_state_rows_and_time() -> None:
    assert format_progress("page_views", parse_progress(REPORT), example_summary()) == (
        "page_views batch 12 | 7,500 rows/s | lag 27 | watermark 2026-03-02 09:05:51.250 | state "
        "10 rows 1.5 MB"
        " | in 10 out 4 late 2 dead 1 | 2.0 s"
    )


def test_a_number_of_state_rows_that_one_store_does_not_count_is_unknown() -> None:
    states = [{"numRowsTotal": 10, "memoryUsedBytes": 1_500_000}, {"numRowsTotal": -1}]
    progress = parse_progress({**REPORT, "stateOperators": states})
    assert progress.state_rows is None
    assert "| state 1.5 MB |" in format_progress("page_views", progress, example_summary())
    assert parse_progress({**REPORT, "stateOperators": []}).state_rows == 0


def test_the_number_of_rows_of_rocksdb_is_unknown_unless_rocksdb_counts_them() -> None:
    state = {"numRowsTotal": 0, "customMetrics": {"rocksdbGetCount": 7}}
    report = {**REPORT, "stateOperators": [state]}
    assert parse_progress(report, counts_rocksdb_rows=False).state_rows is None
    assert parse_progress(report, counts_rocksdb_rows=True).state_rows == 0
    on_heap = {**REPORT, "stateOperators": [{"numRowsTotal": 3, "customMetrics": {"loaded": 1}}]}
    assert parse_progress(on_heap, counts_rocksdb_rows=False).state_rows == 3


def test_the_line_names_the_input_with_the_smallest_watermark() -> None:
    summary = Summary(job="joined")
    for watermarks in ({"searches": 30, "clicks": 20}, {"searches": None, "clicks": 50}):
        summary.add_batch(
            BatchStats(
                number=0,
                rows_in=1,
                rows_out=1,
                dead_letters=0,
                late_rows=0,
                watermarks=watermarks,
                outcome="written",
            )
        )
    assert "watermark 2026-03-02 09:05:51.250 (searches is behind) |" in format_progress(
        "joined", parse_progress(REPORT), summary
    )
    silent = Summary(job="joined", watermarks={"searches": 30, "clicks": None})
    assert silent.slowest_stream == "clicks"


def test_the_line_shows_unknown_values() -> None:
    bare = {"batchId": 0, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}, "sources": [{}]}
    assert format_progress("job", parse_progress(bare), Summary(job="job")) == (
        "job batch 0 | 0 rows/s | lag unknown | no watermark yet | state 0 B | in 0 out 0 late 0 "
        "dead 0 | 0.0 s"
    )


@pytest.mark.parametrize(
    "watermark", ["+12026-03-02T09:05:51.250Z", "-0001-01-01T00:00:00.000Z", None]
)
def test_a_watermark_outside_of_python_s_years_is_none(watermark: str | None) -> None:
    progress = parse_progress({**REPORT, "eventTime": {"watermark": watermark}})
    assert progress.watermark_seconds is None


def test_the_summary_adds_up() -> None:
    summary = example_summary()
    assert (summary.batches, summary.skipped_batches, summary.rows_in, summary.watermarks) == (
        2,
        1,
        10,
        {"clicks": 17},
    )


def test_sizes_are_formatted_with_units() -> None:
    assert [format_bytes(n) for n in (0, 999, 1_000, 2_500_000, 7_000_000_000_000)] == [
        "0 B",
        "999 B",
        "1 kB",
        "2.5 MB",
        "7 TB",
    ]


def test_without_a_terminal_lines_are_logged_every_few_seconds_and_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    out, times = io.StringIO(), iter([0.0, 0.0, 1.0, 2.0, 6.0, 6.0, 7.0, 7.5])
    with (
        caplog.at_level(logging.INFO, "tidegate"),
        ProgressDisplay(Console(file=out), lambda: next(times)) as display,
    ):
        for text in ("one", "two", "three", "four", "five"):
            display.show_line(text)
    assert [record.getMessage() for record in caplog.records] == ["one", "four", "five"]
    assert out.getvalue() == ""


def test_a_terminal_has_one_live_line() -> None:
    out = io.StringIO()
    with ProgressDisplay(Console(file=out, width=80, force_terminal=True)) as display:
        display.show_line("one")
        display.show_line("two")
    assert "one" in out.getvalue()
    assert out.getvalue().count("\n") <= 2


def test_the_live_line_shows_its_age_in_a_long_batch() -> None:
    out, now = io.StringIO(), [0.0]
    with ProgressDisplay(
        Console(file=out, width=120, force_terminal=True), lambda: now[0]
    ) as display:
        display.show_line(format_start("views", 7, "clicks, searches", "tables/views"))
        now[0] = 12.4
    assert (
        "views resumes with batch 7: reads clicks, searches, writes tables/views | 12 s ago"
        in " ".join(without_escapes(out).split())
    )


def without_escapes(out: io.StringIO) -> str:
    """Return the output without terminal escape sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).replace("\r", "\n")


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_live_line_is_at_most_as_wide_as_the_terminal(width: int) -> None:
    out, now = io.StringIO(), [0.0]
    text = format_progress("page_views", parse_progress(REPORT), example_summary())
    console = Console(file=out, width=width, force_terminal=True, soft_wrap=True, highlight=False)
    with ProgressDisplay(console, lambda: now[0]) as display:
        display.show_line(text)
        now[0] = 75.0
    shown = [line.strip() for line in without_escapes(out).splitlines() if line.strip()]
    assert all(len(line) <= width for line in shown)
    assert shown[-1].startswith("page_views batch 12 | ")
    if width == 80:
        assert shown[-1].endswith("| in 10 out 4 late 2 dead 1 | 75 s ago")
    if width == 200:
        assert shown[-1] == f"{text} | 75 s ago"
