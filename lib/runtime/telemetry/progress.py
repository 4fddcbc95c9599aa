"""Progress where a person looks.

One live line in a terminal, with its age, and otherwise a line of the log every few seconds.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..summary import Summary
from .gauge import Gauge

_LOG = logging.getLogger(__name__)
_EVERY_SECONDS = 5.0


def line(job: str, seen: Gauge, total: Summary) -> str:
    """Return one line: speed, lag, watermark, state, rows of each kind, batch time."""
    speed = seen.rows / seen.seconds if seen.seconds else 0
    mark = (seen.watermark or "").removesuffix("Z").replace("T", " ").removesuffix(".000")
    parts = [
        f"{job} batch {seen.batch}",
        f"{speed:,.0f} rows/s",
        f"lag {seen.lag:,}" if seen.lag is not None else "lag unknown",
        (
            f"watermark {mark}"
            if mark and not mark.startswith("1970-01-01 00:00:00")
            else "no watermark yet"
        )
        + (f" ({total.behind} is behind)" if total.behind else ""),
        f"state {seen.state_rows:,} rows {size(seen.state_bytes)}"
        if seen.state_rows
        else f"state {size(seen.state_bytes)}",
        f"in {total.rows_in:,} out {total.rows_out:,} {late(total)} dead {total.dead:,}"
        + (f" clamped {total.clamped:,}" if total.clamped else "")
        + (f" filtered {total.filtered:,}" if total.filtered else "")
        + (f" lost {total.lost:,}" if total.lost else ""),
        f"{seen.seconds:.1f} s",
    ]
    return " | ".join(parts)


def opening(job: str, batch: int, topics: str, target: str) -> str:
    """Return the line before a run's first batch, which takes longest: its code is made then."""
    how = "begins" if batch == 0 else "goes on"
    return f"{job} {how} with batch {batch}: reads {topics}, writes {target}"


def late(total: Summary) -> str:
    """Tell the late rows, and how many of them were merged into their windows."""
    return f"late {total.late:,}" + (f" ({total.corrected:,} merged)" if total.corrected else "")


def size(count: int) -> str:
    """Return a number of bytes as people read it.

    >>> size(2_500_000)
    '2.5 MB'
    """
    value = float(count)
    units = ["B", "kB", "MB", "GB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units = units[1:]
    return f"{value:.0f} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


class Show:
    """Where the lines go: a terminal has one live line, and elsewhere they are logged.

    A context manager, which logs the last line when it ends.
    """

    def __init__(
        self, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console(
            file=terminal() or sys.stderr, soft_wrap=True, highlight=False
        )
        self._clock = clock
        self._said_at = float("-inf")
        self._unsaid = ""
        self._live: Live | None = None
        self._shown = "starting"
        self._shown_at = 0.0
        self._batch = -1

    def __enter__(self) -> Show:
        if self._console.is_terminal:
            self._shown_at = self._clock()
            self._live = Live(
                console=self._console, get_renderable=self._aged, refresh_per_second=1
            )
            self._live.start()
        return self

    def _aged(self) -> Text:
        """Return the live line, with its age: in a long batch it shows that the job lives."""
        age = self._clock() - self._shown_at
        told = f"{self._shown} | {age:.0f} s ago" if age >= 1 else self._shown
        # Two lines in a narrow terminal: the counters are never cut off.
        return Text(told, overflow="fold", no_wrap=False)

    def batch(self, text: str, number: int) -> None:
        """Show the line of a batch, unless it is the one shown last."""
        if number != self._batch:
            self.update(text)
        self._batch = number

    def update(self, text: str) -> None:
        """Show a line, or keep it until the next is due."""
        if self._live is not None:
            self._shown = text
            self._shown_at = self._clock()
            self._live.refresh()
            return
        self._unsaid = text
        if self._clock() - self._said_at >= _EVERY_SECONDS:
            self._say()

    def _say(self) -> None:
        if self._unsaid:
            _LOG.info("%s", self._unsaid)
            self._said_at = self._clock()
            self._unsaid = ""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
        self._say()


def terminal() -> IO[str] | None:
    """Return the terminal of spark-submit; None where there is none.

    spark-submit takes its child's output through a pipe.
    """
    if sys.stderr.isatty() or "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    try:
        place = Path(f"/proc/{os.getppid()}/fd/2").resolve()
        return place.open("w") if str(place).startswith(("/dev/pts/", "/dev/tty")) else None
    except OSError:
        return None
