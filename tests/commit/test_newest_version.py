"""A table's newest version, told by two files of its log, is the one that a listing tells."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from tidegate.jvm import delta, delta_state, with_settings

Told = Callable[..., tuple[int, str | None, bool]]


@pytest.fixture
def told(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Return what tells a table's version, its id, and whether the two files were enough."""
    enough: list[bool] = []
    by_files = delta._is_newest

    def noted(*given: Any) -> bool:
        enough.append(by_files(*given))
        return enough[-1]

    monkeypatch.setattr(delta, "_is_newest", noted)

    def tell(path: str = "") -> tuple[int, str | None, bool]:
        state = delta_state(spark, path or str(tmp_path / "t"))
        return state.version, state.table_id() if state.version >= 0 else None, enough[-1]

    return tell


def append(spark: SparkSession, path: Path | str, times: int = 1) -> None:
    for _ in range(times):
        spark.range(1).write.format("delta").mode("append").save(str(path))


def id_of(path: Path) -> str:
    """Return a table's id, as another reader of Delta tables tells it."""
    return str(DeltaTable(path).metadata().id)


def test_after_a_commit_of_its_own_a_session_need_not_list_the_log(
    spark: SparkSession, tmp_path: Path, told: Told
) -> None:
    assert told() == (-1, None, False)
    for version in range(12):
        append(spark, tmp_path / "t")
        for _ in range(2):
            assert told() == (version, id_of(tmp_path / "t"), True)


def test_a_commit_of_another_writer_is_seen(
    spark: SparkSession, tmp_path: Path, told: Told
) -> None:
    append(spark, tmp_path / "t")
    made = id_of(tmp_path / "t")
    assert told() == (0, made, True)
    write_deltalake(tmp_path / "t", spark.range(1).toPandas(), mode="append")
    assert told() == (1, made, False)
    assert told() == (1, made, True)


def test_a_table_that_is_gone_or_another_of_as_many_commits_is_seen(
    spark: SparkSession, tmp_path: Path, told: Told
) -> None:
    path = tmp_path / "t"
    append(spark, path, times=2)
    assert told()[2]
    shutil.rmtree(path)
    assert told() == (-1, None, False)
    append(spark, path, times=2)
    first = id_of(path)
    assert told() == (1, first, True)
    shutil.move(path, tmp_path / "first")
    for _ in range(2):
        write_deltalake(path, spark.range(1).toPandas(), mode="append")
    assert id_of(path) != first
    assert told() == (1, id_of(path), False)


def test_an_older_copy_that_was_put_back_is_seen(
    spark: SparkSession, tmp_path: Path, told: Told
) -> None:
    path = tmp_path / "t"
    append(spark, path)
    made = id_of(path)
    shutil.copytree(path, tmp_path / "older")
    append(spark, path)
    assert told() == (1, made, True)
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "older", path)
    assert told() == (0, made, False)
    write_deltalake(path, spark.range(1).toPandas(), mode="append")
    assert told() == (1, made, False)


def test_the_log_of_another_file_system_need_not_be_listed_either(
    spark: SparkSession, tmp_path: Path, told: Told
) -> None:
    """Hadoop shows a folder of this machine as another file system's."""
    with with_settings(spark, {"fs.viewfs.mounttable.lake.link./tables": tmp_path.as_uri()}):
        for version in range(3):
            append(spark, "viewfs://lake/tables/t")
            assert told("viewfs://lake/tables/t")[::2] == (version, True)
        write_deltalake(tmp_path / "t", spark.range(1).toPandas(), mode="append")
        assert told("viewfs://lake/tables/t")[::2] == (3, False)
        assert told("viewfs://lake/tables/t")[::2] == (3, True)
