"""Wrong calls of jobs, of the stream driver and of changes."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from datetime import UTC, datetime

from tidegate import changes, sinks, sources
from tidegate.runtime import Input, Limits, run
from tidegate.testing import StreamDriver
from tidegate.transform import Stateful, Stateless

from .given import VIEWS, Call, both, same

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
