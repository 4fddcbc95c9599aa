"""`tidegate produce`: the lines of files, or made-up clicks, into a topic."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ArgumentError
from ..runtime.process.exit_codes import guarded
from ..testing.clicks import SCHEMA, clicks
from ..testing.delivery import Record, deliver
from .kafka import Cluster, Options, Servers

Files = Annotated[
    list[Path] | None, typer.Argument(help="Files whose lines are records; - is standard input.")
]
Create = Annotated[
    int | None, typer.Option(min=1, help="Make the topic with so many partitions, if it is not.")
]
MadeUp = Annotated[
    int | None, typer.Option(min=100, help="Send so many clicks of a made-up web site.")
]
Key = Annotated[
    str | None, typer.Option(help="The JSON field that is each record's key; none by default.")
]
_RATE = 100.0
_PORTION = 20_000
_STANDARD_INPUT = "-"


def produce(
    topic: str,
    files: Files = None,
    servers: Servers = "localhost:9092",
    create: Create = None,
    made_up: MadeUp = None,
    key: Key = None,
    option: Options = None,
) -> None:
    """Send the lines of files to a topic, each a record; or clicks that are made up.

    Made-up clicks end now. They come out of order, some twice, some late, and some are broken.
    """

    def work() -> None:
        if (made_up is None) == (not files):
            raise ArgumentError(
                "there are files and --made-up." if files else "there is nothing to send.",
                "files, or --made-up and a number.",
                f"tidegate produce {topic} --made-up 5000",
            )
        cluster = Cluster(servers, option or ())
        _require_there(files or [])
        if create is not None:
            typer.echo(cluster.create(topic, create))
        cluster.require(topic)
        records = _lines(topic, files or [], key) if made_up is None else _clicks(topic, made_up)
        typer.echo(f"{send(cluster, records):,} records sent to {topic}.")
        if made_up is not None:
            typer.echo(f'schema = "{SCHEMA}"')

    raise typer.Exit(guarded(work))


def send(cluster: Cluster, records: Iterator[Record]) -> int:
    """Send records, portion by portion, and return how many there were."""
    sent = 0
    while portion := _portion(records):
        sent += len(deliver(cluster.servers, portion, options=cluster.options))
    return sent


def _portion(records: Iterator[Record]) -> list[Record]:
    return [record for _, record in zip(range(_PORTION), records, strict=False)]


def _clicks(topic: str, count: int) -> Iterator[Record]:
    start = datetime.now(UTC) - timedelta(seconds=count / _RATE)
    for click in clicks(count, start=start, rate=_RATE):
        yield Record(topic, click.value(), click.arrived, click.user.encode())


def _lines(topic: str, files: Sequence[Path], key: str | None) -> Iterator[Record]:
    for file in files:
        for line in _read(file):
            if line.strip():
                now = int(time.time() * 1000)
                yield Record(topic, line, now, None if key is None else _key(line, key))


def _require_there(files: Sequence[Path]) -> None:
    """Refuse files that cannot be read, before a topic is made for them."""
    for file in files:
        # Whoever writes to a pipe would meet its end, once it has been opened and closed.
        if str(file) != _STANDARD_INPUT and not file.is_fifo():
            try:
                file.open("rb").close()
            except OSError as error:
                raise _unreadable(file, error) from None


def _unreadable(file: Path, error: OSError) -> ArgumentError:
    return ArgumentError(
        f"{file} cannot be read: {error.strerror}.", "files, or - for what is piped."
    )


def _read(file: Path) -> Iterator[bytes]:
    if str(file) == _STANDARD_INPUT:
        for line in sys.stdin.buffer:
            yield line.rstrip(b"\r\n")
        return
    try:
        with file.open("rb") as lines:
            for line in lines:
                yield line.rstrip(b"\r\n")
    except OSError as error:
        raise _unreadable(file, error) from None


def _key(line: bytes, key: str) -> bytes | None:
    """Return a field of a JSON object as a key; None for a line that has none."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    value = record.get(key) if isinstance(record, dict) else None
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()
