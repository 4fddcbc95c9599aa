"""The page views job inside the tests' own Spark session, and a topic that fills in steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from jobs.page_views import PageViews, job
from tidegate.runtime.job import Job
from tidegate.testing import Broker
from tidegate.testing.clicks import SCHEMA, Click
from tidegate.testing.ledger import Sent, produce

from ..configured import configured

WINDOW_MS, LATENESS_MS = 60_000, 10_000
PARTITIONS = 4


def page_views(
    broker: Broker, topic: str, root: Path, options: Mapping[str, object] | None = None
) -> Job:
    """Put the job together with its tables below `root`."""
    given: dict[str, object] = {
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "input.schema": SCHEMA,
        "input.lateness": f"{LATENESS_MS} milliseconds",
        "window.size": f"{WINDOW_MS} milliseconds",
        "output.root": root,
        **(options or {}),
    }
    return job(configured(PageViews, given))


class Filling:
    """A topic that clicks come to in steps, and the ledger of what has come."""

    def __init__(self, broker: Broker, topic: str, partitions: int = PARTITIONS) -> None:
        self._servers, self._partitions = broker.servers, partitions
        self.topic = broker.create_topic(topic, partitions, retention_ms=-1)
        self.ledger: list[Sent] = []

    def add(self, clicks: Sequence[Click]) -> None:
        """Send more clicks."""
        self.ledger += produce(self._servers, self.topic, clicks, partitions=self._partitions)
