"""Messages that happen while they are sent: python -m benchmarks.live SERVERS TOPIC RATE SECONDS.

Clicks into TOPIC, at RATE a second; and at half of it impressions into TOPIC-impressions, and into
TOPIC-clicks the click that each of them gets a second later. A message's `ts` is the moment of its
sending."""

from __future__ import annotations

import sys
import time
from collections import deque

from confluent_kafka import Producer

from .harness import PARTITIONS
from .topic import PAGES

USERS = 100_000
TICK_SECONDS = 0.01
CLICKED_AFTER_MS = 1_000
_CLICK = b'{"ts":%d,"page":"/products/%04d","user":"user-%08d","ms":%d,"bytes":%d}'
_IMPRESSION = b'{"ts":%d,"id":"impression-%010d","page":"/products/%04d","user":"user-%08d"}'
_CLICKED = b'{"ts":%d,"id":"impression-%010d","position":1,"ms":100}'


def send(servers: str, topic: str, rate: int, seconds: float) -> None:
    """Send messages at an even rate; a sender that falls behind makes up for it at once."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "enable.idempotence": True})
    began = time.time()
    sent = 0
    shown: deque[tuple[int, int]] = deque()
    while (passed := time.time() - began) < seconds:
        now = int((began + passed) * 1_000)
        for number in range(sent, int(passed * rate)):
            user = number * 7_919 % USERS
            value = _CLICK % (now, number % PAGES, user, number % 300, 1_000)
            producer.produce(topic, value, partition=number % PARTITIONS)
            if number % 2:
                value = _IMPRESSION % (now, number, number % PAGES, user)
                producer.produce(f"{topic}-impressions", value, partition=number // 2 % PARTITIONS)
                shown.append((now + CLICKED_AFTER_MS, number))
        sent = max(sent, int(passed * rate))
        while shown and shown[0][0] <= now:
            (_, number) = shown.popleft()
            value = _CLICKED % (now, number)
            producer.produce(f"{topic}-clicks", value, partition=number // 2 % PARTITIONS)
        producer.poll(0)
        time.sleep(TICK_SECONDS)
    producer.flush()


if __name__ == "__main__":
    (servers, topic, rate, seconds) = sys.argv[1:]
    send(servers, topic, int(rate), float(seconds))
