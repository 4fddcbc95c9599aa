"""Wrong calls of the public API: each is refused by the library's own error, at the call.

What a call says is told in its row: a text that its error must have. No row runs a Spark job.
"""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate import aggregates as a
from tidegate import changes, eventtime, formats, joins, sinks, sketches, sources, views, windows
from tidegate.errors import TidegateError
from tidegate.patterns import (
    Deviation,
    Deviations,
    Past,
    SearchFields,
    Sequences,
    Words,
    compare,
    deviations,
    directly,
    match_sequence,
    matches,
    not_,
    of,
    parse_query,
    sequence,
    step,
)
from tidegate.runtime import Input, Job, Limits, run
from tidegate.stores import PostgresStore
from tidegate.testing import StreamDriver
from tidegate.transform import Stateful, Stateless

N = {"n": a.count()}
MEAN = {"ms": a.mean("ms")}
EPOCHS = "page string, at bigint"
VIEWS = windows.Windowed(windows.Tumbling("1 minute"), by="page", aggs=N)
APPEND = sinks.Append("/tables/views")
STORE = PostgresStore("totals")
VERSIONS = sinks.VersionTable("/tables/versions", on="user", order=["offset"])


def same(rows: Any) -> Any:
    return rows


def both(left: Any, right: Any) -> Any:
    return left


def view(side: str) -> Any:
    return views.KeyedTable(
        f"/tables/{side}", step=side, rows_of=side, key="id", by="id", position="version"
    )


class Given(SimpleNamespace):
    """What calls are made with: a session, clicks as a batch and as a stream, a reading."""

    def job(self, **parts: Any) -> Job:
        whole = {"name": "views", "inputs": {"clicks": Input(self.reading)}, "sink": APPEND}
        return Job(**{**whole, **parts})

    def read(self, **parts: Any) -> sources.Reading:
        whole = {"time": "event_time", "lateness": "1 second"}
        return sources.Reading(self.kafka, self.json, **{**whole, **parts})


@pytest.fixture(scope="module")
def given(spark: SparkSession) -> Given:
    clicks = spark.range(1).selectExpr(
        "timestamp_seconds(id) as event_time", "'/' as page", "'u' as user", "id as ms"
    )
    kafka = sources.KafkaSource("nowhere:9092", "clicks")
    json = formats.json_format("page string, event_time timestamp")
    stream = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "event_time")
    return Given(
        spark=spark,
        clicks=clicks,
        stream=stream,
        kafka=kafka,
        json=json,
        reading=sources.Reading(kafka, json, time="event_time", lateness="1 second"),
        partials=windows.tumbling(clicks, "1 minute", aggs=a.partials(N)),
    )


Call = Callable[[Given], object]
WINDOWS: dict[str, tuple[Call, str]] = {
    "tumbling, aggs a list": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs=[a.count()]),
        "aggs is",
    ),
    "tumbling, aggs a Column": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs=F.count("*")),
        "aggs is",
    ),
    "tumbling, no aggs": (lambda g: windows.tumbling(g.clicks, "1m", aggs={}), "aggs"),
    "tumbling, aggs a text": (lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": "n"}), "n"),
    "tumbling, unknown column": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": a.mean("mss")}),
        "mss",
    ),
    "tumbling, mean of a text": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": a.mean("page")}),
        "a number",
    ),
    "tumbling, unknown by": (lambda g: windows.tumbling(g.clicks, "1m", by="pag", aggs=N), "pag"),
    "tumbling, by twice": (
        lambda g: windows.tumbling(g.clicks, "1m", by=["page", "page"], aggs=N),
        "more than once",
    ),
    "tumbling, by a Column": (
        lambda g: windows.tumbling(g.clicks, "1m", by=[F.col("page")], aggs=N),
        "column names",
    ),
    "tumbling, by a number": (lambda g: windows.tumbling(g.clicks, "1m", by=3, aggs=N), "by is 3"),
    "tumbling, size of zero": (lambda g: windows.tumbling(g.clicks, "0s", aggs=N), "positive"),
    "tumbling, size a number": (lambda g: windows.tumbling(g.clicks, 60, aggs=N), "size is 60"),
    "tumbling, size without unit": (lambda g: windows.tumbling(g.clicks, "60", aggs=N), "'60'"),
    "tumbling, size unknown": (lambda g: windows.tumbling(g.clicks, "5 parsecs", aggs=N), "parsec"),
    "tumbling, a month without zone": (
        lambda g: windows.tumbling(g.clicks, "1 month", aggs=N),
        "month",
    ),
    "tumbling, zone unknown": (
        lambda g: windows.tumbling(g.clicks, "1 day", zone="Europe/Berlinn", aggs=N),
        "Europe/Berlin",
    ),
    "tumbling, time a text column": (
        lambda g: windows.tumbling(g.clicks, "1m", time="page", aggs=N),
        "of type string",
    ),
    "tumbling, time a Column": (
        lambda g: windows.tumbling(g.clicks, "1m", time=F.col("event_time"), aggs=N),
        "time",
    ),
    "tumbling, no watermark": (lambda g: windows.tumbling(g.stream, "1m", aggs=N), "watermark"),
    "tumbling, events no frame": (
        lambda g: windows.tumbling([1, 2], "1m", aggs=N),
        "the rows are list",
    ),
    "tumbling, name taken": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"window": a.count()}),
        "window",
    ),
    "hopping, hop longer than size": (
        lambda g: windows.hopping(g.clicks, "1m", "2m", aggs=N),
        "gaps",
    ),
    "hopping, size no multiple": (
        lambda g: windows.Hopping("1 minute", "0 seconds"),
        "positive",
    ),
    "cumulative, size no multiple": (
        lambda g: windows.cumulative(g.clicks, "7m", "1h", aggs=N),
        "multiple",
    ),
    "session, gap negative": (lambda g: windows.session(g.clicks, "-1m", aggs=N), "gap is '-1m'"),
    "session, longest below gap": (
        lambda g: windows.session(g.clicks, "1h", longest="1m", aggs=N),
        "longest",
    ),
    "sliding, windows unknown": (
        lambda g: windows.sliding(g.clicks, "1m", windows="every", aggs=N),
        "windows is 'every'",
    ),
    "sliding, a bare Spark aggregate": (
        lambda g: windows.sliding(g.clicks, "1m", aggs={"n": F.count("*")}),
        "aggregate",
    ),
    "rolled_up, finer than the panes": (
        lambda g: windows.rolled_up(g.partials, "0 seconds", aggs=N),
        "positive",
    ),
    "rolled_up, finished results": (
        lambda g: windows.rolled_up(windows.tumbling(g.clicks, "1m", aggs=MEAN), "1h", aggs=MEAN),
        "partial",
    ),
    "rolled_up, no windows": (lambda g: windows.rolled_up(g.clicks, "1h", aggs=N), "window"),
    "rolled_up, a bare Spark aggregate": (
        lambda g: windows.rolled_up(g.partials, "1h", aggs={"n": F.sum("n")}),
        "whose partials merge",
    ),
    "Windowed, a window by name": (lambda g: windows.Windowed("tumbling", aggs=N), "window is"),
    "Windowed, no aggs": (lambda g: windows.Windowed(windows.Tumbling("1m")), "aggs is"),
    "Windowed, where no condition": (
        lambda g: windows.Windowed(windows.Tumbling("1m"), aggs=N, where="ms")(g.clicks),
        "of type bigint",
    ),
    "Windowed, where unreadable": (
        lambda g: windows.Windowed(windows.Tumbling("1m"), aggs=N, where="ms >")(g.clicks),
        "cannot be read",
    ),
    "Windowed, where of another column": (
        lambda g: windows.Windowed(windows.Tumbling("1m"), aggs=N, where="mss > 1")(g.clicks),
        "mss",
    ),
    "Windowed, where of all rows": (
        lambda g: windows.Windowed(windows.Tumbling("1m"), aggs=N, where="max(ms) > 1")(g.clicks),
        "asks for more than one row",
    ),
    "deduplicate, unknown key": (
        lambda g: windows.deduplicate(g.clicks, "id", "1h", hold="1m"),
        "id",
    ),
    "deduplicate, hold longer than horizon": (
        lambda g: windows.deduplicate(g.clicks, "page", "1m", hold="1h"),
        "hold",
    ),
}
AGGREGATES: dict[str, tuple[Call, str]] = {
    "quantile, at beyond 1": (lambda g: sketches.quantile("ms", 99), "0 to 1"),
    "quantile, at a text": (lambda g: sketches.quantile("ms", "0.99"), "at is '0.99'"),
    "quantile, swapped": (lambda g: sketches.quantile(0.99, "ms"), "at is 'ms'"),
    "quantile, k too small": (lambda g: sketches.quantile("ms", 0.5, k=1), "k is 1"),
    "top, swapped": (lambda g: sketches.top(10, "page"), "n is 'page'"),
    "top, none": (lambda g: sketches.top("page", 0), "n is 0"),
    "top, more than capacity": (lambda g: sketches.top("page", 20, capacity=10), "capacity"),
    "distinct, precision": (lambda g: sketches.distinct("page", precision=50), "precision is 50"),
    "distinct, precision a text": (
        lambda g: sketches.distinct("page", precision="12"),
        "precision is '12'",
    ),
    "theta, precision": (lambda g: sketches.theta("page", precision=2), "precision is 2"),
    "bloom, no keys": (lambda g: sketches.bloom("page", keys=0), "keys is 0"),
    "bloom, rate": (lambda g: sketches.bloom("page", keys=9, false_positives=2), "false_positives"),
    "mean, a number": (lambda g: a.mean(3), "value is 3"),
    "total, a list": (lambda g: a.total(["ms"]), "value is"),
    "rank_error, k": (lambda g: sketches.rank_error(0), "k is 0"),
    "count_error, capacity": (lambda g: sketches.count_error(0), "capacity is 0"),
    "near_duplicates, threshold": (
        lambda g: sketches.near_duplicates(g.clicks, "page", key="user", threshold=2, within="1h"),
        "threshold",
    ),
    "finished, no partials": (lambda g: a.finished(g.clicks, {"nn": a.count()}), "nn"),
    "merged, unknown by": (lambda g: a.merged(g.partials, "page", N), "page"),
}
JOINS: dict[str, tuple[Call, str]] = {
    "stream_stream, unknown how": (
        lambda g: joins.stream_stream(g.clicks, g.clicks, "user", within=("0s", "1s"), how="outer"),
        "how is 'outer'",
    ),
    "stream_stream, within a duration": (
        lambda g: joins.stream_stream(g.clicks, g.clicks, "user", within="1s", how="inner"),
        "within is '1s'",
    ),
    "stream_stream, within empty": (
        lambda g: joins.stream_stream(
            g.clicks, g.clicks, "user", within=("-2s", "1s"), how="inner"
        ),
        "within",
    ),
    "stream_stream, unknown on": (
        lambda g: joins.stream_stream(g.clicks, g.clicks, "usr", within=("0s", "1s"), how="left"),
        "usr",
    ),
    "stream_stream, no on": (
        lambda g: joins.stream_stream(g.clicks, g.clicks, [], within=("0s", "1s"), how="left"),
        "on",
    ),
    "IntervalJoin, suffixes alike": (
        lambda g: joins.IntervalJoin("user", within=("0s", "1s"), how="left", suffixes=("_", "_"))(
            g.clicks, g.clicks
        ),
        "_",
    ),
    "stream_table, unknown how": (
        lambda g: joins.stream_table(g.clicks, g.clicks, "user", how="right"),
        "how is 'right'",
    ),
    "stream_table, columns in both": (
        lambda g: joins.stream_table(g.clicks, g.clicks, "user"),
        "both have",
    ),
    "stream_table, a stream as table": (
        lambda g: joins.stream_table(g.clicks, g.stream, "user"),
        "the table is a stream",
    ),
    "stream_table, no history": (
        lambda g: joins.stream_table(g.clicks, g.clicks.select("user"), "user", as_of="event_time"),
        "valid_from",
    ),
    "stream_table, order without as_of": (
        lambda g: joins.stream_table(g.clicks, g.clicks.select("user"), "user", order="ms"),
        "without as_of",
    ),
    "table_table, unknown how": (
        lambda g: joins.table_table(g.clicks, g.clicks, on="user", how="anti"),
        "how",
    ),
    "versions, no time": (lambda g: joins.versions(g.clicks, time="at"), "at"),
}
AVRO = '{"type":"record","name":"A","fields":[{"name":"a","type":"int"}]}'
SOURCES: dict[str, tuple[Call, str]] = {
    "KafkaSource, no port": (lambda g: sources.KafkaSource("localhost", "c"), "localhost"),
    "KafkaSource, servers a list": (lambda g: sources.KafkaSource(["h:1"], "c"), "servers is"),
    "KafkaSource, no topic": (lambda g: sources.KafkaSource("h:1"), "no input"),
    "KafkaSource, topic and pattern": (
        lambda g: sources.KafkaSource("h:1", "c", pattern="c.*"),
        "topics and pattern",
    ),
    "KafkaSource, names in one text": (lambda g: sources.KafkaSource("h:1", "a, b"), "'a', 'b'"),
    "KafkaSource, an option that is lost": (
        lambda g: sources.KafkaSource("h:1", "c", options={"security.protocol": "SSL"}),
        "kafka.security.protocol",
    ),
    "KafkaSource, an option of ours": (
        lambda g: sources.KafkaSource("h:1", "c", options={"startingOffsets": "latest"}),
        "use start",
    ),
    "KafkaSource, start a word": (lambda g: sources.KafkaSource("h:1", "c", start="now"), "start"),
    "KafkaSource, start without zone": (
        lambda g: sources.KafkaSource("h:1", "c", start=datetime(2026, 1, 1)),
        "no time zone",
    ),
    "KafkaSource, start of another topic": (
        lambda g: sources.KafkaSource("h:1", "c", start={"d": {0: 1}}),
        "start names",
    ),
    "KafkaSource, max_rows": (lambda g: sources.KafkaSource("h:1", "c", max_rows=0), "max_rows"),
    "KafkaSource, max_rows a text": (
        lambda g: sources.KafkaSource("h:1", "c", max_rows="9"),
        "max_rows is '9'",
    ),
    "json_format, a wrong type": (lambda g: formats.json_format("page STRIN"), "cannot be read"),
    "json_format, nothing": (lambda g: formats.json_format(""), "at least one field"),
    "json_format, a list": (lambda g: formats.json_format(["page"]), "schema is"),
    "json_format, a name twice": (lambda g: formats.json_format("a int, A int"), "more than once"),
    "json_format, tombstones": (
        lambda g: formats.json_format("a int", tombstones="keep"),
        "tombstones is 'keep'",
    ),
    "avro_format, no schema": (lambda g: formats.avro_format("{}"), "is no type"),
    "avro_format, a number": (lambda g: formats.avro_format(7), "schema is 7"),
    "avro_format, no record": (lambda g: formats.avro_format('"int"'), "schema is int"),
    "avro_format, recursive": (
        lambda g: formats.avro_format(
            '{"type":"record","name":"A","fields":[{"name":"a","type":["null","A"]}]}'
        ),
        "A is inside of itself",
    ),
    "avro_format, no writer": (
        lambda g: formats.avro_format("page STRING"),
        "nothing says by which schema",
    ),
    "avro_format, two ways": (
        lambda g: formats.avro_format("a int", writer=AVRO, registry={1: AVRO}),
        "both given",
    ),
    "avro_format, a type that Avro has not": (
        lambda g: formats.avro_format("a tinyint", registry={1: AVRO}),
        "tinyint",
    ),
    "avro_format, another writer": (
        lambda g: formats.avro_format("a string", writer=AVRO),
        "a is int, and is wanted as string",
    ),
    "avro_format, registry an address": (
        lambda g: formats.avro_format("a int", registry="http://localhost:8081"),
        "registry is 'http://localhost:8081'",
    ),
    "avro_format, an id a text": (
        lambda g: formats.avro_format("a int", registry={"1": AVRO}),
        "schemas by their ids",
    ),
    "protobuf_format, a text": (
        lambda g: formats.protobuf_format("clicks.desc", "Click"),
        "descriptor_set is 'clicks.desc'",
    ),
    "protobuf_format, no descriptors": (
        lambda g: formats.protobuf_format(b"\xff", "Click"),
        "no descriptor set",
    ),
    "protobuf_format, no message": (
        lambda g: formats.protobuf_format(b"", "Click"),
        "no message 'Click'",
    ),
    "headed, no json_format": (lambda g: formats.headed("a int"), "form is 'a int'"),
    "Registry, no address": (lambda g: formats.Registry("localhost:8081"), "url is"),
    "Registry, half a secret": (
        lambda g: formats.Registry("http://localhost", user="me"),
        "do not go together",
    ),
    "Registry, attempts": (
        lambda g: formats.Registry("http://localhost", attempts=0),
        "attempts is 0",
    ),
    "keyed_json, unknown key": (lambda g: formats.keyed_json("a int", key="b"), "b"),
    "Reading, unknown time": (lambda g: g.read(time="at"), "time names 'at'"),
    "Reading, lateness negative": (lambda g: g.read(lateness="-1s"), "lateness is '-1s'"),
    "Reading, lateness a number": (lambda g: g.read(lateness=10), "lateness is 10"),
    "Reading, keep unknown": (lambda g: g.read(keep=["topics"]), "keep is"),
    "Reading, where empty": (lambda g: g.read(where=" "), "where is ' '"),
    "Reading, where of no column": (
        lambda g: g.read(where="mss > 1").rows(g.spark, {}, {}),
        "where='mss > 1' cannot be computed",
    ),
    "Reading, future unknown": (lambda g: g.read(future="drop"), "future is 'drop'"),
    "Reading, time a number": (
        lambda g: sources.Reading(g.kafka, formats.json_format(EPOCHS), time="at", lateness="1s"),
        "time_unit='milliseconds'",
    ),
    "Reading, unit unknown": (lambda g: g.read(time_unit="ms"), "time_unit is 'ms'"),
    "Reading, unit of a timestamp": (lambda g: g.read(time_unit="seconds"), "a whole number"),
    "Reading, no source": (
        lambda g: sources.Reading("clicks", g.json, time="event_time", lateness="1s"),
        "source is 'clicks'",
    ),
    "Reading, schema for a format": (
        lambda g: sources.Reading(g.kafka, "page string", time="page", lateness="1s"),
        "format is 'page string'",
    ),
    "instant, unit": (lambda g: eventtime.instant(F.col("at"), "nanoseconds"), "unit is"),
}
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
ANY, B = step("a"), step("b", "ms > 1")


def pattern(*parts: Any, within: Any = "1 minute") -> Call:
    return lambda g: sequence(*parts, within=within)


def matched(*parts: Any, **options: Any) -> Call:
    return lambda g: match_sequence(g.clicks, sequence(*parts, within="1 minute"), **options)


def searched(**options: Any) -> Call:
    fields = {"text": "page", "whole": "ms", **options.pop("fields", {})}
    queries = options.pop("queries", "'page:a' AS query, 'x' AS query_id")

    def call(g: Given) -> object:
        table = g.clicks.selectExpr(*queries.split(", "))
        return matches(g.clicks, table, SearchFields(**fields), **options)

    return call


PATTERNS: dict[str, tuple[Call, str]] = {
    "SearchFields, nothing": (lambda g: SearchFields(), "the fields are none"),
    "SearchFields, a field twice": (lambda g: SearchFields(text="a", time="a"), "more than once"),
    "SearchFields, a name with a dot": (lambda g: SearchFields(text="a.b"), "'a.b'"),
    "SearchFields, default unknown": (lambda g: SearchFields(text="a", default="b"), "names b"),
    "Words, no term": (lambda g: Words("--"), "text is '--'"),
    "parse_query, no text": (lambda g: parse_query(None, SearchFields(text="a")), "query is None"),
    "matches, unknown field": (searched(fields={"text": "pag"}), "names 'pag'"),
    "matches, a field of another type": (searched(fields={"whole": "user"}), "whole names 'user'"),
    "matches, no queries": (searched(query="q"), "query names 'q'"),
    "matches, columns in both": (searched(queries="'a' AS query, 1 AS ms"), "both have ms"),
    "matches, order without as_of": (searched(order="query_id"), "without as_of"),
    "matches, no history": (searched(as_of="event_time"), "names 'valid_from'"),
    "matches, a stream of queries": (
        lambda g: matches(g.clicks, g.stream.selectExpr("'a' AS query"), SearchFields(text="page")),
        "the queries are a stream",
    ),
    "sequence, of nothing": (pattern(), "no step"),
    "sequence, of a text": (pattern("ms > 1"), "a sequence holds 'ms > 1'"),
    "sequence, within of zero": (pattern(ANY, within="0s"), "within"),
    "sequence, within no duration": (pattern(ANY, within="soon"), "within"),
    "sequence, not_ first": (pattern(not_("ms > 1"), ANY), "begins with not_"),
    "sequence, not_ alone": (pattern(not_("ms > 1")), "no step"),
    "sequence, a name twice": (pattern(ANY, ANY), "named a"),
    "sequence, first left out": (pattern(step("a", times=(0, 1)), B), "'a' may be left out"),
    "sequence, first directly": (pattern(directly(ANY), B), "follows directly"),
    "sequence, last reluctant": (pattern(ANY, step("b", times=(1, 3), greedy=False)), "'b'"),
    "sequence, forbidden and wanted": (pattern(ANY, not_("ms > 1"), B), "step 'b' wants"),
    "sequence, compared with a later step": (
        pattern(ANY, step("b", compare("ms", ">", of("c").first("ms"))), step("c")),
        "step 'b' is compared with an event of 'c'",
    ),
    "sequence, compared with itself": (
        pattern(ANY, step("b", compare("ms", ">", of("b").first("ms")))),
        "step 'b'",
    ),
    "sequence, the first compared": (
        pattern(step("a", compare("ms", ">", of().last("ms")))),
        "step 'a'",
    ),
    "step, no name": (lambda g: step(""), "name is ''"),
    "step, times of none": (lambda g: step("a", times=0), "times is 0"),
    "step, times turned": (lambda g: step("a", times=(3, 2)), "times is (3, 2)"),
    "step, times a text": (lambda g: step("a", times="+"), "times is '+'"),
    "step, condition a number": (lambda g: step("a", 1), "the condition 1"),
    "not_, no condition": (lambda g: not_(), "not_ has no condition"),
    "compare, unknown": (lambda g: compare("ms", "~", of("a").first("ms")), "'~'"),
    "compare, with a count": (lambda g: compare("ms", ">", of("a").count()), "earlier is"),
    "Sequences, no pattern": (lambda g: Sequences("a b"), "pattern is 'a b'"),
    "Sequences, skip": (lambda g: Sequences(sequence(ANY, within="1s"), skip="on"), "skip is 'on'"),
    "match_sequence, unknown column": (matched(ANY, step("b", "mss > 1")), "step 'b': 'mss > 1'"),
    "match_sequence, no condition": (matched(ANY, step("b", "ms + 1")), "step 'b': 'ms + 1'"),
    "match_sequence, broken SQL": (matched(ANY, step("b", "ms >")), "step 'b': 'ms >'"),
    "match_sequence, not_ of an unknown column": (
        matched(ANY, not_("mss > 1")),
        "not_ number 1 after step 'a'",
    ),
    "match_sequence, compared with a text": (
        matched(ANY, step("b", compare("event_time", ">", of("a").first("array(page)")))),
        "compare('event_time'",
    ),
    "match_sequence, measure of an unknown step": (
        matched(ANY, measures={"n": of("b").count()}),
        "measures['n'] is of the step 'b'",
    ),
    "match_sequence, measure of an unknown column": (
        matched(ANY, measures={"n": of("a").first("mss")}),
        "measures['n']",
    ),
    "match_sequence, total of a text": (
        matched(ANY, measures={"n": of("a").total("page")}),
        "the total of type string",
    ),
    "match_sequence, measure a text": (matched(ANY, measures={"n": "ms"}), "measures['n'] is 'ms'"),
    "match_sequence, name taken": (
        matched(ANY, measures={"started": of("a").count()}),
        "started",
    ),
    "match_sequence, by unknown": (matched(ANY, by="pag"), "by names 'pag'"),
    "match_sequence, no watermark": (
        lambda g: match_sequence(g.stream, sequence(ANY, within="1s")),
        "watermark",
    ),
}


def of_minutes(column: str) -> Call:
    """Compare minutes by a column of theirs."""
    aggs = {"page": a.largest("page"), "ms": a.total("ms")}
    rules = {"r": Deviation(column, WEEKS, ratio=2)}
    return lambda g: deviations(windows.tumbling(g.clicks, "1m", aggs=aggs), "1m", rules=rules)


WEEKS = Past(4, every="1 week")
TWICE = {"twice": Deviation("ms", WEEKS, ratio=2)}
PAST: dict[str, tuple[Call, str]] = {
    "Past, none": (lambda g: Past(0), "count is 0"),
    "Past, skip a text": (lambda g: Past(1, skip=["2026-12-25"]), "skip holds '2026-12-25'"),
    "Past, zero_from without a zone": (
        lambda g: Past(1, zero_from=datetime(2026, 1, 1)),
        "has no zone",
    ),
    "Deviation, no past": (lambda g: Deviation("ms", 4, ratio=2), "past is 4"),
    "Deviation, no limit": (lambda g: Deviation("ms", WEEKS), "no limit is given"),
    "Deviation, ratio 1": (lambda g: Deviation("ms", WEEKS, ratio=1), "ratio is 1"),
    "Deviation, limit a text": (lambda g: Deviation("ms", WEEKS, absolute="5"), "absolute is '5'"),
    "Deviation, direction": (
        lambda g: Deviation("ms", WEEKS, ratio=2, direction="up"),
        "direction is 'up'",
    ),
    "Deviation, robust_z of a mean": (
        lambda g: Deviation("ms", WEEKS, robust_z=3, baseline="mean"),
        "baseline='mean'",
    ),
    "Deviation, at_least more than there are": (
        lambda g: Deviation("ms", WEEKS, ratio=2, at_least=5),
        "at_least is 5",
    ),
    "Deviations, no rules": (lambda g: Deviations("1 hour"), "rules is {}"),
    "Deviations, by a rule": (lambda g: Deviations("1 hour", by="rule", rules=TWICE), "'rule'"),
    "Deviations, size beside the clocks": (
        lambda g: Deviations("7 hours", rules=TWICE, zone="Europe/Berlin"),
        "size is '7 hours'",
    ),
    "Deviations, distance beside the windows": (
        lambda g: Deviations("5 hours", rules=TWICE),
        "every is '1 week'",
    ),
    "Deviations, days and months": (
        lambda g: Deviations("1 month", rules=TWICE, zone="UTC"),
        "every is '1 week'",
    ),
    "deviations, unknown column": (of_minutes("mss"), "'mss'"),
    "deviations, no number": (of_minutes("page"), "type string"),
    "deviations, no windows": (lambda g: deviations(g.clicks, "1 hour", rules=TWICE), "'window'"),
}
JOBS: dict[str, tuple[Call, str]] = {
    "Limits, a share of 7": (lambda g: Limits(dead_ratio=7), "dead_ratio is 7"),
    "Input, no reading": (lambda g: Input("clicks"), "reading is 'clicks'"),
    "Input, idle": (lambda g: Input(g.reading, idle="1 ms"), "idle"),
    "Input, closes": (lambda g: Input(g.reading, watermarks=0), "watermarks is 0"),
    "Job, no name": (lambda g: g.job(name=""), "name is ''"),
    "Job, one input": (lambda g: g.job(inputs=Input(g.reading)), "inputs is a Input"),
    "Job, no inputs": (lambda g: g.job(inputs={}), "inputs are named"),
    "Job, sink a path": (lambda g: g.job(sink="/tables/views"), "sink is '/tables/views'"),
    "Job, a plain function": (lambda g: g.job(transform=same), "which rows are late"),
    "Job, a function of two": (lambda g: g.job(transform=Stateless(both)), "missing"),
    "Job, transform a text": (lambda g: g.job(transform="tumbling"), "transform is 'tumbling'"),
    "Job, each_batch a text": (lambda g: g.job(each_batch="rows"), "each_batch is 'rows'"),
    "Job, catalog a path": (lambda g: g.job(catalog="/shop"), "catalog is '/shop'"),
    "Job, every a number": (lambda g: g.job(every=10), "every is 10"),
    "Job, every unknown": (lambda g: g.job(every="10 sek"), "every is '10 sek'"),
    "Job, checkpoint is the table": (lambda g: g.job(checkpoint="/tables/views"), "checkpoint"),
    "Job, dead is the table": (lambda g: g.job(dead="/tables/views"), "dead is"),
    "Job, updates into Append": (lambda g: g.job(transform=VIEWS, emission="updates"), "Append"),
    "Job, corrections into Append": (lambda g: g.job(transform=VIEWS, corrections="1h"), "Append"),
    "Job, idle without a clock": (
        lambda g: g.job(inputs={"clicks": Input(g.reading, idle="1 minute")}),
        "idle",
    ),
    "Job, port": (lambda g: g.job(metrics_port=0), "metrics_port is 0"),
    "Stateless, no function": (lambda g: Stateless("upper"), "function is 'upper'"),
    "Stateful, late no function": (lambda g: Stateful(same, late="1 hour"), "late is '1 hour'"),
    "run, no session": (lambda g: run(g.job(), None), "the session is"),
    "run, no job": (lambda g: run("views", g.spark), "job is 'views'"),
    "StreamDriver, bad schema": (
        lambda g: StreamDriver(g.spark, "a b c", same, lateness="1s").__enter__(),
        "cannot be read",
    ),
    "StreamDriver, no time column": (
        lambda g: StreamDriver(g.spark, "a int", same, lateness="1s").__enter__(),
        "event_time",
    ),
    "StreamDriver, no transform": (
        lambda g: StreamDriver(g.spark, "event_time timestamp", None, lateness="1s").__enter__(),
        "transform",
    ),
    "TableChanges, no key": (lambda g: sources.TableChanges("/t", key=[]), "key names no column"),
    "TableChanges, no path": (lambda g: sources.TableChanges(" ", key="id"), "path is ' '"),
    "TableChanges, columns a text": (
        lambda g: sources.TableChanges("/t", key="id", columns="id"),
        "columns is 'id'",
    ),
    "changes_between, a map": (
        lambda g: changes.changes_between(
            g.clicks.selectExpr("page", "map('a', 1) AS m"),
            g.clicks.selectExpr("page", "map('a', 1) AS m"),
            key="page",
            position=[1],
            at=datetime(2026, 1, 1, tzinfo=UTC),
        ),
        "cannot be compared",
    ),
    "changes_between, other columns": (
        lambda g: changes.changes_between(
            g.clicks,
            g.clicks.selectExpr("page"),
            key="page",
            position=[1],
            at=datetime(2026, 1, 1, tzinfo=UTC),
        ),
        "the same columns in both",
    ),
    "changes_between, no instant": (
        lambda g: changes.changes_between(
            g.clicks, g.clicks, key="page", position=[1], at=datetime(2026, 1, 1)
        ),
        "a datetime with its zone",
    ),
    "changes_between, no position": (
        lambda g: changes.changes_between(
            g.clicks, g.clicks, key="page", position=7, at=datetime(2026, 1, 1, tzinfo=UTC)
        ),
        "position is 7",
    ),
    "after_snapshot, no changes": (
        lambda g: changes.after_snapshot(g.clicks, position=[1]),
        "columns are",
    ),
    "Current, keep_deleted a word": (
        lambda g: sinks.Current("/t", keep_deleted="long"),
        "keep_deleted",
    ),
    "records, no changes": (lambda g: changes.records(g.clicks), "columns are"),
    "newest, no changes": (lambda g: changes.newest(g.clicks), "columns are"),
    "versions, no changes": (lambda g: changes.versions(g.clicks), "columns are"),
}
KINDS = (WINDOWS, AGGREGATES, JOINS, SOURCES, SINKS, PATTERNS, PAST, JOBS)
CALLS = {name: call for kind in KINDS for name, call in kind.items()}


def test_there_are_no_fewer_calls_than_were_tried() -> None:
    assert len(CALLS) >= 143
    assert len(CALLS) == sum(map(len, KINDS))


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_told_by_the_library_s_own_error(name: str, given: Given) -> None:
    call, says = CALLS[name]
    with pytest.raises(TidegateError) as told:
        call(given)
    assert says in str(told.value)
    assert told.value.allowed or told.value.hint
