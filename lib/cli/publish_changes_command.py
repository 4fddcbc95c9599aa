"""`tidegate publish-changes`: publish a Delta table's changes to a changelog table or a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from ..changelogs import to_upsert_records
from ..errors import ArgumentError
from ..kafka.admin import parse_client_option
from ..operations.follow import follow
from ..sinks import Append, FanOut, KafkaSink, MapRows, Sink
from ..sources import DeltaChangeFeed
from .command_session import command_session
from .kafka_options import Options, Servers

Table = Annotated[str, typer.Argument(help="A Delta table with the change data feed enabled.")]
Keys = Annotated[list[str], typer.Option("--key", help="A key column of the table; repeatable.")]
Changelog = Annotated[str | None, typer.Option(help="The Delta table to append the changes to.")]
Topic = Annotated[str | None, typer.Option(help="The topic to send upserts and tombstones to.")]
SentTable = Annotated[
    str | None, typer.Option(help="With --topic: the Delta table of the changes that were sent.")
]
FirstVersion = Annotated[int, typer.Option(help="The table version at which the first run starts.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="A column to publish; repeatable.", show_default="all columns"),
]
Where = Annotated[str | None, typer.Option(help='SQL condition on the rows: "NOT deleted".')]
Job = Annotated[str, typer.Option(help="The name of this writer in the commits of its targets.")]


def publish_changes(
    table: Table,
    key: Keys,
    changelog: Changelog = None,
    topic: Topic = None,
    sent: SentTable = None,
    servers: Servers = "localhost:9092",
    since: FirstVersion = 0,
    column: Columns = None,
    where: Where = None,
    job: Job = "changes",
    option: Options = None,
) -> None:
    """Publish the changes of a table since the last run, each version exactly once."""
    sink = _build_sink(changelog, topic, sent, servers, key, option or ())
    source = DeltaChangeFeed(table, key=key, columns=column, where=where)
    spark = command_session("publish-changes")
    progress = follow(source, sink, spark, job=job, starting_version=since)
    typer.echo(
        f"{progress.changes:,} changes in {progress.batches:,} versions; now at {progress.version}."
    )


def _build_sink(
    changelog: str | None,
    topic: str | None,
    sent: str | None,
    servers: str,
    key: list[str],
    options: list[str] | tuple[str, ...],
) -> Sink:
    if (topic is None) != (sent is None) or (topic is None and changelog is None):
        raise ArgumentError(
            f"invalid options: --changelog {changelog}, --topic {topic}, --sent {sent}",
            "--changelog PATH, or --topic NAME with --sent PATH, or all three",
        )
    sinks: list[Sink] = []
    if topic is not None and sent is not None:
        kafka_sink = KafkaSink(
            sent,
            bootstrap_servers=servers,
            topic=topic,
            key=key,
            deleted="deleted",
            headers=["op", "position"],
            options={f"kafka.{name}": value for name, value in map(parse_client_option, options)},
        )
        sinks.append(MapRows(rows=to_upsert_records, sink=kafka_sink))
    if changelog is not None:
        sinks.append(Append(changelog, output="changelog"))
    return sinks[0] if len(sinks) == 1 else FanOut(sinks[-1], other_sinks=sinks[:-1])
