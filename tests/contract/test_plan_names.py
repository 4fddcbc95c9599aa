"""What checkpoints store of a job, its fingerprint, has the names that the golden file has.

A difference means that earlier checkpoints would be refused: keep the old name by `plan_name`,
or the old key of a field by `plan_keys`. After an addition, or a change that needs new checkpoints
on purpose, `python -m tests.contract.test_plan_names` writes the golden file.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

import tidegate
from tests.support.spark_session import shipped
from tidegate import (
    Input,
    Job,
    KafkaSource,
    Rule,
    changelogs,
    formats,
    patterns,
    sinks,
    sketches,
    views,
    windows,
)
from tidegate import aggregates as agg
from tidegate.aggregates import Aggregate
from tidegate.columns import as_schema
from tidegate.config.loading import load_config
from tidegate.delta.table_layout import TableLayout
from tidegate.formats.connect_json import ConnectJson
from tidegate.job.fingerprint import describe_value, job_fingerprint
from tidegate.jobs import BUILT_IN_JOBS
from tidegate.joins import IntervalJoin, LookupJoin
from tidegate.replication import ReplicatedTables, TableOptions
from tidegate.replication.topic_records import RecordBytes
from tidegate.sinks import Sink
from tidegate.sinks.changelog.percolator_sink import read_query_versions
from tidegate.spark.jars import project_root
from tidegate.stores import PostgresStore
from tidegate.transform import Stateful, Stateless
from tidegate.windows import Tumbling, WindowAggregation

GOLDEN = Path(__file__).parents[1] / "golden" / "fingerprints.json"
JOBS = sorted(path.stem for path in (project_root() / "conf" / "jobs").glob("*.toml"))
AVRO = """{"type": "record", "name": "Click", "aliases": ["Hit"], "fields": [
    {"name": "page", "type": "string", "aliases": ["path"], "default": "/"},
    {"name": "ms", "type": ["null", "long"], "default": null},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}}]}"""
PLAN_METHODS = {
    "transform": ("late_at", "lookback", "result_time"),
    "format": ("decode", "explain_failures", "schema"),
    "store": ("apply", "name"),
    "window": ("aggregate", "merge_rule", "late_at"),
}


def top_of(rows: Any) -> Any:
    return rows.limit(1)


def latest(time: Column) -> Column:
    return time


def descriptor_set() -> bytes:
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    click = file.message_type.add(name="Click")
    click.field.add(name="page", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    return bytes(FileDescriptorSet(file=[file]).SerializeToString())


def aggregates() -> dict[str, Aggregate]:
    table = sketches.BloomTable(key="event_id", expected_items=1_000)
    return {
        "count": agg.count(),
        "count of values": agg.count("page"),
        "sum": agg.sum("ms"),
        "sum of an expression": agg.sum(F.col("ms") + 1),
        "avg": agg.avg("ms"),
        "min": agg.min("ms"),
        "max": agg.max("ms"),
        "first": agg.first("page"),
        "last": agg.last("page"),
        "partials": agg.partials({"n": agg.avg("ms")})["n"],
        "approx_count_distinct": sketches.approx_count_distinct("user"),
        "approx_quantile": sketches.approx_quantile("ms", [0.5, 0.99]),
        "approx_top_k": sketches.approx_top_k("page", 10),
        "theta_sketch": sketches.theta_sketch("user"),
        "bloom_filter": sketches.bloom_filter("user", expected_items=1_000),
        "bloom_blocks": next(iter(table.aggs.values())),
        "reduction of a user": agg.reduce_with(agg.Reduction(latest, "max")),
    }


def transforms() -> dict[str, Any]:
    pattern = patterns.sequence(
        patterns.step("add", "event = 'add'", times=(1, None)),
        patterns.not_followed_by("event = 'remove'"),
        patterns.next_(
            patterns.step("pay", patterns.compare("ms", ">", patterns.events_of("add").first("ms")))
        ),
        within="10 minutes",
    )
    return {
        "tumbling": Tumbling("1 minute", offset="5 s"),
        "hopping": windows.Hopping("1 hour", "5 minutes"),
        "cumulative": windows.Cumulative("1 hour", "1 day", zone="Europe/Berlin"),
        "session": windows.Session("10 minutes", max_duration="1 hour"),
        "sliding": windows.Sliding("10 minutes", columns="page"),
        "window_aggregation": WindowAggregation(
            Tumbling("1 minute"), by="page", aggs={"n": agg.count()}
        ),
        "deduplication": windows.Deduplication("id", "1 hour", max_delay="1 minute"),
        "interval_join": IntervalJoin("user", within=("0 s", "1 minute"), how="left", emit="final"),
        "lookup_join": LookupJoin("user", how="left", as_of="event_time", order="version"),
        "near_duplicates": sketches.NearDuplicates("t", key="id", threshold=0.8, within="1 hour"),
        "match_sequence": patterns.MatchSequence(
            pattern, by="user", measures={"n": patterns.events_of("add").count()}, timeouts=True
        ),
        "stateless": Stateless(top_of, one_to_one=True),
        "stateless method": Stateless(fold().validate),
        "stateless library function": Stateless(partial(changelogs.latest_changes)),
        "stateful": Stateful(partial(top_of), late_from=latest, result_time=F.col("window.end")),
    }


def all_formats() -> dict[str, Any]:
    registry = formats.SchemaRegistry("http://localhost:8081", user="u", password="secret")
    search = patterns.SearchFields(text=["title", "body"], integer="year")
    row = "id INT NOT NULL, name STRING"
    return {
        "json": formats.json_format("page STRING", parser="spark", tombstones="row"),
        "upsert_json": formats.upsert_json_format(
            "id INT NOT NULL, at TIMESTAMP", key="id", time="at"
        ),
        "avro": formats.avro_format(AVRO),
        "avro with a registry": formats.avro_format(AVRO, registry=registry),
        "avro with fixed schemas": formats.avro_format(AVRO, registry={1: AVRO}),
        "protobuf": formats.protobuf_format(descriptor_set(), "shop.Click"),
        "connect protobuf": formats.connect_protobuf_format(row, registry=registry),
        "schema_header": formats.with_schema_header(formats.json_format("page STRING")),
        "debezium": formats.debezium_format(row, key="id"),
        "connect json": ConnectJson("precise", "milliseconds", "unset")(as_schema(row)),
        "debezium with another format": formats.debezium_format(
            row, key="id", value_format=partial(formats.avro_format, registry=registry)
        ),
        "maxwell": formats.maxwell_format(row, key="id"),
        "query": patterns.query_format(search),
        "record_bytes": RecordBytes(),
    }


def fold() -> changelogs.Fold:
    return changelogs.Fold(
        key="account",
        type_column="kind",
        initial={"balance": (0, "BIGINT")},
        handlers={"deposited": {"balance": "state.balance + event.amount"}},
        on_unknown="ignore",
    )


def all_sinks() -> dict[str, Sink]:
    hours = WindowAggregation(Tumbling("1 hour"), by="page", aggs={"views": agg.count()})
    corrected = sinks.CorrectedWindows("/t", aggregation=hours, log="/log")
    past = patterns.PastWindows(
        4, every="1 week", skip=[date(2026, 1, 1)], zero_from=datetime(2026, 1, 1, tzinfo=UTC)
    )
    rules = {"weekly": patterns.DeviationRule("views", past, ratio=2)}
    deviations = patterns.DeviationDetection("1 hour", by="page", rules=rules, zone="Europe/Berlin")
    append = sinks.Append("/t", layout=TableLayout(cluster_by=["page"]))
    deposit = changelogs.Command(emits="deposited", values={"amount": "command.amount"})
    decider = changelogs.Decider(fold=fold(), events="amount BIGINT", handlers={"deposit": deposit})
    keys = sketches.BloomTable(key="id", expected_items=1_000)
    versions = sinks.VersionedTable("/v", key="user", order=["offset"], to_changes=top_of)
    columns: dict[str, Any] = {"lookup_by": "user", "order_by": "version"}
    users = views.KeyedTable("/users", output="users", input="users", key="user", **columns)
    posts = views.KeyedTable("/posts", output="posts", input="posts", key="post", **columns)
    search = patterns.SearchFields(text="body")
    return {
        "append": append,
        "append_unique": sinks.AppendUnique(
            "/t", duplicates="/d", filter_path="/f", keys_table=keys
        ),
        "upsert": sinks.Upsert("/t", keys=["page"], aggs={"n": agg.count()}),
        "fan_out": sinks.FanOut(
            append, other_sinks=[sinks.MapRows(rows=top_of, sink=sinks.Append("/u", output="u"))]
        ),
        "snapshot_join": sinks.SnapshotJoin(table="/p", join=LookupJoin("page"), sink=append),
        "current_table": sinks.CurrentTable("/t", delete_retention="1 week"),
        "history_table": sinks.HistoryTable("/t"),
        "replicated_tables": ReplicatedTables(
            "/t",
            source=KafkaSource("localhost:9092", pattern="shop.*"),
            root="/tables",
            options_by_topic={"shop.a": TableOptions(keep="both", rename={"op": "kind"})},
        ),
        "temporal_join": sinks.TemporalJoin(
            "/t", versions=versions, pending_table="/p", watermark_delay="10 seconds"
        ),
        "percolator": sinks.Percolator(
            "/t",
            fields=search,
            versions=read_query_versions("/q"),
            pending_table="/p",
            watermark_delay="10 seconds",
            max_changelog_lag=None,
        ),
        "projection": sinks.Projection("/t", fold=fold(), snapshots="/s"),
        "command_handler": sinks.CommandHandler("/t", decider=decider, events="/e", refusals="/r"),
        "idempotent_receiver": sinks.IdempotentReceiver(sink=append, seen_ids="/seen"),
        "kafka_sink": sinks.KafkaSink("/t", bootstrap_servers="a:1", topic="t", key="page"),
        "mirror": sinks.Mirror("/t", store=PostgresStore("totals", host="db"), key="page"),
        "webhook": sinks.Webhook("/t", url="https://pager.example", where="n > 1"),
        "corrected_windows": corrected,
        "alarms": sinks.Alarms("/a", windows=corrected, deviations=deviations),
        "view": views.View("/t", left=posts, right=users, on="user", output="view"),
    }


def all_values() -> dict[str, Any]:
    clicks = Input(
        KafkaSource("a:1", "clicks"),
        formats.json_format("page STRING, at BIGINT"),
        time="at",
        time_unit="milliseconds",
        watermark_delay="10 seconds",
    )
    return {
        **{f"aggregate: {label}": value for label, value in aggregates().items()},
        **{f"transform: {label}": value for label, value in transforms().items()},
        **{f"format: {label}": value for label, value in all_formats().items()},
        **{f"sink: {label}": value for label, value in all_sinks().items()},
        "input": clicks,
        "input with rules": replace(
            clicks, where="at > 0", rules=[Rule("page", "page != ''", on_error="drop")]
        ),
    }


def describe(value: Any) -> str:
    labels = {}
    if isinstance(value, Input):
        job = Job(name="one", inputs={"one": value}, sink=sinks.Append("/t"))
        return job_fingerprint(job)["one.input"]
    if isinstance(value, Sink):
        labels = {path: f"<{output}>" for path, output in value.tables()}
    return describe_value(value, labels)


def shipped_fingerprint(name: str) -> dict[str, str]:
    built_in = BUILT_IN_JOBS[name]
    config = load_config(built_in.model, shipped(built_in.model), [], {}).config
    return job_fingerprint(built_in.build(config))


def library_parts(value: Any) -> Iterator[Any]:
    """Yield the objects and functions of the library that take part in a fingerprint."""
    if isinstance(value, str | bytes | Column | DataType | KafkaSource):
        return
    if isinstance(value, Mapping):
        yield from library_parts(list(value.items()))
    elif isinstance(value, Sequence | set | frozenset):
        for each in value:
            yield from library_parts(each)
    elif isinstance(value, partial):
        yield from library_parts([value.func, value.args, value.keywords])
    elif isinstance(value, FunctionType):
        if value.__module__.startswith("tidegate."):
            yield value
    elif type(value).__module__.startswith("tidegate."):
        yield value
        if isinstance(value, Aggregate):
            yield from library_parts(value.plan_arguments)
        elif is_dataclass(value):
            for field in fields(value):
                if field.compare:
                    yield from library_parts(getattr(value, field.name))


def plan_keys(type_: type) -> list[str]:
    renamed = getattr(type_, "plan_keys", {})
    compared = [field.name for field in fields(type_) if field.compare]
    return sorted(renamed.get(name, name) for name in compared if name != "plan_name")


def library_classes() -> set[type]:
    modules = [
        importlib.import_module(each.name)
        for each in pkgutil.walk_packages(tidegate.__path__, "tidegate.")
        if not each.name.endswith("__main__")
    ]
    return {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__.startswith("tidegate.")
    }


def can_be_in_a_job(type_: type) -> bool:
    """Whether a job takes the class: as a transform, window, format, sink or store."""
    is_abstract = getattr(type_, "_is_protocol", False) or bool(
        getattr(type_, "__abstractmethods__", ())
    )
    if is_abstract or type_.__module__.startswith("tidegate.testing"):
        return False
    if issubclass(type_, Sink):
        return True
    names = {name for base in type_.__mro__ for name in vars(base)}
    names |= {field.name for field in fields(type_)} if is_dataclass(type_) else set()
    return any(names.issuperset(methods) for methods in PLAN_METHODS.values())


def golden() -> dict[str, Any]:
    values = all_values()
    classes = {
        type(part)
        for value in values.values()
        for part in library_parts(value)
        if is_dataclass(part)
    }
    keys_by_name = {
        vars(type_)["plan_name"]: plan_keys(type_)
        for type_ in classes
        if vars(type_).get("plan_name")
    }
    return {
        "classes": dict(sorted(keys_by_name.items())),
        "values": {label: describe(value) for label, value in values.items()},
        "jobs": {name: shipped_fingerprint(name) for name in JOBS},
    }


def test_the_fingerprints_are_those_of_the_golden_file(spark: SparkSession) -> None:
    assert golden() == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_each_library_object_in_a_fingerprint_has_a_name_of_its_own(spark: SparkSession) -> None:
    for label, value in all_values().items():
        for part in library_parts(value):
            if isinstance(part, FunctionType):
                is_public = not part.__qualname__.startswith("_") and "<" not in part.__qualname__
                assert is_public or "plan_name" in vars(part), (label, part)
            elif label != "aggregate: reduction of a user":
                name = vars(part).get("plan_name") or vars(type(part)).get("plan_name")
                assert name, (label, type(part))


def test_each_class_that_a_job_takes_is_in_the_golden_file(spark: SparkSession) -> None:
    in_values = {type(part) for value in all_values().values() for part in library_parts(value)}
    missing = {each for each in library_classes() if can_be_in_a_job(each)} - in_values
    assert not missing


def test_plan_names_are_unique() -> None:
    names = [vars(each)["plan_name"] for each in library_classes() if "plan_name" in vars(each)]
    texts = [name for name in names if isinstance(name, str) and name]
    assert sorted(texts) == sorted(set(texts))


def test_no_name_of_python_is_in_a_text_of_a_library_value(spark: SparkSession) -> None:
    class_names = {each.__name__ for each in library_classes() if each.__name__ != "Click"}
    for label, value in all_values().items():
        words = set(describe(value).replace("(", " ").replace("=", " ").split())
        assert not words & class_names, label


if __name__ == "__main__":
    from tidegate import spark_session

    spark_session("golden")
    GOLDEN.write_text(json.dumps(golden(), indent=1) + "\n", encoding="utf-8")
