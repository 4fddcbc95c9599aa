"""Failures that every start repeats have an exit code of their own, and a remedy that ends them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.number_job import NumberJob
from tidegate import run
from tidegate.errors import DataError, TableError, TidegateError
from tidegate.jvm import with_settings
from tidegate.process.exit_codes import EXIT_CODES, run_with_exit_code
from tidegate.sinks import Append
from tidegate.spark.spark_errors import translate_error

pytestmark = pytest.mark.jobs

DATA_ERROR_CODE = EXIT_CODES[DataError][0]


@pytest.mark.broker
def test_a_batch_for_which_a_function_raises_is_written_once_the_function_is_corrected(
    numbers: NumberJob, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("n / (n - 9.0) AS n")

    run(numbers.job(), spark)
    numbers.send(9)
    job = numbers.job(each_batch=broken)
    assert run_with_exit_code(lambda: run(job, spark)) == DATA_ERROR_CODE
    output = capsys.readouterr().err
    assert output.startswith("DataError: a row of the batch cannot be computed or stored")
    run(numbers.job(), spark)
    assert numbers.values() == [1.0, 3.0, 9.0]


@pytest.mark.broker
def test_a_column_that_another_program_has_added_can_be_removed_again(
    numbers: NumberJob, spark: SparkSession
) -> None:
    run(numbers.job(), spark)
    table = f"delta.`{numbers.root}/numbers`"
    spark.sql(f"ALTER TABLE {table} ADD COLUMN added STRING")
    numbers.send(4)
    for evolve in (False, True):
        sink = Append(f"{numbers.root}/numbers", evolve=evolve)
        with pytest.raises(TableError, match="added is missing") as error:
            run(replace(numbers.job(), sink=sink), spark)
        assert "evolve" not in error.value.remedy
        assert "RESTORE TABLE to the version before" in error.value.remedy
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    run(numbers.job(), spark)
    assert numbers.values() == [1.0, 3.0, 4.0]


def test_arithmetic_casts_and_damaged_files_are_errors_of_the_data(
    spark: SparkSession, tmp_path: Path
) -> None:
    for expression in ("1 / (id - id)", "cast('x' || id AS INT)", "array(1)[id + 5]"):
        failure = _failure(spark.range(1).selectExpr(expression))
        assert type(failure) is DataError, expression
        # The library refuses the setting that Spark recommends.
        assert "spark.sql.ansi.enabled" not in failure.detail
    spark.range(3).write.format("delta").save(str(tmp_path))
    table = spark.read.format("delta").load(str(tmp_path))
    for file in tmp_path.glob("*.parquet"):
        file.write_bytes(b"damaged")
    damaged = _failure(table)
    assert (type(damaged), damaged.problem) == (
        DataError,
        "a file of a table is damaged or missing",
    )
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    assert type(_failure(table)) is DataError


@pytest.mark.parametrize(
    "name",
    [
        "spark.databricks.delta.write.txnAppId",
        "spark.databricks.delta.write.txnVersion",
        "spark.databricks.delta.properties.defaults.setTransactionRetentionDuration",
    ],
)
@pytest.mark.broker
def test_transaction_numbers_of_the_session_do_not_reach_the_commits_of_a_job(
    numbers: NumberJob, spark: SparkSession, name: str
) -> None:
    value = "interval 1 days" if name.endswith("Duration") else "1"
    with with_settings(spark, {name: value}):
        assert run(numbers.job(), spark).rows_out == 2
        assert run(numbers.job(), spark).rows_out == 0


def _failure(frame: DataFrame) -> TidegateError:
    with pytest.raises((PySparkException, Py4JError)) as error:
        frame.collect()
    return translate_error(error.value)
