"""Wrong calls of joins, formats and sources."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from datetime import datetime

from pyspark.sql import functions as F

from tidegate import eventtime, formats, joins, sources

from .given import EPOCHS, Call

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
