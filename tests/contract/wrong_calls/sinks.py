"""Wrong calls of sinks, views and folds."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as F

from tests.contract.wrong_calls.fixtures import APPEND, STORE, VERSIONS, VIEWS, Call, N, both, view
from tidegate import changelogs as changes
from tidegate import sinks, views, windows
from tidegate.stores import PostgresStore

PLACED = ("'t' AS topic", "0 AS partition", "0L AS offset")


def seen() -> changes.Fold:
    return changes.Fold(
        key="page",
        type_column="user",
        initial={"n": (0, "INT")},
        handlers={"u1": {"n": "state.n + 1"}},
    )


SINKS: dict[str, tuple[Call, str]] = {
    "Append, no path": (lambda g: sinks.Append(""), "invalid path: ''"),
    "Append, a Path": (lambda g: sinks.Append(Path("/t")), "invalid path:"),
    "Append, layout a list": (
        lambda g: sinks.Append("/t", layout=["day"]),
        "invalid layout: ['day']",
    ),
    "Layout, partition_by a text": (
        lambda g: sinks.TableLayout(partition_by="day"),
        "invalid partition_by: 'day'",
    ),
    "Layout, both": (lambda g: sinks.TableLayout(["day"], ["page"]), "one of the two"),
    "Layout, five clusters": (lambda g: sinks.TableLayout((), list("abcde")), "at most 4"),
    "Layout, properties a list": (
        lambda g: sinks.TableLayout(properties=["delta.x"]),
        "a mapping of Delta table properties",
    ),
    "Layout, a property of no name of Delta's": (
        lambda g: sinks.TableLayout(properties={"owner": "me"}),
        "the prefix 'delta.'",
    ),
    "Layout, a property's value a list": (
        lambda g: sinks.TableLayout(properties={"delta.appendOnly": []}),
        "True or False",
    ),
    "Layout, numbers forgotten": (
        lambda g: sinks.TableLayout(properties={"delta.setTransactionRetentionDuration": "1 day"}),
        "lose the numbers of its batches",
    ),
    "Layout, stamps forgotten": (
        lambda g: sinks.TableLayout(properties={"delta.logRetentionDuration": "interval 7 days"}),
        "at least 30 days",
    ),
    "Layout, commits elsewhere": (
        lambda g: sinks.TableLayout(properties={"delta.feature.catalogManaged": "supported"}),
        "would not be in the log directory",
    ),
    "Layout, compaction within a commit": (
        lambda g: sinks.TableLayout(properties={"delta.autoOptimize.autoCompact": True}),
        "its own commits",
    ),
    "Upsert, append-only": (
        lambda g: sinks.Upsert(
            "/t", keys=["page"], layout=sinks.TableLayout(properties={"delta.appendOnly": True})
        ),
        "for Upsert, which changes rows",
    ),
    "Append, no step": (lambda g: sinks.Append("/t", output=""), "invalid output: ''"),
    "Decided, no commands": (
        lambda g: sinks.CommandHandler("/t", decider=seen(), events="/e", refusals="/r"),
        "a Decider",
    ),
    "Folded, no fold": (lambda g: sinks.Projection("/t", fold=None), "a Fold"),
    "Folded, one table twice": (
        lambda g: sinks.Projection("/t", fold=seen(), snapshots="/t/"),
        "is also path",
    ),
    "fold_events, no topic": (
        lambda g: changes.fold_events(g.clicks, seen()),
        "invalid events: no column 'topic'",
    ),
    "fold_events_as_of, neither time nor offsets": (
        lambda g: changes.fold_events_as_of(g.clicks.selectExpr("*", *PLACED), seen()),
        "invalid time and offsets: None, None",
    ),
    "Upsert, no keys": (lambda g: sinks.Upsert("/t", keys=[]), "invalid keys: []"),
    "Upsert, keys a text": (lambda g: sinks.Upsert("/t", keys="page"), "invalid keys: 'page'"),
    "Upsert, key and aggregate": (
        lambda g: sinks.Upsert("/t", keys=["n"], aggs=N),
        "columns that are not in keys",
    ),
    "Corrected, a bare Spark aggregate": (
        lambda g: sinks.CorrectedWindows(
            "/t",
            aggregation=windows.WindowAggregation(windows.Tumbling("1m"), aggs={"n": F.count("*")}),
            log=None,
        ),
        "cannot merge late rows",
    ),
    "Corrected, its log in its table": (
        lambda g: sinks.CorrectedWindows("/t", aggregation=VIEWS, log="/t"),
        "a different table",
    ),
    "Corrected, no windows": (
        lambda g: sinks.CorrectedWindows("/t", aggregation=N, log=None),
        "invalid aggregation",
    ),
    "FanOut, one table twice": (
        lambda g: sinks.FanOut(APPEND, other_sinks=[APPEND]),
        "a different path or output",
    ),
    "Snapshot, several tables": (
        lambda g: sinks.SnapshotJoin(
            table="/t",
            join=both,
            sink=sinks.FanOut(APPEND, other_sinks=[sinks.Append("/o", output="o")]),
        ),
        "a sink with one table",
    ),
    "DeadTopic, a topic's name with a space": (
        lambda g: sinks.DeadLetterTopic("b:1", topic="two words"),
        "two words",
    ),
    "Publish, no key": (
        lambda g: sinks.KafkaSink("/t", bootstrap_servers="a:1", topic="t", key=[]),
        "invalid key: []",
    ),
    "Publish, no server": (
        lambda g: sinks.KafkaSink("/t", bootstrap_servers="a", topic="t", key="id"),
        "invalid bootstrap_servers: 'a'",
    ),
    "Publish, a topic's name with a space": (
        lambda g: sinks.KafkaSink("/t", bootstrap_servers="a:1", topic="t u", key="id"),
        "invalid topic name",
    ),
    "Publish, other acknowledgements": (
        lambda g: sinks.KafkaSink(
            "/t", bootstrap_servers="a:1", topic="t", key="id", options={"kafka.acks": "1"}
        ),
        "'kafka.acks' is set by the sink",
    ),
    "Mirror, no store": (
        lambda g: sinks.Mirror("/t", store=7, key="id"),
        "invalid store: 7",
    ),
    "Mirror, no key": (lambda g: sinks.Mirror("/t", store=STORE, key=[]), "invalid key: []"),
    "Mirror, a key as position": (
        lambda g: sinks.Mirror("/t", store=STORE, key=["id"], position="id"),
        "duplicate column: id, id",
    ),
    "PostgresStore, a table in three parts": (
        lambda g: PostgresStore("a.b.c"),
        "invalid table: 'a.b.c'",
    ),
    "PostgresStore, the table of the notes": (
        lambda g: PostgresStore("shop.tidegate_batches"),
        "records the batches",
    ),
    "PostgresStore, no port": (lambda g: PostgresStore("t", port=0), "invalid port: 0"),
    "Webhook, no address": (lambda g: sinks.Webhook("/t", url="pager"), "invalid url: 'pager'"),
    "Webhook, a user in the address": (
        lambda g: sinks.Webhook("/t", url="https://me:secret@pager.example"),
        "invalid url: contains credentials",
    ),
    "Webhook, no rows": (
        lambda g: sinks.Webhook("/t", url="https://a.b", max_requests=0),
        "invalid max_requests: 0",
    ),
    "Once, its table is the sink's": (
        lambda g: sinks.IdempotentReceiver(sink=APPEND, seen_ids=APPEND.path),
        "invalid seen_ids: '/tables/views'",
    ),
    "SideTable, no path": (lambda g: sinks.SideOutputTable(""), "invalid path: ''"),
    "TemporalJoin, how": (
        lambda g: sinks.TemporalJoin(
            "/t", versions=VERSIONS, pending_table="/w", watermark_delay="1s", how="anti"
        ),
        "invalid how: 'anti'",
    ),
    "View, how": (
        lambda g: views.View("/v", left=view("a"), right=view("b"), on="id", how="anti"),
        "how",
    ),
    "KeyedTable, buckets": (
        lambda g: views.KeyedTable(
            "/k", output="k", input="k", key="id", lookup_by="id", order_by="version", buckets=0
        ),
        "invalid buckets: 0",
    ),
}
