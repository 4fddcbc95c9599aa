"""Wrong calls of sinks, views and folds."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as F

from tidegate import changes, sinks, views, windows
from tidegate.stores import PostgresStore

from .given import APPEND, STORE, VERSIONS, VIEWS, Call, N, both, view

PLACED = ("'t' AS topic", "0 AS partition", "0L AS offset")


def seen() -> changes.Fold:
    return changes.Fold(
        key="page", kind="user", initial={"n": (0, "INT")}, on={"u1": {"n": "state.n + 1"}}
    )


SINKS: dict[str, tuple[Call, str]] = {
    "Append, no path": (lambda g: sinks.Append(""), "path is ''"),
    "Append, a Path": (lambda g: sinks.Append(Path("/t")), "path is"),
    "Append, layout a list": (lambda g: sinks.Append("/t", layout=["day"]), "layout is ['day']"),
    "Layout, partition_by a text": (
        lambda g: sinks.Layout(partition_by="day"),
        "partition_by is 'day'",
    ),
    "Layout, both": (lambda g: sinks.Layout(["day"], ["page"]), "one of the two"),
    "Layout, five clusters": (lambda g: sinks.Layout((), list("abcde")), "at most 4"),
    "Layout, properties a list": (lambda g: sinks.Layout(properties=["delta.x"]), "by name"),
    "Layout, a property of no name of Delta's": (
        lambda g: sinks.Layout(properties={"owner": "me"}),
        "begin with 'delta.'",
    ),
    "Layout, a property's value a list": (
        lambda g: sinks.Layout(properties={"delta.appendOnly": []}),
        "True or False",
    ),
    "Layout, numbers forgotten": (
        lambda g: sinks.Layout(properties={"delta.setTransactionRetentionDuration": "1 day"}),
        "forget which batches",
    ),
    "Layout, stamps forgotten": (
        lambda g: sinks.Layout(properties={"delta.logRetentionDuration": "interval 7 days"}),
        "30 days or more",
    ),
    "Layout, commits elsewhere": (
        lambda g: sinks.Layout(properties={"delta.feature.catalogManaged": "supported"}),
        "would not be in its log's folder",
    ),
    "Layout, compaction within a commit": (
        lambda g: sinks.Layout(properties={"delta.autoOptimize.autoCompact": True}),
        "commits of its own",
    ),
    "Upsert, append-only": (
        lambda g: sinks.Upsert(
            "/t", keys=["page"], layout=sinks.Layout(properties={"delta.appendOnly": True})
        ),
        "Upsert changes rows",
    ),
    "Append, no step": (lambda g: sinks.Append("/t", step=""), "step is ''"),
    "Decided, no commands": (
        lambda g: sinks.Decided("/t", commands=seen(), events="/e", refusals="/r"),
        "Commands",
    ),
    "Folded, no fold": (lambda g: sinks.Folded("/t", fold=None), "a Fold"),
    "Folded, one table twice": (
        lambda g: sinks.Folded("/t", fold=seen(), snapshots="/t/"),
        "path and snapshots are both",
    ),
    "folded, no place": (lambda g: changes.folded(g.clicks, seen()), "the fold names 'topic'"),
    "folded_as_of, no instant": (
        lambda g: changes.folded_as_of(g.clicks.selectExpr("*", *PLACED), seen()),
        "one of the two",
    ),
    "Upsert, no keys": (lambda g: sinks.Upsert("/t", keys=[]), "keys is []"),
    "Upsert, keys a text": (lambda g: sinks.Upsert("/t", keys="page"), "keys is 'page'"),
    "Upsert, key and aggregate": (
        lambda g: sinks.Upsert("/t", keys=["n"], aggs=N),
        "is a key and an aggregate",
    ),
    "Corrected, a bare Spark aggregate": (
        lambda g: sinks.Corrected(
            "/t",
            windowed=windows.Windowed(windows.Tumbling("1m"), aggs={"n": F.count("*")}),
            log=None,
        ),
        "cannot be merged",
    ),
    "Corrected, its log in its table": (
        lambda g: sinks.Corrected("/t", windowed=VIEWS, log="/t"),
        "two different tables",
    ),
    "Corrected, no windows": (lambda g: sinks.Corrected("/t", windowed=N, log=None), "windowed is"),
    "FanOut, one table twice": (lambda g: sinks.FanOut(APPEND, also=[APPEND]), "of its own"),
    "Snapshot, several tables": (
        lambda g: sinks.Snapshot(
            table="/t", join=both, sink=sinks.FanOut(APPEND, also=[sinks.Append("/o", step="o")])
        ),
        "a sink of one table",
    ),
    "DeadTopic, a topic's name with a space": (
        lambda g: sinks.DeadTopic("b:1", topic="two words"),
        "two words",
    ),
    "Publish, no key": (
        lambda g: sinks.Publish("/t", servers="a:1", topic="t", key=[]),
        "key names no column",
    ),
    "Publish, no server": (
        lambda g: sinks.Publish("/t", servers="a", topic="t", key="id"),
        "servers is 'a'",
    ),
    "Publish, a topic's name with a space": (
        lambda g: sinks.Publish("/t", servers="a:1", topic="t u", key="id"),
        "no topic can be called",
    ),
    "Publish, other acknowledgements": (
        lambda g: sinks.Publish(
            "/t", servers="a:1", topic="t", key="id", options={"kafka.acks": "1"}
        ),
        "options holds 'kafka.acks'",
    ),
    "Mirror, no store": (
        lambda g: sinks.Mirror("/t", store=7, key="id"),
        "store is 7",
    ),
    "Mirror, no key": (lambda g: sinks.Mirror("/t", store=STORE, key=[]), "key names no column"),
    "Mirror, a key as position": (
        lambda g: sinks.Mirror("/t", store=STORE, key=["id"], position="id"),
        "id, id: a column has two parts",
    ),
    "PostgresStore, a table in three parts": (
        lambda g: PostgresStore("a.b.c"),
        "table is 'a.b.c'",
    ),
    "PostgresStore, the table of the notes": (
        lambda g: PostgresStore("shop.tidegate_batches"),
        "has the batches' numbers",
    ),
    "PostgresStore, no port": (lambda g: PostgresStore("t", port=0), "port is 0"),
    "Webhook, no address": (lambda g: sinks.Webhook("/t", url="pager"), "url is 'pager'"),
    "Webhook, a user in the address": (
        lambda g: sinks.Webhook("/t", url="https://me:secret@pager.example"),
        "url has a user in it",
    ),
    "Webhook, no rows": (lambda g: sinks.Webhook("/t", url="https://a.b", most=0), "most is 0"),
    "Once, its table is the sink's": (
        lambda g: sinks.Once(sink=APPEND, seen=APPEND.path),
        "seen is '/tables/views'",
    ),
    "SideTable, no path": (lambda g: sinks.SideTable(""), "path is ''"),
    "TemporalJoin, how": (
        lambda g: sinks.TemporalJoin(
            "/t", versions=VERSIONS, waiting="/w", lateness="1s", how="anti"
        ),
        "how is 'anti'",
    ),
    "View, how": (
        lambda g: views.View("/v", left=view("a"), right=view("b"), on="id", how="anti"),
        "how",
    ),
    "KeyedTable, buckets": (
        lambda g: views.KeyedTable(
            "/k", step="k", rows_of="k", key="id", by="id", position="version", buckets=0
        ),
        "buckets is 0",
    ),
}
