"""The page views job inside the tests' own Spark session, and a topic that fills in steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.spark_session import configured
from tidegate import Job
from tidegate.jobs.page_views import PageViews, job
from tidegate.jobs.sample_clicks import SCHEMA, Click, SentRecord, send_clicks
from tidegate.testing import Broker

WINDOW_MS, LATENESS_MS = 60_000, 10_000
PARTITIONS = 4


def page_views(
    broker: Broker, topic: str, root: Path, options: Mapping[str, object] | None = None
) -> Job:
    """Put the job together with its tables below `root`."""
    given: dict[str, object] = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "input.schema": SCHEMA,
        "input.watermark_delay": f"{LATENESS_MS} milliseconds",
        "window.size": f"{WINDOW_MS} milliseconds",
        "output.root": root,
        **(options or {}),
    }
    return job(configured(PageViews, given))


class Filling:
    """A topic to which clicks are sent in steps, and the ledger of the sent clicks."""

    def __init__(self, broker: Broker, topic: str, partitions: int = PARTITIONS) -> None:
        self._servers, self._partitions = broker.bootstrap_servers, partitions
        self.topic = broker.create_topic(topic, partitions, retention_ms=-1)
        self.ledger: list[SentRecord] = []

    def add(self, clicks: Sequence[Click]) -> None:
        """Send more clicks."""
        self.ledger += send_clicks(self._servers, self.topic, clicks, partitions=self._partitions)
