"""Wrong calls of jobs, the stream driver and changelogs."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tests.contract.wrong_calls.fixtures import APPEND, VIEWS, Call, both, same
from tidegate import Limits, formats, run, sinks, sources
from tidegate import changelogs as changes
from tidegate.testing import StreamDriver
from tidegate.transform import Stateful, Stateless

USERS = "user STRING NOT NULL, plan STRING, event_time TIMESTAMP"
JOBS: dict[str, tuple[Call, str]] = {
    "Limits, a share of 7": (lambda g: Limits(dead_ratio=7), "invalid dead_ratio: 7"),
    "Input, source a topic": (
        lambda g: replace(g.clicks_input, source="clicks"),
        "source",
    ),
    "Input, idle": (lambda g: replace(g.clicks_input, idle_timeout="1 ms"), "idle_timeout"),
    "Input, watermarks": (
        lambda g: replace(g.clicks_input, watermarks=0),
        "invalid watermarks: 0",
    ),
    "Job, no name": (lambda g: g.job(name=""), "invalid name: ''"),
    "Job, one input": (lambda g: g.job(inputs=g.clicks_input), "invalid inputs: Input("),
    "Job, no inputs": (lambda g: g.job(inputs={}), "invalid names of inputs: []"),
    "Job, sink a path": (lambda g: g.job(sink="/tables/views"), "invalid sink: '/tables/views'"),
    "Job, a plain function": (lambda g: g.job(transform=same), "which rows are late"),
    "Job, a function of two": (lambda g: g.job(transform=Stateless(both)), "missing"),
    "Job, transform a text": (
        lambda g: g.job(transform="tumbling"),
        "invalid transform: 'tumbling'",
    ),
    "Job, each_batch a text": (lambda g: g.job(each_batch="rows"), "invalid each_batch: 'rows'"),
    "Job, catalog a path": (lambda g: g.job(catalog="/shop"), "invalid catalog: '/shop'"),
    "Job, every a number": (lambda g: g.job(every=10), "invalid every: 10"),
    "Job, every unknown": (lambda g: g.job(every="10 sek"), "invalid every: '10 sek'"),
    "Job, checkpoint is the table": (lambda g: g.job(checkpoint="/tables/views"), "checkpoint"),
    "Job, dead letters are the table": (
        lambda g: g.job(dead_letters="/tables/views"),
        "dead_letters",
    ),
    "Job, rows of a format that are not changes": (
        lambda g: g.job(
            inputs={
                "users": replace(
                    g.clicks_input, format=formats.upsert_json_format(USERS, key="user")
                )
            },
            sink=sinks.FanOut(APPEND, other_sinks=[sinks.HistoryTable("/tables/history")]),
        ),
        "invalid format of the input 'users': its rows are not changes",
    ),
    "Job, changes into Append": (lambda g: g.job(transform=VIEWS, emit="changes"), "Append"),
    "Job, allowed lateness into Append": (
        lambda g: g.job(transform=VIEWS, allowed_lateness="1h"),
        "Append",
    ),
    "Job, idle without a trigger interval": (
        lambda g: g.job(inputs={"clicks": replace(g.clicks_input, idle_timeout="1 minute")}),
        "invalid idle_timeout",
    ),
    "Job, port": (lambda g: g.job(metrics_port=0), "invalid metrics_port: 0"),
    "Stateless, no function": (lambda g: Stateless("upper"), "invalid function: 'upper'"),
    "Stateful, late no function": (
        lambda g: Stateful(same, late_from="1 hour"),
        "invalid late_from: '1 hour'",
    ),
    "run, no session": (lambda g: run(g.job(), None), "not a classic Spark session"),
    "run, no job": (lambda g: run("views", g.spark), "invalid job: 'views'"),
    "StreamDriver, bad schema": (
        lambda g: StreamDriver(g.spark, "a b c", same, watermark_delay="1s").__enter__(),
        "invalid schema: 'a b c'",
    ),
    "StreamDriver, no time column": (
        lambda g: StreamDriver(g.spark, "a int", same, watermark_delay="1s").__enter__(),
        "event_time",
    ),
    "StreamDriver, no transform": (
        lambda g: StreamDriver(
            g.spark, "event_time timestamp", None, watermark_delay="1s"
        ).__enter__(),
        "transform",
    ),
    "DeltaChangeFeed, no key": (
        lambda g: sources.DeltaChangeFeed("/t", key=[]),
        "invalid key: []",
    ),
    "DeltaChangeFeed, no path": (
        lambda g: sources.DeltaChangeFeed(" ", key="id"),
        "invalid path: ' '",
    ),
    "DeltaChangeFeed, columns a text": (
        lambda g: sources.DeltaChangeFeed("/t", key="id", columns="id"),
        "invalid columns: 'id'",
    ),
    "diff_snapshots, a map": (
        lambda g: changes.diff_snapshots(
            g.clicks.selectExpr("page", "map('a', 1) AS m"),
            g.clicks.selectExpr("page", "map('a', 1) AS m"),
            key="page",
            position=[1],
            snapshot_time=datetime(2026, 1, 1, tzinfo=UTC),
        ),
        "invalid type of column 'm': map",
    ),
    "diff_snapshots, other columns": (
        lambda g: changes.diff_snapshots(
            g.clicks,
            g.clicks.selectExpr("page"),
            key="page",
            position=[1],
            snapshot_time=datetime(2026, 1, 1, tzinfo=UTC),
        ),
        "invalid columns of old",
    ),
    "diff_snapshots, no time zone": (
        lambda g: changes.diff_snapshots(
            g.clicks, g.clicks, key="page", position=[1], snapshot_time=datetime(2026, 1, 1)
        ),
        "invalid snapshot_time",
    ),
    "diff_snapshots, position not a list": (
        lambda g: changes.diff_snapshots(
            g.clicks,
            g.clicks,
            key="page",
            position=7,
            snapshot_time=datetime(2026, 1, 1, tzinfo=UTC),
        ),
        "invalid position: 7",
    ),
    "drop_covered_by_snapshot, no changes": (
        lambda g: changes.drop_covered_by_snapshot(g.clicks, position=[1]),
        "no column 'op'",
    ),
    "CurrentTable, delete_retention a word": (
        lambda g: sinks.CurrentTable("/t", delete_retention="long"),
        "invalid delete_retention: 'long'",
    ),
    "to_upsert_records, no changes": (
        lambda g: changes.to_upsert_records(g.clicks),
        "no column 'op'",
    ),
    "latest_changes, no changes": (lambda g: changes.latest_changes(g.clicks), "no column 'op'"),
    "history_rows, no changes": (lambda g: changes.history_rows(g.clicks), "no column 'op'"),
}
