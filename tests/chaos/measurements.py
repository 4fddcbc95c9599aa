"""External measurements of a job: its lag, memory, threads and open files."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

_EVERY_SECONDS = 0.25


def committed(checkpoint: Path) -> int:
    """Return the number of committed records: the end offsets of the latest committed batch."""
    numbers = [int(name) for name in listed(checkpoint / "commits") if name.isdigit()]
    if not numbers:
        return 0
    # Spark renames the complete file into place.
    lines = (checkpoint / "offsets" / str(max(numbers))).read_text(encoding="utf-8").splitlines()
    sources = [json.loads(line) for line in lines[2:] if line != "-"]
    return sum(
        at for source in sources for partitions in source.values() for at in partitions.values()
    )


def listed(folder: Path) -> list[str]:
    """Return the names in a folder; none if it does not exist."""
    with suppress(FileNotFoundError):
        return [path.name for path in folder.iterdir()]
    return []


@dataclass(frozen=True)
class Use:
    """The resources of a process and its descendants."""

    memory: int
    threads: int
    files: int


def used(pid: int) -> Use:
    """Return the resident bytes, threads and open files of a process and its descendants."""
    memory = threads = files = 0
    with suppress(psutil.Error):
        first = psutil.Process(pid)
        for process in [first, *first.children(recursive=True)]:
            with suppress(psutil.Error):
                memory += process.memory_info().rss
                threads += process.num_threads()
                files += process.num_fds()
    return Use(memory, threads, files)


class Gauges:
    """A thread that samples a number every 0.25 seconds, with the seconds since the start."""

    def __init__(self, sample: Callable[[], int], every: float = _EVERY_SECONDS) -> None:
        self._sample = sample
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.start_time = time.monotonic()
        self.seen: list[tuple[float, int]] = []

    @property
    def now(self) -> float:
        """The seconds since the start."""
        return round(time.monotonic() - self.start_time, 2)

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            # A commit can be deleted between listing and reading.
            with suppress(OSError):
                self.seen.append((self.now, self._sample()))

    def __enter__(self) -> Gauges:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
