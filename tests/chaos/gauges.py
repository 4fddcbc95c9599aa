"""What is seen of a job from outside: its lag, and the memory, threads and files that it holds."""

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
    """Return how many records a checkpoint says are done: the offsets of its newest batch with a
    commit, which begin at 0."""
    numbers = [int(name) for name in listed(checkpoint / "commits") if name.isdigit()]
    if not numbers:
        return 0
    # Spark writes the file under another name first, so that it is whole when it is there.
    lines = (checkpoint / "offsets" / str(max(numbers))).read_text(encoding="utf-8").splitlines()
    sources = [json.loads(line) for line in lines[2:] if line != "-"]
    return sum(
        at for source in sources for partitions in source.values() for at in partitions.values()
    )


def listed(folder: Path) -> list[str]:
    """Return the names in a folder; none of one that is not there."""
    with suppress(FileNotFoundError):
        return [path.name for path in folder.iterdir()]
    return []


@dataclass(frozen=True)
class Use:
    """What a process and all below it hold."""

    memory: int
    threads: int
    files: int


def used(pid: int) -> Use:
    """Return the resident bytes, the threads and the open files of a process and its children."""
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
    """A thread that notes a number every quarter of a second, with the seconds since the start."""

    def __init__(self, look: Callable[[], int], every: float = _EVERY_SECONDS) -> None:
        self._look = look
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.began = time.monotonic()
        self.seen: list[tuple[float, int]] = []

    @property
    def now(self) -> float:
        """The seconds since the start."""
        return round(time.monotonic() - self.began, 2)

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            # A commit may be removed between the listing and the reading.
            with suppress(OSError):
                self.seen.append((self.now, self._look()))

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
