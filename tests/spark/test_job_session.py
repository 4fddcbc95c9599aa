"""A job works in a copy of the caller's session."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from tests.support.delta_tables import rows
from tests.support.number_job import NumberJob
from tidegate import run, write_initial_snapshot
from tidegate.errors import ConfigError
from tidegate.jvm import with_settings
from tidegate.operations.erasure.erase import erase
from tidegate.operations.replay.swap import swap_tables
from tidegate.operations.rescale import rescale
from tidegate.sinks import CurrentTable
from tidegate.spark.job_session import job_session, require_job_session
from tidegate.testing import StreamDriver

LAST = datetime(9999, 12, 31, tzinfo=UTC)
CALLER = {
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.sql.parquet.outputTimestampType": "INT96",
}


class Listener(StreamingQueryListener):
    """Records the names of the queries that have started."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def onQueryStarted(self, event: object) -> None:  # noqa: N802
        self.names.append(event.name)  # type: ignore[attr-defined]

    def onQueryProgress(self, event: object) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: object) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: object) -> None:  # noqa: N802
        pass


def test_rows_that_a_function_joins_to_a_table_of_the_caller_are_written_by_the_job_s_settings(
    spark: SparkSession, numbers: NumberJob
) -> None:
    last_day = spark.sql("select timestamp '9999-12-31 00:00:00Z' at")

    def each_batch(batch: DataFrame) -> DataFrame:
        return last_day.crossJoin(batch.selectExpr("cast(n AS DOUBLE) AS n"))

    listener = Listener()
    spark.streams.addListener(listener)
    with with_settings(spark, CALLER):
        run(numbers.job("DOUBLE", each_batch), spark)
        assert {key: spark.conf.get(key) for key in CALLER} == CALLER
    spark.streams.removeListener(listener)
    assert [row["at"] for row in rows(Path(numbers.root, "numbers"))] == [LAST] * 3
    assert listener.names == ["numbers"]


def test_a_snapshot_is_written_by_the_settings_of_a_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    with with_settings(spark, CALLER):
        customers = spark.sql("select 1 id, timestamp '9999-12-31 00:00:00Z' until")
        write_initial_snapshot(
            customers,
            CurrentTable(str(tmp_path / "customers")),
            job="customers",
            key="id",
            log_position=[7],
            snapshot_time=datetime(2026, 3, 2, tzinfo=UTC),
        )
    assert [row["until"] for row in rows(tmp_path / "customers")] == [LAST]


@pytest.mark.jobs
def test_an_erasure_finds_and_writes_rows_by_the_settings_of_a_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "root" / "customers"
    with with_settings(spark, {"spark.sql.session.timeZone": "UTC"}):
        spark.sql(
            """select * from values
            ('alice', timestamp '2026-03-02 09:00:00Z', timestamp '9999-12-31 00:00:00Z'),
            ('ben', timestamp '2026-03-02 14:30:00Z', timestamp '9999-12-31 00:00:00Z')
            as customers(name, born, until)"""
        ).coalesce(1).write.format("delta").save(str(table))
    with with_settings(spark, CALLER):
        report = erase(spark, [str(table.parent)], ["born=2026-03-02 09:00:00"])
    assert [each.rows for each in report.tables] == [1]
    assert [(row["name"], row["until"]) for row in rows(table)] == [("ben", LAST)]


def test_a_stream_driver_runs_with_the_settings_of_a_job(spark: SparkSession) -> None:
    def as_text(events: DataFrame) -> DataFrame:
        return events.selectExpr("cast(event_time AS STRING) AS text")

    with (
        with_settings(spark, CALLER),
        StreamDriver(spark, "event_time TIMESTAMP", as_text, watermark_delay=None) as stream,
    ):
        output = stream.feed([(datetime(2026, 3, 2, 9, tzinfo=UTC),)])
        assert {key: spark.conf.get(key) for key in CALLER} == CALLER
    assert [row.text for row in output] == ["2026-03-02 09:00:00"]


def start_driver(spark: SparkSession) -> None:
    with StreamDriver(spark, "event_time TIMESTAMP", lambda events: events, watermark_delay=None):
        pass


@pytest.mark.parametrize(
    "call",
    [
        lambda spark: erase(spark, ["/no/such/folder"], ["name=alice"]),
        lambda spark: rescale(spark, cast(Any, None)),
        lambda spark: swap_tables(cast(Any, None), spark),
        start_driver,
    ],
    ids=["erase", "rescale", "swap_tables", "StreamDriver"],
)
def test_an_operation_refuses_a_session_that_a_job_refuses(
    spark: SparkSession, call: Callable[[SparkSession], object]
) -> None:
    with (
        with_settings(spark, {"spark.sql.files.ignoreMissingFiles": "true"}),
        pytest.raises(ConfigError, match="ignoreMissingFiles"),
    ):
        call(spark)


def test_a_locale_whose_digits_spark_would_write_into_file_names_is_refused(
    spark: SparkSession,
) -> None:
    locales = spark._jvm.java.util.Locale  # type: ignore[union-attr]
    before = locales.getDefault()
    locales.setDefault(locales("ar", "EG"))
    try:
        with pytest.raises(ConfigError, match=r"invalid user\.language of the JVM: its digit 0 is"):
            require_job_session(spark)
    finally:
        locales.setDefault(before)
    require_job_session(spark)


def test_a_job_runs_without_legacy_settings_and_a_warning_lists_them(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    legacy = {"spark.sql.legacy.sizeOfNull": "false"}
    with caplog.at_level(logging.WARNING), with_settings(spark, legacy):
        with job_session(spark) as session:
            assert session.conf.get("spark.sql.legacy.sizeOfNull") == "true"
        assert spark.conf.get("spark.sql.legacy.sizeOfNull") == "false"
    assert "without these settings of the session: spark.sql.legacy.sizeOfNull=false" in caplog.text
    assert SparkSession.getActiveSession() is not None
