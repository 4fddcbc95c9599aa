"""`tidegate changes`: a Delta table's changes into a changelog table, a topic, or both."""

from __future__ import annotations

from typing import Annotated

import typer

from ..changes import records
from ..errors import ArgumentError
from ..runtime import spark_session
from ..runtime.follow import follow
from ..runtime.process.exit_codes import guarded
from ..sinks import Append, FanOut, Mapped, Publish, Sink
from ..sources import TableChanges
from .kafka import Options, Servers, client_option

Table = Annotated[str, typer.Argument(help="A Delta table that records its changes.")]
Keys = Annotated[list[str], typer.Option("--key", help="A column of the table's key; repeatable.")]
Changelog = Annotated[str | None, typer.Option(help="The Delta table of changes to fill.")]
Topic = Annotated[str | None, typer.Option(help="The topic to fill, with the key and tombstones.")]
Sent = Annotated[
    str | None, typer.Option(help="With --topic: the Delta table that notes what was sent.")
]
Since = Annotated[int, typer.Option(help="The table's version that the first run begins with.")]
Columns = Annotated[
    list[str] | None, typer.Option("--column", help="A column to tell of; all unless given.")
]
Where = Annotated[str | None, typer.Option(help='Which rows count, in SQL: "NOT deleted".')]
Job = Annotated[str, typer.Option(help="The name that the targets know this writer by.")]


def changes(
    table: Table,
    key: Keys,
    changelog: Changelog = None,
    topic: Topic = None,
    sent: Sent = None,
    servers: Servers = "localhost:9092",
    since: Since = 0,
    column: Columns = None,
    where: Where = None,
    job: Job = "changes",
    option: Options = None,
) -> None:
    """Pass on what has changed in a table since the last run, each version once."""

    def work() -> None:
        sink = _sink(changelog, topic, sent, servers, key, option or ())
        source = TableChanges(table, key=key, columns=column, where=where)
        spark = spark_session("tidegate changes")
        done = follow(source, sink, spark, job=job, since=since)
        typer.echo(f"{done.changes:,} changes in {done.batches:,} versions; now at {done.version}.")

    raise typer.Exit(guarded(work))


def _sink(
    changelog: str | None,
    topic: str | None,
    sent: str | None,
    servers: str,
    key: list[str],
    options: list[str] | tuple[str, ...],
) -> Sink:
    """Return what takes the changes: the table, the topic, or the table after the topic."""
    if (topic is None) != (sent is None) or (topic is None and changelog is None):
        raise ArgumentError(
            f"--changelog is {changelog}, --topic {topic}, --sent {sent}.",
            "--changelog PATH, or --topic NAME with --sent PATH, or all three.",
        )
    sinks: list[Sink] = []
    if topic is not None and sent is not None:
        settings = dict(client_option(each) for each in options)
        sending = Publish(
            sent,
            servers=servers,
            topic=topic,
            key=key,
            deleted="deleted",
            headers=["op", "position"],
            options={f"kafka.{name}": value for name, value in settings.items()},
        )
        sinks.append(Mapped(rows=records, sink=sending))
    if changelog is not None:
        sinks.append(Append(changelog, step="changelog"))
    return sinks[0] if len(sinks) == 1 else FanOut(sinks[-1], also=sinks[:-1])
