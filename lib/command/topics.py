"""`tidegate topics`: which topics a broker has, and how much is in them."""

from __future__ import annotations

import re
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from ..errors import ArgumentError
from ..runtime.process.exit_codes import guarded
from .kafka import Cluster, Options, Servers

_NEW = re.compile(r"([A-Za-z0-9._-]{1,249})(?::([1-9]\d{0,4}))?")

Create = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME[:PARTITIONS]", help="A topic to make first; repeatable."),
]


def topics(
    servers: Servers = "localhost:9092", create: Create = None, option: Options = None
) -> None:
    """List the topics of a broker, with their partitions and records."""

    def work() -> None:
        wanted = [new_topic(text) for text in create or ()]
        cluster = Cluster(servers, option or ())
        for name, partitions in wanted:
            typer.echo(cluster.create(name, partitions))
        Console(highlight=False).print(listed(cluster))

    raise typer.Exit(guarded(work))


def listed(cluster: Cluster) -> Table:
    """Return the topics as a table."""
    there = cluster.topics()
    partitions = {name: range(number) for name, number in there.items()}
    begins = cluster.begins(partitions)
    ends = cluster.ends(partitions)
    right = [Column(title, justify="right") for title in ("partitions", "records")]
    shown = Table("topic", *right, box=None, pad_edge=False)
    for name, number in there.items():
        held = sum(ends[name, part] - begins[name, part] for part in range(number))
        shown.add_row(name, f"{number:,}", f"{held:,}")
    if not there:
        shown.add_row("none; --create clicks:4 makes one of 4 partitions", "", "")
    return shown


def new_topic(text: str) -> tuple[str, int]:
    """Return the name and the partitions of a topic that is to be made.

    Raises ArgumentError.

    >>> new_topic("clicks:4")
    ('clicks', 4)
    """
    found = _NEW.fullmatch(text)
    if found is None:
        raise ArgumentError(f"--create {text!r}.", "NAME, or NAME:PARTITIONS.", "--create clicks:4")
    return found[1], int(found[2] or 1)
