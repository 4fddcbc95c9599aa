"""`python -m tidegate.testing`: an embedded broker in the foreground, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from ..errors import TidegateError
from . import Broker


def main() -> int:
    """Run a broker until SIGINT or SIGTERM; 0 when stopped so, 1 when it failed."""
    parser = argparse.ArgumentParser(prog="python -m tidegate.testing", description=main.__doc__)
    parser.add_argument("--port", type=int, help="the port on 127.0.0.1; a free one if left out")
    parser.add_argument("--dir", help="a folder that keeps the data; a temporary one if left out")
    given = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with Broker.start(given.dir, port=given.port) as broker:
            print(
                f"Kafka listens on {broker.servers}, its log is {broker.log}; Ctrl-C stops it.",
                flush=True,
            )
            while broker.alive and not stop.wait(0.5):
                pass
            return 0 if stop.is_set() else 1
    except TidegateError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
