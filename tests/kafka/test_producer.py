"""The delivery of records to a broker."""

from __future__ import annotations

import pytest

from tidegate.kafka.producer import Record, deliver
from tidegate.testing import Broker

pytestmark = pytest.mark.broker


def test_more_records_than_the_queue_of_the_producer_holds_are_delivered_in_order(
    broker: Broker, topic: str
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    records = [Record(topic, b"%d" % number, 1_772_445_600_000) for number in range(500)]
    options = {"queue.buffering.max.messages": "10"}
    positions = deliver(broker.bootstrap_servers, records, options=options)
    assert positions == [(0, number) for number in range(500)]
