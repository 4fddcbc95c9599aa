"""A small windowed job whose rows would show a setting that changes a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import START, send_records
from tidegate import Input, Job
from tidegate import aggregates as agg
from tidegate.formats import json_format
from tidegate.sinks import Append
from tidegate.sources import KafkaSource
from tidegate.windows import Tumbling, WindowAggregation

SCHEMA = "page STRING, price DECIMAL(38, 10), at TIMESTAMP, detail STRING, event_time TIMESTAMP"
TIMES = ("9999-12-31T23:59:59.999999Z", "1582-10-14T00:00:00Z", "2026-03-02T09:00:00.000001Z")


def registered_settings(spark: SparkSession) -> dict[str, str | None]:
    """Return the settings that Spark and Delta define, with their defaults."""
    jvm: Any = spark._jvm
    # Delta registers its settings with their first use.
    _, conf = [
        getattr(getattr(jvm, f"org.apache.spark.sql.{name}$"), "MODULE$")
        for name in ("delta.sources.DeltaSQLConf", "internal.SQLConf")
    ]
    entries = conf.getConfigEntries().iterator()
    found = {}
    while entries.hasNext():
        entry = entries.next()
        default = str(entry.defaultValueString())
        found[str(entry.key())] = None if default == "<undefined>" else default
    return found


def setting_job(servers: str, topic: str, root: Path) -> Job:
    """Return a job over views of pages before ten o'clock, one window a minute."""
    views = Input(
        KafkaSource(servers, topic),
        json_format(SCHEMA),
        time="event_time",
        where='hour(event_time) < 10 and upper(page) <> "ITALY"',
        watermark_delay="0 seconds",
        future_tolerance=None,
    )
    windows = WindowAggregation(
        Tumbling("1 minute"),
        by="page",
        aggs={
            "n": agg.count(),
            "revenue": agg.sum("price"),
            "first": agg.min("at"),
            "last": agg.max("at"),
        },
    )
    return Job(
        name="views", inputs={"views": views}, transform=windows, sink=Append(f"{root}/views")
    )


def send_views(servers: str, topic: str) -> None:
    """Send views of pages for an hour around ten o'clock, late ones and unreadable ones."""
    values = []
    for second in range(0, 7200, 97):
        page = ("italy", "izmir", "Istanbul", "straße")[second % 4]
        view = {
            "page": page,
            "price": f"{second}.{second:04d}",
            "at": TIMES[second % 3],
            "detail": {"b": second, "a": None},
            "event_time": f"2026-03-02T{9 + second // 3600:02d}:{second % 3600 // 60:02d}:07Z",
        }
        values.append(json.dumps(view, ensure_ascii=False))
    late = json.dumps({"page": "late", "event_time": START.isoformat()})
    send_records(servers, topic, [*values, '{"page": 1, ', late])


def written(root: Path) -> dict[str, list[str]]:
    """Return the rows of each table of the job as texts, in an order of their own."""
    return {
        output: sorted(str(_comparable(row)) for row in rows(root / f"views{output}"))
        for output in ("", ".dead_letters", ".late")
    }


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "topic"}
