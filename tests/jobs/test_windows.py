"""Jobs that need no code: a topic's own columns in windows, two topics joined, a topic enriched."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support import delta_tables as tables
from tests.support.postgres_server import PASSWORD, Server
from tests.support.spark_session import configured, from_options
from tidegate import run
from tidegate.cli.status_command import OutputFolder, describe_checkpoint, group_by_job, table_rows
from tidegate.engine.runner import describe_open_results
from tidegate.errors import ConfigError
from tidegate.jobs import BUILT_IN_JOBS, Enrich, Join, Windows
from tidegate.jobs.enrich import job as enrich
from tidegate.jobs.join import job as join
from tidegate.jobs.windows import job as windows
from tidegate.jvm import delta_state
from tidegate.kafka.producer import Record, deliver
from tidegate.testing import Broker

START = 1_767_312_000_000
"""2026-01-02 00:00 UTC, in milliseconds."""
SENSORS = {
    "input.topics": "sensors",
    "input.schema": "sensor string not null, value double, at bigint",
    "input.time": "at",
    "input.time_unit": "milliseconds",
    "input.watermark_delay": "10 seconds",
    "window.size": "1 minute",
    "window.by": "sensor",
    "window.where": "value >= 0",
    "aggregates.readings": "count",
    "aggregates.total": "sum(value)",
    "aggregates.p50": "approx_quantile(value, 0.5)",
    "aggregates.kinds": "approx_count_distinct(value)",
}


def send(broker: Broker, topic: str, records: list[dict[str, Any]]) -> None:
    messages = [Record(topic, json.dumps(record).encode(), START + 600_000) for record in records]
    deliver(broker.bootstrap_servers, messages)


def reading(second: int, value: float, sensor: str = "a") -> dict[str, Any]:
    return {"sensor": sensor, "value": value, "at": START + 1_000 * second}


def moment(second: int) -> datetime:
    return datetime.fromtimestamp(START / 1000 + second, UTC)


@pytest.mark.jobs
@pytest.mark.broker
def test_a_topic_s_own_columns_are_counted_without_code(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    options = {
        **SENSORS,
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "output.root": tmp_path,
        "output.partition_by": "date",
    }
    job = windows(from_options(Windows, options))
    # 23:59 the day before, then two minutes of the day; a row that the condition leaves out.
    send(broker, topic, [reading(-30, 1.0), reading(5, 2.0), reading(6, 4.0), reading(7, -1.0)])
    send(broker, topic, [reading(50, 8.0), reading(65, 16.0), reading(132, 1.0, "b")])
    done = run(job, spark)
    assert (done.rows_in, done.rows_out, done.late_rows, done.dead_letters) == (7, 3, 0, 0)
    found = tables.rows(tmp_path / "windows")
    assert Counter(
        (row["window"]["start"], row["date"], row["readings"], row["total"], row["kinds"])
        for row in found
    ) == Counter(
        [
            (moment(-60), date(2026, 1, 1), 1, 1.0, 1),
            (moment(0), date(2026, 1, 2), 3, 14.0, 3),
            (moment(60), date(2026, 1, 2), 1, 16.0, 1),
        ]
    )
    assert {part.name for part in (tmp_path / "windows").glob("date=*")} == {
        "date=2026-01-01",
        "date=2026-01-02",
    }
    open_results = describe_open_results(job, spark)
    assert open_results is not None
    assert "the watermark is 2026-01-02 00:02:02Z" in open_results
    assert "when it reaches 2026-01-02 00:03:00Z: with an event at 2026-01-02 00:03:10Z" in (
        open_results
    )

    # Too late; one of these rows is filtered out anyway and is nott late either.
    send(broker, topic, [reading(8, 5.0), reading(9, -5.0), reading(133, 1.0, "b")])
    assert (run(job, spark).late_rows, len(tables.rows(tmp_path / "late_rows"))) == (1, 1)
    assert "the watermark is 2026-01-02 00:02:03Z" in str(describe_open_results(job, spark))

    # A run without a newer event, and a run without any event, do not change the watermark.
    send(broker, topic, [reading(131, 1.0, "b")])
    for rows_in in (1, 0):
        assert run(job, spark).rows_in == rows_in
        assert "the watermark is 2026-01-02 00:02:03Z" in str(describe_open_results(job, spark))

    (status,) = group_by_job(*OutputFolder(str(tmp_path)).scan())
    assert (status.job, status.checkpoint is not None) == ("windows", True)
    assert [(row.output, row.rows, row.is_partial) for row in table_rows(status)] == [
        ("append", 3, False),
        ("late", 1, False),
    ]
    description = " ".join(describe_checkpoint(status))
    assert f"Read: 11 offsets of {topic}" in description
    assert "Open: the watermark is 2026-01-02T00:02:03Z" in description
    assert "The latest emitted window ends 2026-01-02T00:02:00" in description


@pytest.mark.jobs
@pytest.mark.broker
def test_two_topics_and_a_topic_with_a_table_are_joined_without_code(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    left, right = (broker.create_topic(f"{topic}-{n}", retention_ms=-1) for n in "ab")
    send(broker, left, [reading(0, 1.0), reading(1, 2.0, "b"), reading(2, -9.0)])
    send(broker, right, [reading(5, 7.0), reading(6, -7.0), reading(100, 8.0, "b")])
    # Rows that no condition lets through take the watermark on all the same.
    for each in (left, right):
        send(broker, each, [reading(600, -1.0, "z")])
    own = {"kafka.bootstrap_servers": broker.bootstrap_servers, "output.root": tmp_path}
    sensors = {key.removeprefix("input."): SENSORS[key] for key in SENSORS if key.startswith("in")}
    both = {f"{side}.{key}": value for side in ("left", "right") for key, value in sensors.items()}
    both |= {"left.topics": left, "right.topics": right, "join.on": "sensor", "join.after": "9s"}
    both |= {"left.where": "value > 0", "right.where": "value is null or value > 0"}
    done = run(join(from_options(Join, {**own, **both, "join.how": "left"})), spark)
    assert (done.rows_in, done.filtered_rows, done.rows_out, done.late_rows, done.dead_letters) == (
        8,
        4,
        2,
        0,
        0,
    )
    joined = tables.rows(tmp_path / "join")
    pairs = [(row["sensor"], row["value_left"], row["value_right"]) for row in joined]
    assert sorted(pairs) == [("a", 1.0, 7.0), ("b", 2.0, None)]
    # Of three rows that come too late one counts.
    send(broker, left, [reading(3, 1.0), reading(3, -1.0), reading(700, 1.0, "z"), reading(4, 0.0)])
    done = run(join(from_options(Join, {**own, **both, "join.how": "left"})), spark)
    assert (done.rows_in, done.filtered_rows, done.late_rows) == (4, 2, 1)
    assert [row["value"] for row in tables.rows(tmp_path / "late_left")] == [1.0]

    places = spark.createDataFrame([("a", "roof")], "sensor string, place string")
    places.write.format("delta").save(str(tmp_path / "places"))
    options: dict[str, object] = {k: v for k, v in SENSORS.items() if k.startswith("input.")}
    options |= {"input.topics": left, "enrich.table": tmp_path / "places", "enrich.on": "sensor"}
    options |= {"output.cluster_by": "date,sensor", "output.properties.delta.appendOnly": "true"}
    options |= {"input.where": "value <= 2 and value >= -1"}
    done = run(enrich(from_options(Enrich, {**own, **options})), spark)
    assert (done.rows_in, done.filtered_rows, done.rows_out) == (8, 1, 7)
    enriched = tables.rows(tmp_path / "enrich")
    assert {row["date"] for row in enriched} == {date(2026, 1, 2)}
    state = delta_state(spark, str(tmp_path / "enrich"))
    assert state.clustering_columns() == ["date", "sensor"]
    assert state.property("delta.appendOnly") == "true"
    met = {row["sensor"]: row["place"] for row in enriched}
    assert met == {"a": "roof", "b": None, "z": None}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["aggregates.p99=quantil(value, 1)"], "invalid aggregates.p99: 'quantil(value, 1)' (comm"),
        (["aggregates.p 99=count"], "invalid aggregates: 'p 99'"),
        (["aggregates.WINDOW=count"], "invalid aggregates.WINDOW: duplicate column name"),
        (["aggregates.sensor=count"], "names other than window, sensor"),
        (["aggregates.TOTAL=count"], "invalid aggregates.TOTAL: duplicate column name"),
        (["aggregates.n=5"], "invalid aggregates.n: 5 (command line)\n  expected: text"),
        (["output.partition_by=day"], "invalid output.partition_by: unknown columns day"),
        (
            ["output.partition_by=date", "aggregates.date=count"],
            "invalid aggregates.date: duplicate",
        ),
        (["output.partition_by=date", "window.allowed_lateness=1h"], "windows that can change"),
        (
            ["output.cluster_by=windows.start"],
            "invalid output.cluster_by: unknown columns windows.start",
        ),
        (["output.cluster_by=window.start", "output.partition_by=date"], "one of the two"),
        (
            ["output.properties.delta.autoOptimize.autoCompact=true"],
            "Delta would add its own commits",
        ),
        (
            ["output.side_table_properties.delta.autoOptimize.autoCompact=true"],
            "invalid output.side_table_properties: delta.autoOptimize.autoCompact",
        ),
        (
            ["output.side_table_cluster_by=topic,reason"],
            "invalid output.side_table_cluster_by: reason",
        ),
        (
            ["output.side_table_cluster_by=topc"],
            "topic and partition: the columns that all side outputs have",
        ),
        (["output.side_table_partition_by=Topic"], "try: output.side_table_partition_by=["),
        (
            ["output.side_table_cluster_by=7"],
            "invalid output.side_table_cluster_by: 7 (command line)",
        ),
        (["output.side_table_clusters=topic"], "try: output.side_table_cluster_by"),
        (
            ["output.side_table_cluster_by=topic", "output.side_table_partition_by=partition"],
            "output.side_table_partition_by",
        ),
        (["input.time_unit=nanoseconds"], "expected: 'seconds', 'milliseconds' or 'microseconds'"),
        (["window.where=''"], "invalid window.where: ''"),
    ],
)
def test_an_invalid_value_of_a_built_in_job_is_an_error(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_options(Windows, SENSORS, *overrides)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["aggregates.n=avg(valu)"], "try: value"),
        (["window.by=sensors"], "invalid window.by: unknown columns sensors"),
        (["input.time=value"], r"\[input\] invalid time: 'value' of type double with time_unit"),
        (["input.time=when"], r"invalid input\.time: unknown columns when"),
        (
            ["input.schema=sensor strin, value double, at int"],
            r"\[input\] invalid schema: 'sensor s",
        ),
    ],
)
def test_a_missing_column_is_an_error_before_the_stream_starts(
    spark: SparkSession, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        windows(from_options(Windows, SENSORS, *overrides))


@pytest.mark.parametrize("name", BUILT_IN_JOBS)
def test_the_shipped_file_of_a_built_in_job_is_valid(name: str, spark: SparkSession) -> None:
    built_in = BUILT_IN_JOBS[name]
    assert built_in.build(configured(built_in.model)).name == name


@pytest.mark.broker
def test_a_postgresql_table_mirrors_the_windows(
    spark: SparkSession,
    broker: Broker,
    postgres: Server,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    monkeypatch.setenv("STORE", PASSWORD)
    options = {
        **SENSORS,
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "input.topics": topic,
        "output.root": tmp_path,
        "mirror.table": "per_minute",
        "mirror.host": "127.0.0.1",
        "mirror.port": postgres.port,
        "mirror.password": "env:STORE",
    }
    send(broker, topic, [reading(5, 2.0), reading(6, 4.0), reading(65, 8.0), reading(132, 1.0)])
    job = windows(from_options(Windows, options))
    assert PASSWORD not in repr(job)
    run(job, spark)
    found = postgres.run(
        "SELECT window_start, window_end, sensor, readings, total FROM per_minute ORDER BY 1"
    )
    assert found == [[moment(0), moment(60), "a", 2, 6.0], [moment(60), moment(120), "a", 1, 8.0]]
    assert len(tables.rows(tmp_path / "windows")) == 2


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"mirror.password": "plain"}, "invalid mirror.password: a secret"),
        ({"window.allowed_lateness": "1 hour"}, "windows that can change"),
        ({"aggregates.window_end": "count"}, "invalid aggregates.window_end: duplicate"),
    ],
)
def test_an_invalid_mirror_is_rejected(
    tmp_path: Path, overrides: dict[str, str], message: str
) -> None:
    options = {
        **SENSORS,
        "kafka.bootstrap_servers": "b:1",
        "output.root": tmp_path,
        "mirror.table": "t",
    }
    with pytest.raises(ConfigError, match=message):
        configured(Windows, {**options, **overrides})
