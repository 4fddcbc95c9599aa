"""The newest version of a table from two files of its log equals that of a listing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from tidegate.jvm import delta, delta_state, with_settings

ReadVersion = Callable[..., tuple[int, str | None, bool]]


@pytest.fixture
def read_version(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ReadVersion:
    """Return a function for a table's version, its id, and whether two files sufficed."""
    sufficed: list[bool] = []
    is_newest = delta._is_newest

    def record(*args: Any) -> bool:
        sufficed.append(is_newest(*args))
        return sufficed[-1]

    monkeypatch.setattr(delta, "_is_newest", record)

    def read(path: str = "") -> tuple[int, str | None, bool]:
        state = delta_state(spark, path or str(tmp_path / "t"))
        return state.version, state.table_id() if state.version >= 0 else None, sufficed[-1]

    return read


def append(spark: SparkSession, path: Path | str, times: int = 1) -> None:
    for _ in range(times):
        spark.range(1).write.format("delta").mode("append").save(str(path))


def id_of(path: Path) -> str:
    """Return the id of a table by another reader of Delta tables."""
    return str(DeltaTable(path).metadata().id)


def test_a_session_need_not_list_the_log_after_its_own_commit(
    spark: SparkSession, tmp_path: Path, read_version: ReadVersion
) -> None:
    assert read_version() == (-1, None, False)
    for version in range(12):
        append(spark, tmp_path / "t")
        for _ in range(2):
            assert read_version() == (version, id_of(tmp_path / "t"), True)


def test_a_commit_of_another_writer_is_detected(
    spark: SparkSession, tmp_path: Path, read_version: ReadVersion
) -> None:
    append(spark, tmp_path / "t")
    table_id = id_of(tmp_path / "t")
    assert read_version() == (0, table_id, True)
    write_deltalake(tmp_path / "t", spark.range(1).toPandas(), mode="append")
    assert read_version() == (1, table_id, False)
    assert read_version() == (1, table_id, True)


def test_a_deleted_table_and_another_one_with_as_many_commits_are_detected(
    spark: SparkSession, tmp_path: Path, read_version: ReadVersion
) -> None:
    path = tmp_path / "t"
    append(spark, path, times=2)
    assert read_version()[2]
    shutil.rmtree(path)
    assert read_version() == (-1, None, False)
    append(spark, path, times=2)
    first = id_of(path)
    assert read_version() == (1, first, True)
    shutil.move(path, tmp_path / "first")
    for _ in range(2):
        write_deltalake(path, spark.range(1).toPandas(), mode="append")
    assert id_of(path) != first
    assert read_version() == (1, id_of(path), False)


def test_a_restored_older_copy_is_detected(
    spark: SparkSession, tmp_path: Path, read_version: ReadVersion
) -> None:
    path = tmp_path / "t"
    append(spark, path)
    table_id = id_of(path)
    shutil.copytree(path, tmp_path / "older")
    append(spark, path)
    assert read_version() == (1, table_id, True)
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "older", path)
    assert read_version() == (0, table_id, False)
    write_deltalake(path, spark.range(1).toPandas(), mode="append")
    assert read_version() == (1, table_id, False)


def test_the_log_of_another_file_system_need_not_be_listed_either(
    spark: SparkSession, tmp_path: Path, read_version: ReadVersion
) -> None:
    """Hadoop's viewfs mounts a local folder as another file system."""
    with with_settings(spark, {"fs.viewfs.mounttable.lake.link./tables": tmp_path.as_uri()}):
        for version in range(3):
            append(spark, "viewfs://lake/tables/t")
            assert read_version("viewfs://lake/tables/t")[::2] == (version, True)
        write_deltalake(tmp_path / "t", spark.range(1).toPandas(), mode="append")
        assert read_version("viewfs://lake/tables/t")[::2] == (3, False)
        assert read_version("viewfs://lake/tables/t")[::2] == (3, True)
