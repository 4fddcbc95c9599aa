"""The line of progress, and the summary at the end."""

from __future__ import annotations

import io
import logging
import re
from typing import Any

import pytest
from rich.console import Console

from tidegate.runtime.summary import Counted, Summary
from tidegate.runtime.telemetry.gauge import gauge
from tidegate.runtime.telemetry.progress import Show, line, opening, size

REPORT: dict[str, Any] = {
    "batchId": 12,
    "durationMs": {"triggerExecution": 2_000},
    "eventTime": {"watermark": "2026-03-02T09:05:51.250Z"},
    "stateOperators": [
        {"numRowsTotal": 10, "memoryUsedBytes": 1_500_000},
        {"numRowsTotal": -1, "memoryUsedBytes": 0},
    ],
    "sources": [
        {
            "numInputRows": 15_000,
            "endOffset": {"clicks": {"0": 40, "1": 50}},
            "latestOffset": {"clicks": {"0": 60, "1": 50, "2": 7}},
        }
    ],
}


def total() -> Summary:
    summary = Summary(job="page_views")
    summary.add(
        Counted(
            number=0,
            rows_in=9,
            rows_out=4,
            dead=1,
            late=2,
            reached={"clicks": 17},
            outcome="written",
        )
    )
    summary.add(
        Counted(
            number=1,
            rows_in=1,
            rows_out=0,
            dead=0,
            late=0,
            reached={"clicks": None},
            outcome="skipped",
        )
    )
    return summary


def test_a_line_says_speed_lag_watermark_state_rows_and_time() -> None:
    assert line("page_views", gauge(REPORT), total()) == (
        "page_views batch 12 | 7,500 rows/s | lag 27 | watermark 2026-03-02 09:05:51.250 | state "
        "10 rows 1.5 MB"
        " | in 10 out 4 late 2 dead 1 | 2.0 s"
    )


def test_of_several_inputs_the_one_that_holds_the_watermark_back_is_named() -> None:
    summary = Summary(job="joined")
    for reached in ({"searches": 30, "clicks": 20}, {"searches": None, "clicks": 50}):
        summary.add(
            Counted(
                number=0, rows_in=1, rows_out=1, dead=0, late=0, reached=reached, outcome="written"
            )
        )
    assert "watermark 2026-03-02 09:05:51.250 (searches is behind) |" in line(
        "joined", gauge(REPORT), summary
    )
    silent = Summary(job="joined", reached={"searches": 30, "clicks": None})
    assert silent.behind == "clicks"


def test_what_is_not_known_is_said_so() -> None:
    bare = {"batchId": 0, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}, "sources": [{}]}
    assert line("job", gauge(bare), Summary(job="job")) == (
        "job batch 0 | 0 rows/s | lag unknown | no watermark yet | state 0 B | in 0 out 0 late 0 "
        "dead 0 | 0.0 s"
    )


@pytest.mark.parametrize("at", ["+12026-03-02T09:05:51.250Z", "-0001-01-01T00:00:00.000Z", None])
def test_a_watermark_that_no_clock_can_tell_stops_nothing(at: str | None) -> None:
    assert gauge({**REPORT, "eventTime": {"watermark": at}}).mark is None


def test_the_summary_adds_up() -> None:
    done = total()
    assert (done.batches, done.skipped, done.rows_in, done.reached) == (2, 1, 10, {"clicks": 17})


def test_sizes_are_as_people_read_them() -> None:
    assert [size(n) for n in (0, 999, 1_000, 2_500_000, 7_000_000_000_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "2.5 MB",
        "7000.0 GB",
    ]


def test_without_a_terminal_a_line_is_logged_every_few_seconds_and_the_last_one_always(
    caplog: pytest.LogCaptureFixture,
) -> None:
    out, times = io.StringIO(), iter([0.0, 0.0, 1.0, 2.0, 6.0, 6.0, 7.0, 7.5])
    with (
        caplog.at_level(logging.INFO, "tidegate"),
        Show(Console(file=out), lambda: next(times)) as show,
    ):
        for text in ("one", "two", "three", "four", "five"):
            show.update(text)
    assert [record.getMessage() for record in caplog.records] == ["one", "four", "five"]
    assert out.getvalue() == ""


def test_a_terminal_has_one_live_line() -> None:
    out = io.StringIO()
    with Show(Console(file=out, width=80, force_terminal=True)) as show:
        show.update("one")
        show.update("two")
    assert "one" in out.getvalue()
    assert out.getvalue().count("\n") <= 2


def test_a_terminal_s_line_tells_its_age_while_a_batch_takes_long() -> None:
    out, now = io.StringIO(), [0.0]
    with Show(Console(file=out, width=120, force_terminal=True), lambda: now[0]) as show:
        show.update(opening("views", 7, "clicks, searches", "tables/views"))
        now[0] = 12.4
    assert (
        "views goes on with batch 7: reads clicks, searches, writes tables/views | 12 s ago"
        in plain(out)
    )


def plain(out: io.StringIO) -> str:
    """Return what was shown, as one line without the terminal's commands."""
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).replace("\r", "\n")
    return " ".join(shown.split())


def test_a_narrow_terminal_shows_all_of_the_line_with_its_counters() -> None:
    out = io.StringIO()
    text = line("page_views", gauge(REPORT), total())
    with Show(Console(file=out, width=80, force_terminal=True, soft_wrap=True)) as show:
        show.update(text)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).replace("\r", "\n")
    last = " ".join(shown.split("starting")[-1].split())
    assert last.startswith(text)
    assert max(len(each) for each in shown.splitlines()) <= 80
