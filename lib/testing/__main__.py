"""`python -m tidegate.testing`: an embedded broker in the foreground, until Ctrl-C."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import threading
from collections.abc import Iterable

from ..errors import TidegateError
from . import Broker

_TOPIC = re.compile(r"([A-Za-z0-9._-]+)(?::([1-9]\d{0,4}))?")


def main() -> int:
    """Run a broker until SIGINT or SIGTERM; 0 when stopped so, 1 when it failed."""
    given = _arguments()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with Broker.start(given.dir, port=given.port) as broker:
            topics = _create(broker, given.topic)
            print(
                f"Kafka listens on {broker.servers}, its log is {broker.log}; Ctrl-C stops it.",
                f"Topics: {_told(topics, broker.servers)}",
                sep="\n",
                flush=True,
            )
            while broker.alive and not stop.wait(0.5):
                pass
            return 0 if stop.is_set() else 1
    except TidegateError as error:
        print(error, file=sys.stderr)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tidegate.testing", description=main.__doc__)
    parser.add_argument("--port", type=int, help="the port on 127.0.0.1; a free one if left out")
    parser.add_argument("--dir", help="a folder that keeps the data; a temporary one if left out")
    parser.add_argument(
        "--topic",
        type=_topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="a topic to be created, of one partition if none are given; may be given again",
    )
    return parser.parse_args()


def _topic(text: str) -> tuple[str, int]:
    found = _TOPIC.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME or NAME:PARTITIONS, as in clicks:4")
    name, partitions = found.groups(default="1")
    return name, int(partitions)


def _create(broker: Broker, topics: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Create the topics that are not there yet, and return the partitions of each topic."""
    there = broker.topics()
    for name, partitions in topics:
        if name not in there:
            broker.create_topic(name, partitions)
            # A topic that was just created may be missing from the broker's list for a moment.
            there[name] = partitions
    return there


def _told(topics: dict[str, int], servers: str) -> str:
    named = [f"{name} ({partitions} partitions)" for name, partitions in sorted(topics.items())]
    how = f"none; `tidegate topics --create clicks:4 --servers {servers}` makes one."
    return ", ".join(named) or how


if __name__ == "__main__":
    sys.exit(main())
