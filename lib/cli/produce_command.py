"""`tidegate produce`: send the lines of files, or sample clicks, to a topic."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import IO, Annotated

import typer

from ..columns import closest_name
from ..errors import ArgumentError
from ..jobs.sample_clicks import SCHEMA, clicks
from ..kafka.admin import Cluster
from ..kafka.producer import Record, deliver
from .kafka_options import Options, Servers

Topic = Annotated[str, typer.Argument(help="The topic to send to.")]
Files = Annotated[
    list[Path] | None, typer.Argument(help="Files with one record per line; - is standard input.")
]
Create = Annotated[
    int | None,
    typer.Option(min=1, help="Create the topic, if missing, with this number of partitions."),
]
SampleSize = Annotated[
    int | None, typer.Option(min=100, help="Send this number of generated clicks of a web site.")
]
Key = Annotated[
    str | None, typer.Option(help="The JSON field to use as record key.", show_default="no key")
]
_CLICKS_PER_SECOND = 100.0
_CHUNK_SIZE = 20_000
_STANDARD_INPUT = "-"


def produce(
    topic: Topic,
    files: Files = None,
    servers: Servers = "localhost:9092",
    create: Create = None,
    sample: SampleSize = None,
    key: Key = None,
    option: Options = None,
) -> None:
    """Send each line of the files as a record to a topic, or send sample clicks.

    The newest event time of the sample clicks is the current time. The clicks are out of order;
    some are duplicates, some are late, and some are invalid.
    """
    if (sample is None) == (not files):
        raise ArgumentError(
            "invalid arguments: files and --sample" if files else "missing argument: FILES",
            "files, or --sample with a number",
            f"tidegate produce {topic} --sample 5000",
        )
    cluster = Cluster(servers, option or ())
    _require_valid_files(topic, files or [], key)
    if create is not None:
        typer.echo(cluster.create_topic(topic, create))
    cluster.require_topic(topic)
    records = _sample_records(topic, sample) if sample else _file_records(topic, files or [], key)
    typer.echo(f"{send_records(cluster, records):,} records sent to {topic}.")
    if sample is not None:
        typer.echo(f'schema = "{SCHEMA}"')


def send_records(cluster: Cluster, records: Iterator[Record]) -> int:
    """Send records in chunks and return their number."""
    sent = 0
    while chunk := list(islice(records, _CHUNK_SIZE)):
        sent += len(deliver(cluster.servers, chunk, options=cluster.options))
    return sent


def _sample_records(topic: str, count: int) -> Iterator[Record]:
    start = datetime.now(UTC) - timedelta(seconds=count / _CLICKS_PER_SECOND)
    for click in clicks(count, start=start, rate=_CLICKS_PER_SECOND):
        yield Record(topic, click.value(), click.arrival_ms, click.user.encode())


def _file_records(topic: str, files: Sequence[Path], key: str | None) -> Iterator[Record]:
    for file in files:
        with _open_file(file) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    value, now = line.rstrip(b"\r\n"), int(time.time() * 1000)
                    record_key = None if key is None else _record_key(value, key, file, number)
                    yield Record(topic, value, now, record_key)


def _require_valid_files(topic: str, files: Sequence[Path], key: str | None) -> None:
    """Raise ArgumentError for an unreadable file or a line without the key, before any is sent.

    Standard input and pipes can be read only once, so a line of them without the key ends the
    command after earlier lines may have been sent.
    """
    for file in files:
        # Opening and closing a pipe would terminate its writer.
        if str(file) == _STANDARD_INPUT or file.is_fifo():
            continue
        if key is None:
            with _open_file(file):
                pass
        else:
            for _ in _file_records(topic, [file], key):
                pass


@contextmanager
def _open_file(file: Path) -> Iterator[IO[bytes]]:
    is_standard_input = str(file) == _STANDARD_INPUT
    try:
        with nullcontext(sys.stdin.buffer) if is_standard_input else file.open("rb") as stream:
            yield stream
    except OSError as error:
        raise ArgumentError(
            f"cannot read {file}: {error.strerror}", "files, or - for standard input"
        ) from None


def _record_key(line: bytes, key: str, file: Path, number: int) -> bytes | None:
    """Return a field of a JSON object as the key; None for null.

    Raises ArgumentError for a line without the field.
    """
    record = None
    with suppress(ValueError):
        record = json.loads(line)
    if not isinstance(record, dict) or key not in record:
        name = "standard input" if str(file) == _STANDARD_INPUT else str(file)
        fields = closest_name(key, record) if isinstance(record, dict) else ""
        raise ArgumentError(
            f"invalid --key: no field {key!r} in line {number} of {name}",
            "a JSON object with this field in each line",
            f"--key {fields.strip(chr(39))}" if fields else "records without --key",
        )
    value = record[key]
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()
