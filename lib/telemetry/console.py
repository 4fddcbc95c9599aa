"""Progress in the console: a live line in a terminal, otherwise a log line every few seconds."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from .batch_progress import BatchProgress
from .report.chart import format_bytes
from .stats import Summary

_LOG = logging.getLogger(__name__)
_LOG_INTERVAL_SECONDS = 5.0
_LEAST_IMPORTANT_PARTS = (
    r"state .*",
    r"[\d.,]+ s",
    r"[\d,]+ rows/s",
    r"(watermark|no watermark) .*",
    r"lag .*",
)
"""The parts of a progress line that a narrow terminal does not show, the least important first."""


def plain_console(
    *, highlight: bool = False, soft_wrap: bool = False, width: int | None = None
) -> Console:
    """Return a console that prints values as they are: brackets and colons are not markup."""
    return Console(highlight=highlight, soft_wrap=soft_wrap, width=width, markup=False, emoji=False)


def format_progress(job: str, progress: BatchProgress, summary: Summary) -> str:
    """Return one line: throughput, lag, watermark, state, row counts and batch duration."""
    speed = progress.rows / progress.seconds if progress.seconds else 0
    watermark = (progress.watermark or "").removesuffix("Z").replace("T", " ").removesuffix(".000")
    merged = f" ({summary.corrected_rows:,} merged)" if summary.corrected_rows else ""
    rare_counts = (
        ("clamped", summary.clamped_rows),
        ("filtered", summary.filtered_rows),
        ("discarded", summary.discarded_rows),
        ("overflows", summary.overflows),
        ("lost", summary.lost_offsets),
    )
    parts = [
        f"{job} batch {progress.batch}",
        f"{speed:,.0f} rows/s",
        f"lag {progress.lag:,}" if progress.lag is not None else "lag unknown",
        (
            f"watermark {watermark}"
            if watermark and not watermark.startswith("1970-01-01 00:00:00")
            else "no watermark yet"
        )
        + (f" ({summary.slowest_stream} is behind)" if summary.slowest_stream else ""),
        f"state {progress.state_rows:,} rows {format_bytes(progress.state_bytes)}"
        if progress.state_rows
        else f"state {format_bytes(progress.state_bytes)}",
        f"in {summary.rows_in:,} out {summary.rows_out:,} late {summary.late_rows:,}{merged} "
        f"dead {summary.dead_letters:,}"
        + "".join(f" {name} {number:,}" for name, number in rare_counts if number),
        f"{progress.seconds:.1f} s",
    ]
    return " | ".join(parts)


def fit_line(line: str, width: int) -> str:
    """Return a progress line without its least important parts, so that it fits into a width.

    >>> fit_line("views batch 7 | 10 rows/s | lag 3 | state 1.5 MB | in 9 out 4 | 2.0 s", 40)
    'views batch 7 | lag 3 | in 9 out 4'
    """
    parts = line.split(" | ")
    for pattern in _LEAST_IMPORTANT_PARTS:
        if len(" | ".join(parts)) > width:
            parts = [part for part in parts if not re.fullmatch(pattern, part)]
    return " | ".join(parts)


def format_start(job: str, batch: int, topics: str, target: str) -> str:
    """Return the line before the first batch of a run, which takes longest: it generates code.

    >>> format_start("views", 0, "clicks", "tables/views")
    'views starts with batch 0: reads clicks, writes tables/views'
    """
    verb = "starts" if batch == 0 else "resumes"
    return f"{job} {verb} with batch {batch}: reads {topics}, writes {target}"


class ProgressDisplay:
    """Shows progress: one live line in a terminal, log lines elsewhere.

    A context manager; on exit it logs the last line.
    """

    def __init__(
        self, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console(
            file=open_terminal() or sys.stderr, soft_wrap=True, highlight=False
        )
        self._clock = clock
        self._logged_at = float("-inf")
        self._pending_line = ""
        self._live: Live | None = None
        self._live_line = "starting"
        self._live_line_at = 0.0
        self._last_batch = -1

    def __enter__(self) -> ProgressDisplay:
        if self._console.is_terminal:
            self._live_line_at = self._clock()
            self._live = Live(
                console=self._console, get_renderable=self._render_live_line, refresh_per_second=1
            )
            self._live.start()
        return self

    def _render_live_line(self) -> Text:
        """Return the live line with its age, which shows that the job is alive in a long batch."""
        age = self._clock() - self._live_line_at
        line = f"{self._live_line} | {age:.0f} s ago" if age >= 1 else self._live_line
        return Text(fit_line(line, self._console.width), overflow="ellipsis", no_wrap=True)

    def show_batch(self, text: str, number: int) -> None:
        """Show the line of a batch, unless it was shown last."""
        if number != self._last_batch:
            self.show_line(text)
        self._last_batch = number

    def show_line(self, text: str) -> None:
        """Show a line, or store it until the next log line is due."""
        if self._live is not None:
            self._live_line = text
            self._live_line_at = self._clock()
            self._live.refresh()
            return
        self._pending_line = text
        if self._clock() - self._logged_at >= _LOG_INTERVAL_SECONDS:
            self._log_pending_line()

    def _log_pending_line(self) -> None:
        if self._pending_line:
            _LOG.info("%s", self._pending_line)
            self._logged_at = self._clock()
            self._pending_line = ""

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        self._log_pending_line()


def open_terminal() -> IO[str] | None:
    """Return the terminal that started spark-submit, if any.

    spark-submit reads the output of its child process through a pipe.
    """
    if sys.stderr.isatty() or "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    try:
        path = Path(f"/proc/{os.getppid()}/fd/2").resolve()
        return path.open("w") if str(path).startswith(("/dev/pts/", "/dev/tty")) else None
    except OSError:
        return None
