"""The brokers, asked while a job runs how far behind it is."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...offsets import Offsets
from ..job import Job
from ..telemetry.behind import behind, merged
from ..telemetry.gauge import Gauge
from ..telemetry.record import Record
from .topics import Topics

_EVERY_SECONDS = 15.0


class Lagging:
    """Tells a record how far behind its topics a run is: at once, then every 15 seconds.

    Nothing is asked where nobody looks. A broker that does not answer leaves the lag in rows to
    what Spark reports, and ages unknown.
    """

    def __init__(
        self,
        job: Job,
        topics: Topics,
        record: Record,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._named = {name: given.reading.source.named for name, given in job.inputs.items()}
        self._topics = topics
        self._record = record
        self._clock = clock
        self._due = float("-inf")

    def look(self, seen: Gauge) -> None:
        """Ask, if that is due, and tell the record."""
        if not self._record.detailed or self._clock() < self._due:
            return
        try:
            found = [
                behind(self._topics.client(name), read, int(time.time() * 1000))
                for name, read in self._read(seen).items()
            ]
        except OSError:
            self._record.is_behind(None)
        else:
            self._record.is_behind(merged(found))
        self._due = self._clock() + _EVERY_SECONDS

    def _read(self, seen: Gauge) -> dict[str, Offsets]:
        """Return up to where each input has been read; one without a report is left out."""
        alone = len(self._named) == 1
        read: dict[str, Offsets] = {}
        for (topic, part), at in seen.read.items():
            for name, topics in self._named.items():
                if alone or topic in topics:
                    read.setdefault(name, {}).setdefault(topic, {})[part] = at
        return read
