"""Jobs that need no code: a topic's own columns in windows, two topics joined, a topic enriched."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.command.logs import Folder
from tidegate.command.status import jobs, rows, told
from tidegate.errors import ConfigError
from tidegate.jobs import READY, Enrich, Join, Windows
from tidegate.jobs.enrich import job as enrich
from tidegate.jobs.join import job as join
from tidegate.jobs.windows import job as windows
from tidegate.jvm import delta_state
from tidegate.runtime import run
from tidegate.runtime.query.waiting import waiting
from tidegate.testing import Broker, Record, deliver

from .. import tables
from ..configured import configured, from_options
from ..stores.server import PASSWORD, Server

START = 1_767_312_000_000
"""2026-01-02 00:00 UTC, in milliseconds."""
SENSORS = {
    "input.topics": "sensors",
    "input.schema": "sensor string not null, value double, at bigint",
    "input.time": "at",
    "input.time_unit": "milliseconds",
    "input.lateness": "10 seconds",
    "window.size": "1 minute",
    "window.by": "sensor",
    "window.where": "value >= 0",
    "aggregates.readings": "count",
    "aggregates.total": "total(value)",
    "aggregates.p50": "quantile(value, 0.5)",
    "aggregates.kinds": "distinct(value)",
}


def send(broker: Broker, topic: str, records: list[dict[str, Any]]) -> None:
    given = [Record(topic, json.dumps(record).encode(), START + 600_000) for record in records]
    deliver(broker.servers, given)


def reading(second: int, value: float, sensor: str = "a") -> dict[str, Any]:
    return {"sensor": sensor, "value": value, "at": START + 1_000 * second}


def moment(second: int) -> datetime:
    return datetime.fromtimestamp(START / 1000 + second, UTC)


@pytest.mark.broker
def test_a_topic_s_own_columns_are_counted_without_code(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, retention_ms=-1)
    options = {
        **SENSORS,
        "kafka.servers": broker.servers,
        "input.topics": topic,
        "output.root": tmp_path,
        "output.partition_by": "date",
    }
    job = windows(from_options(Windows, options))
    # 23:59 the day before, then two minutes of the day; a row that the condition leaves out.
    send(broker, topic, [reading(-30, 1.0), reading(5, 2.0), reading(6, 4.0), reading(7, -1.0)])
    send(broker, topic, [reading(50, 8.0), reading(65, 16.0), reading(132, 1.0, "b")])
    done = run(job, spark)
    assert (done.rows_in, done.rows_out, done.late, done.dead) == (7, 3, 0, 0)
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
    open_results = waiting(job, spark, done)
    assert open_results is not None
    assert "the watermark is 2026-01-02 00:02:02Z" in open_results
    assert "when it reaches 2026-01-02 00:03:00Z: with an event of 2026-01-02 00:03:10Z" in (
        open_results
    )

    # Too late, of which one row would have been left out anyhow and is not late either.
    send(broker, topic, [reading(8, 5.0), reading(9, -5.0), reading(133, 1.0, "b")])
    assert (run(job, spark).late, len(tables.rows(tmp_path / "late_rows"))) == (1, 1)

    (status,) = jobs(*Folder(str(tmp_path)).found())
    assert (status.job, status.checkpoint is not None) == ("windows", True)
    assert [(row.step, row.rows, row.some) for row in rows(status)] == [
        ("append", 3, False),
        ("late", 1, False),
    ]
    said = " ".join(told(status))
    assert f"Read: 10 offsets of {topic}" in said
    assert "Open: the watermark is 2026-01-02T00:02:03Z" in said
    assert "The newest window that is out ends 2026-01-02T00:02:00" in said


@pytest.mark.broker
def test_two_topics_are_joined_and_a_topic_meets_a_table_without_code(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    left, right = (broker.create_topic(f"{topic}-{n}", retention_ms=-1) for n in "ab")
    send(broker, left, [reading(0, 1.0), reading(1, 2.0, "b"), reading(2, -9.0)])
    send(broker, right, [reading(5, 7.0), reading(6, -7.0), reading(100, 8.0, "b")])
    # Rows that no condition lets through take the watermark on all the same.
    for each in (left, right):
        send(broker, each, [reading(600, -1.0, "z")])
    own = {"kafka.servers": broker.servers, "output.root": tmp_path}
    sensors = {key.removeprefix("input."): SENSORS[key] for key in SENSORS if key.startswith("in")}
    both = {f"{side}.{key}": value for side in ("left", "right") for key, value in sensors.items()}
    both |= {"left.topics": left, "right.topics": right, "join.on": "sensor", "join.after": "9s"}
    both |= {"left.where": "value > 0", "right.where": "value is null or value > 0"}
    done = run(join(from_options(Join, {**own, **both, "join.how": "left"})), spark)
    assert (done.rows_in, done.filtered, done.rows_out, done.late, done.dead) == (8, 4, 2, 0, 0)
    joined = tables.rows(tmp_path / "join")
    pairs = [(row["sensor"], row["value_left"], row["value_right"]) for row in joined]
    assert sorted(pairs) == [("a", 1.0, 7.0), ("b", 2.0, None)]
    # Of three rows that come too late one counts.
    send(broker, left, [reading(3, 1.0), reading(3, -1.0), reading(700, 1.0, "z"), reading(4, 0.0)])
    done = run(join(from_options(Join, {**own, **both, "join.how": "left"})), spark)
    assert (done.rows_in, done.filtered, done.late) == (4, 2, 1)
    assert [row["value"] for row in tables.rows(tmp_path / "late_left")] == [1.0]

    places = spark.createDataFrame([("a", "roof")], "sensor string, place string")
    places.write.format("delta").save(str(tmp_path / "places"))
    given: dict[str, object] = {k: v for k, v in SENSORS.items() if k.startswith("input.")}
    given |= {"input.topics": left, "enrich.table": tmp_path / "places", "enrich.on": "sensor"}
    given |= {"output.cluster_by": "date,sensor", "output.properties.delta.appendOnly": "true"}
    given |= {"input.where": "value <= 2 and value >= -1"}
    done = run(enrich(from_options(Enrich, {**own, **given})), spark)
    assert (done.rows_in, done.filtered, done.rows_out) == (8, 1, 7)
    enriched = tables.rows(tmp_path / "enrich")
    assert {row["date"] for row in enriched} == {date(2026, 1, 2)}
    state = delta_state(spark, str(tmp_path / "enrich"))
    assert state.clustering_columns() == ["date", "sensor"]
    assert state.property("delta.appendOnly") == "true"
    met = {row["sensor"]: row["place"] for row in enriched}
    assert met == {"a": "roof", "b": None, "z": None}


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["aggregates.p99=quantil(value, 1)"], "aggregates.p99 is 'quantil(value, 1)' (command"),
        (["aggregates.p 99=count"], "aggregates names the column 'p 99'"),
        (["aggregates.WINDOW=count"], "aggregates.WINDOW is the name of another column"),
        (["aggregates.sensor=count"], "names other than window, sensor"),
        (["aggregates.n=5"], "aggregates.n is 5 (command line).\n  allowed: text."),
        (["output.partition_by=day"], "output.partition_by names day."),
        (["output.partition_by=date", "aggregates.date=count"], "aggregates.date is the name"),
        (["output.partition_by=date", "window.corrections=1h"], "windows change after"),
        (["output.cluster_by=windows.start"], "output.cluster_by names windows.start."),
        (["output.cluster_by=window.start", "output.partition_by=date"], "one of the two"),
        (["output.properties.delta.autoOptimize.autoCompact=true"], "commits of its own within"),
        (
            ["output.side_properties.delta.autoOptimize.autoCompact=true"],
            "output.side_properties has delta.autoOptimize.autoCompact",
        ),
        (["output.side_cluster_by=topic,reason"], "output.side_cluster_by names reason."),
        (
            ["output.side_cluster_by=topc"],
            "topic and partition: the columns that dead letters, late",
        ),
        (["output.side_partition_by=Topic"], "instead: output.side_partition_by=["),
        (["output.side_cluster_by=7"], "output.side_cluster_by is 7 (command line)"),
        (["output.side_clusters=topic"], "did you mean output.side_cluster_by?"),
        (
            ["output.side_cluster_by=topic", "output.side_partition_by=partition"],
            "output.side_partition_by is ['partition'], and output.side_cluster_by ['topic'].",
        ),
        (["input.time_unit=nanoseconds"], "allowed: 'seconds', 'milliseconds' or 'microseconds'."),
        (["window.where=''"], "window.where is ''"),
    ],
)
def test_a_wrong_value_of_a_job_without_code_is_named(overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_options(Windows, SENSORS, *overrides)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["aggregates.n=mean(valu)"], r"did you mean value\?"),
        (["window.by=sensors"], "window.by names sensors"),
        (["input.time=value"], r"\[input\] time_unit is 'milliseconds'"),
        (["input.time=when"], r"\[input\] time names 'when'"),
        (["input.schema=sensor strin"], r"\[input\] schema is 'sensor strin'"),
    ],
)
def test_a_column_that_is_not_there_is_named_before_the_stream_starts(
    spark: SparkSession, overrides: list[str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        windows(from_options(Windows, SENSORS, *overrides))


@pytest.mark.parametrize("name", READY)
def test_the_file_of_a_job_without_code_makes_a_job(name: str, spark: SparkSession) -> None:
    ready = READY[name]
    assert ready.build(configured(ready.model)).name == name


@pytest.mark.broker
def test_a_table_of_a_store_is_kept_in_step_with_windows_without_code(
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
        "kafka.servers": broker.servers,
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
    ("given", "told"),
    [
        ({"mirror.password": "plain"}, "mirror.password is a secret"),
        ({"window.corrections": "1 hour"}, "the windows change after they came out"),
        ({"aggregates.window_end": "count"}, "aggregates.window_end is the name of another"),
    ],
)
def test_a_mirror_that_cannot_be_is_refused(
    tmp_path: Path, given: dict[str, str], told: str
) -> None:
    options = {**SENSORS, "kafka.servers": "b:1", "output.root": tmp_path, "mirror.table": "t"}
    with pytest.raises(ConfigError, match=told):
        configured(Windows, {**options, **given})
