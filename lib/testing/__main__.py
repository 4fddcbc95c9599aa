"""`python -m tidegate.testing`: an embedded broker in the foreground."""

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
    """Run an embedded Kafka broker until SIGINT or SIGTERM; exit with 1 if the broker fails."""
    arguments = _parse_arguments()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with Broker.start(arguments.dir, port=arguments.port) as broker:
            topics = _create_topics(broker, arguments.topic)
            print(
                f"Kafka listens on {broker.bootstrap_servers}; log: {broker.log}; Ctrl-C stops it.",
                f"Topics: {_format_topics(topics, broker.bootstrap_servers)}",
                sep="\n",
                flush=True,
            )
            while broker.is_alive and not stop.wait(0.5):
                pass
            return 0 if stop.is_set() else 1
    except TidegateError as error:
        print(error, file=sys.stderr)
        return 1


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tidegate.testing", description=main.__doc__)
    parser.add_argument("--port", type=int, help="port on 127.0.0.1; default: a free port")
    parser.add_argument("--dir", help="data folder; default: a temporary one")
    parser.add_argument(
        "--topic",
        type=_parse_topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="topic to create, with one partition by default; repeatable",
    )
    return parser.parse_args()


def _parse_topic(text: str) -> tuple[str, int]:
    match = _TOPIC.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"invalid topic: {text!r}; expected NAME or NAME:PARTITIONS, such as clicks:4"
        )
    name, partitions = match.groups(default="1")
    return name, int(partitions)


def _create_topics(broker: Broker, topics: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Create missing topics, and return the number of partitions of each topic."""
    existing = broker.topics()
    for name, partitions in topics:
        if name not in existing:
            broker.create_topic(name, partitions)
            # The broker's list of topics can lag behind the creation.
            existing[name] = partitions
    return existing


def _format_topics(topics: dict[str, int], servers: str) -> str:
    texts = [f"{name} ({partitions} partitions)" for name, partitions in sorted(topics.items())]
    missing_hint = f"none; `tidegate topics --create clicks:4 --servers {servers}` creates one."
    return ", ".join(texts) or missing_hint


if __name__ == "__main__":
    sys.exit(main())
