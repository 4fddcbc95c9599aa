"""`tidegate topics`: list and create topics."""

from __future__ import annotations

import re
from typing import Annotated

import typer
from rich.table import Column, Table

from ..errors import ArgumentError
from ..kafka.admin import Cluster
from ..telemetry.console import plain_console
from .kafka_options import Options, Servers

_NEW_TOPIC = re.compile(r"([A-Za-z0-9._-]{1,249})(?::([1-9]\d{0,4}))?")

Create = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME[:PARTITIONS]", help="Create this topic first; repeatable."),
]


def topics(
    servers: Servers = "localhost:9092", create: Create = None, option: Options = None
) -> None:
    """List the topics of a Kafka cluster, with their partitions and records."""
    new_topics = [parse_new_topic(text) for text in create or ()]
    cluster = Cluster(servers, option or ())
    for name, partitions in new_topics:
        typer.echo(cluster.create_topic(name, partitions))
    plain_console().print(topics_table(cluster))


def topics_table(cluster: Cluster) -> Table:
    """Return the topics as a table."""
    partitions = {name: range(number) for name, number in cluster.topics().items()}
    start_offsets = cluster.start_offsets(partitions)
    end_offsets = cluster.end_offsets(partitions)
    right = [Column(title, justify="right") for title in ("partitions", "records")]
    table = Table("topic", *right, box=None, pad_edge=False)
    for name, parts in partitions.items():
        record_count = sum(end_offsets[name, part] - start_offsets[name, part] for part in parts)
        table.add_row(name, f"{len(parts):,}", f"{record_count:,}")
    if not partitions:
        table.add_row("no topics; --create clicks:4 creates one with 4 partitions", "", "")
    return table


def parse_new_topic(text: str) -> tuple[str, int]:
    """Return the name and the number of partitions of a topic to create.

    Raises ArgumentError.

    >>> parse_new_topic("clicks:4")
    ('clicks', 4)
    """
    match = _NEW_TOPIC.fullmatch(text)
    if match is None:
        raise ArgumentError(
            f"invalid --create: {text!r}", "NAME, or NAME:PARTITIONS", "--create clicks:4"
        )
    return match[1], int(match[2] or 1)
