"""Wrong calls of joins, formats and sources."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from datetime import datetime

from pyspark.sql import functions as F

from tests.contract.wrong_calls.fixtures import EPOCHS, Call
from tidegate import Rule, formats, joins, sources
from tidegate import event_time as eventtime

JOINS: dict[str, tuple[Call, str]] = {
    "stream_stream, unknown how": (
        lambda g: joins.stream_stream(g.clicks, g.clicks, "user", within=("0s", "1s"), how="outer"),
        "invalid how: 'outer'",
    ),
    "stream_stream, within a duration": (
        lambda g: joins.stream_stream(g.clicks, g.clicks, "user", within="1s", how="inner"),
        "invalid within: '1s'",
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
        "invalid how: 'right'",
    ),
    "stream_table, columns in both": (
        lambda g: joins.stream_table(g.clicks, g.clicks, "user"),
        "also exist in the events",
    ),
    "stream_table, a stream as table": (
        lambda g: joins.stream_table(g.clicks, g.stream, "user"),
        "invalid table: a stream",
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
    "versions, no time": (lambda g: joins.validity_periods(g.clicks, time="at"), "at"),
}
AVRO = '{"type":"record","name":"A","fields":[{"name":"a","type":"int"}]}'
SOURCES: dict[str, tuple[Call, str]] = {
    "KafkaSource, no port": (lambda g: sources.KafkaSource("localhost", "c"), "localhost"),
    "KafkaSource, servers a list": (
        lambda g: sources.KafkaSource(["h:1"], "c"),
        "invalid bootstrap_servers",
    ),
    "KafkaSource, no topic": (lambda g: sources.KafkaSource("h:1"), "none of the arguments"),
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
        "invalid option: 'startingOffsets'",
    ),
    "KafkaSource, start a word": (lambda g: sources.KafkaSource("h:1", "c", start="now"), "start"),
    "KafkaSource, start without zone": (
        lambda g: sources.KafkaSource("h:1", "c", start=datetime(2026, 1, 1)),
        "without a time zone",
    ),
    "KafkaSource, start of another topic": (
        lambda g: sources.KafkaSource("h:1", "c", start={"d": {0: 1}}),
        "offsets of the topics ['d']",
    ),
    "KafkaSource, max_records_per_batch": (
        lambda g: sources.KafkaSource("h:1", "c", max_records_per_batch=0),
        "invalid max_records_per_batch: 0",
    ),
    "KafkaSource, max_records_per_batch a text": (
        lambda g: sources.KafkaSource("h:1", "c", max_records_per_batch="9"),
        "invalid max_records_per_batch: '9'",
    ),
    "json_format, a wrong type": (lambda g: formats.json_format("page STRIN"), "page STRIN"),
    "json_format, nothing": (lambda g: formats.json_format(""), "at least one field"),
    "json_format, a list": (lambda g: formats.json_format(["page"]), "invalid schema: ['page']"),
    "json_format, a name twice": (
        lambda g: formats.json_format("a int, A int"),
        "duplicate fields",
    ),
    "json_format, tombstones": (
        lambda g: formats.json_format("a int", tombstones="keep"),
        "invalid tombstones: 'keep'",
    ),
    "avro_format, no schema": (lambda g: formats.avro_format("{}"), "invalid type {}"),
    "avro_format, a number": (lambda g: formats.avro_format(7), "invalid schema: 7"),
    "avro_format, no record": (lambda g: formats.avro_format('"int"'), "invalid schema: int"),
    "avro_format, recursive": (
        lambda g: formats.avro_format(
            '{"type":"record","name":"A","fields":[{"name":"a","type":["null","A"]}]}'
        ),
        "recursive record A",
    ),
    "avro_format, no writer": (
        lambda g: formats.avro_format("page STRING"),
        "missing writer",
    ),
    "avro_format, writer and registry": (
        lambda g: formats.avro_format("a int", writer=AVRO, registry={1: AVRO}),
        "invalid combination of writer and registry",
    ),
    "avro_format, a type without an Avro type": (
        lambda g: formats.avro_format("a tinyint", registry={1: AVRO}),
        "tinyint",
    ),
    "avro_format, another writer": (
        lambda g: formats.avro_format("a string", writer=AVRO),
        "a is int, expected string",
    ),
    "avro_format, registry an address": (
        lambda g: formats.avro_format("a int", registry="http://localhost:8081"),
        "invalid registry: 'http://localhost:8081'",
    ),
    "avro_format, an id a text": (
        lambda g: formats.avro_format("a int", registry={"1": AVRO}),
        "a mapping of schemas by id",
    ),
    "protobuf_format, a text": (
        lambda g: formats.protobuf_format("clicks.desc", "Click"),
        "invalid descriptor_set: 'clicks.desc'",
    ),
    "protobuf_format, no descriptors": (
        lambda g: formats.protobuf_format(b"\xff", "Click"),
        "not a descriptor set",
    ),
    "protobuf_format, no message": (
        lambda g: formats.protobuf_format(b"", "Click"),
        "unknown message 'Click'",
    ),
    "with_schema_header, not a json_format": (
        lambda g: formats.with_schema_header("a int"),
        "invalid value_format: 'a int'",
    ),
    "SchemaRegistry, not an address": (
        lambda g: formats.SchemaRegistry("localhost:8081"),
        "invalid url: 'localhost:8081'",
    ),
    "SchemaRegistry, user without password": (
        lambda g: formats.SchemaRegistry("http://localhost", user="me"),
        "invalid combination of user, password and token",
    ),
    "SchemaRegistry, attempts": (
        lambda g: formats.SchemaRegistry("http://localhost", attempts=0),
        "invalid attempts: 0",
    ),
    "upsert_json_format, unknown key": (
        lambda g: formats.upsert_json_format("a int", key="b"),
        "b",
    ),
    "Input, unknown time": (lambda g: g.input(time="at"), "invalid time: 'at'"),
    "Input, watermark_delay negative": (
        lambda g: g.input(watermark_delay="-1s"),
        "invalid watermark_delay: '-1s'",
    ),
    "Input, watermark_delay a number": (
        lambda g: g.input(watermark_delay=10),
        "invalid watermark_delay: 10",
    ),
    "Input, kafka_columns unknown": (
        lambda g: g.input(kafka_columns=["topics"]),
        "invalid kafka_columns: ['topics']",
    ),
    "Input, where empty": (lambda g: g.input(where=" "), "invalid where: ' '"),
    "Input, where no condition": (
        lambda g: g.input(where="page").good_rows(g.spark, {}, {}),
        "invalid where: 'page' has type",
    ),
    "Input, where unreadable": (
        lambda g: g.input(where="ms >").good_rows(g.spark, {}, {}),
        "invalid where: ",
    ),
    "Input, where of all rows": (
        lambda g: g.input(where="max(page) > 'a'").good_rows(g.spark, {}, {}),
        "a condition on the columns of one row",
    ),
    "Input, rules without a list": (
        lambda g: g.input(rules=Rule("fast", "ms < 9")),
        "invalid rules: ",
    ),
    "Input, rules as text": (lambda g: g.input(rules=["ms > 0"]), "invalid rules: 'ms > 0'"),
    "Input, two rules of one name": (
        lambda g: g.input(rules=[Rule("fast", "ms < 9"), Rule("fast", "ms > 9")]),
        "invalid rules: repeated name 'fast'",
    ),
    "Input, on_error unknown": (
        lambda g: g.input(on_error="ignore"),
        "invalid on_error: 'ignore'",
    ),
    "Input, rule of no column": (
        lambda g: g.input(rules=[Rule("fast", "mss < 9")]).good_rows(g.spark, {}, {}),
        "invalid condition of the rule 'fast': [UNRESOLVED_COLUMN",
    ),
    "Rule without a name": (lambda g: Rule(" ", "ms < 9"), "invalid name: ' '"),
    "Rule without a condition": (lambda g: Rule("fast", None), "invalid condition: None"),
    "Rule with an empty condition": (lambda g: Rule("fast", ""), "invalid condition: ''"),
    "Rule with a Column": (lambda g: Rule("fast", F.col("ms") < 9), "invalid condition: "),
    "Rule, on_error unknown": (
        lambda g: Rule("fast", "ms < 9", on_error="dead"),
        "invalid on_error: 'dead'",
    ),
    "Input, where of no column": (
        lambda g: g.input(where="mss > 1").good_rows(g.spark, {}, {}),
        "invalid where: [UNRESOLVED_COLUMN",
    ),
    "Input, on_future unknown": (
        lambda g: g.input(on_future="drop"),
        "invalid on_future: 'drop'",
    ),
    "Input, time a number": (
        lambda g: sources.Input(
            g.kafka, formats.json_format(EPOCHS), time="at", watermark_delay="1s"
        ),
        'time_unit="milliseconds"',
    ),
    "Input, unit unknown": (lambda g: g.input(time_unit="ms"), "invalid time_unit: 'ms'"),
    "Input, unit of a timestamp": (lambda g: g.input(time_unit="seconds"), "an integer field"),
    "Input, no source": (
        lambda g: sources.Input("clicks", g.json, time="event_time", watermark_delay="1s"),
        "invalid source: 'clicks'",
    ),
    "Input, schema for a format": (
        lambda g: sources.Input(g.kafka, "page string", time="page", watermark_delay="1s"),
        "invalid format: 'page string'",
    ),
    "instant, unit": (
        lambda g: eventtime.epoch_to_timestamp(F.col("at"), "nanoseconds"),
        "invalid unit: ",
    ),
}
