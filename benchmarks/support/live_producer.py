"""Send messages at a constant rate.

python -m benchmarks.support.live_producer SERVERS TOPIC RATE SECONDS

The program sends RATE clicks a second to TOPIC, half as many impressions to TOPIC-impressions, and
a second after each impression its click to TOPIC-clicks. The `ts` of a message is its send time."""

from __future__ import annotations

import sys
import time
from collections import deque

from confluent_kafka import Producer

from benchmarks.support.click_topic import PAGES
from benchmarks.support.harness import PARTITIONS

USERS = 100_000
TICK_SECONDS = 0.01
CLICKED_AFTER_MS = 1_000
_CLICK = b'{"ts":%d,"page":"/products/%04d","user":"user-%08d","ms":%d,"bytes":%d}'
_IMPRESSION = b'{"ts":%d,"id":"impression-%010d","page":"/products/%04d","user":"user-%08d"}'
_CLICKED = b'{"ts":%d,"id":"impression-%010d","position":1,"ms":100}'


def send(servers: str, topic: str, rate: int, seconds: float) -> None:
    """Send messages at a constant rate; a sender that falls behind catches up at once."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "enable.idempotence": True})
    started_at = time.time()
    sent = 0
    shown: deque[tuple[int, int]] = deque()
    while (passed := time.time() - started_at) < seconds:
        now = int((started_at + passed) * 1_000)
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
