"""Missing, restored and replaced versions of a table: complete changes, or an error."""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tests.support.hypothesis_profiles import few
from tests.support.sink_batches import batch, rows
from tidegate import FollowResult, follow
from tidegate.errors import ConfigError, SourceError, TableError, TableMismatchError
from tidegate.jvm import checkpoint_table, with_settings
from tidegate.sinks import Append, CurrentTable, MapRows
from tidegate.sources import DeltaChangeFeed, net_changes
from tidegate.testing import CrashError, crash_after

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

FEED = "delta.enableChangeDataFeed"


def execute(spark: SparkSession, path: Path, *statements: str) -> None:
    for each in statements:
        spark.sql(each.format(table=f"delta.`{path}`"))


@pytest.fixture(scope="module")
def base(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of four versions (rows, an update, a delete, an insert) and a checkpoint."""
    path = tmp_path_factory.mktemp("changes") / "base"
    four = spark.createDataFrame([(n, "a") for n in range(4)], "id bigint, v string").coalesce(1)
    four.write.format("delta").option(FEED, "true").save(str(path))
    execute(
        spark,
        path,
        "UPDATE {table} SET v = 'b' WHERE id = 1",
        "DELETE FROM {table} WHERE id = 2",
        "INSERT INTO {table} VALUES (9, 'n')",
    )
    checkpoint_table(spark, str(path))
    return path


@pytest.fixture
def table(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base, tmp_path / "t"))


def without_versions(path: Path, *versions: int) -> Path:
    """Delete versions from the log of a table."""
    for version in versions:
        for file in (path / "_delta_log").glob(f"*{version:020d}.*json*"):
            file.unlink()
        (path / "_delta_log" / f"{version:020d}.crc").unlink(missing_ok=True)
    return path


def require_same(spark: SparkSession, sink: CurrentTable, path: Path) -> None:
    assert sorted(map(tuple, sink.rows(spark).collect())) == sorted(
        map(tuple, rows(spark, str(path)))
    )


def followed(spark: SparkSession, path: Path, *, since: int = 0) -> FollowResult:
    """Follow a table, and require that the target has its rows."""
    sink = CurrentTable(f"{path}.current")
    done = follow(
        DeltaChangeFeed(str(path), key="id"), sink, spark, job="out", starting_version=since
    )
    require_same(spark, sink, path)
    return done


def test_missing_versions_of_the_log_are_refused_by_number(
    spark: SparkSession, base: Path, tmp_path: Path
) -> None:
    hole = without_versions(Path(shutil.copytree(base, tmp_path / "hole")), 2)
    with pytest.raises(SourceError, match="version 2 is not in its log"):
        net_changes(spark, str(hole), 1, 3, key="id")
    with pytest.raises(SourceError, match="version 2 is not in its log"):
        followed(spark, hole)
    cleaned = without_versions(Path(shutil.copytree(base, tmp_path / "cleaned")), 0, 1)
    with pytest.raises(SourceError, match="version 1 is not in its log"):
        followed(spark, cleaned)
    assert not list(tmp_path.glob("*.current"))
    assert followed(spark, cleaned, since=3).changes == 4


def test_files_that_vacuum_has_deleted_are_an_error_also_if_the_session_ignores_them(
    spark: SparkSession, table: Path
) -> None:
    for file in (table / "_change_data").iterdir():
        file.unlink()
    with (
        with_settings(spark, {"spark.sql.files.ignoreMissingFiles": "true"}),
        pytest.raises(ConfigError, match="would be skipped without an error"),
    ):
        followed(spark, table)
    with pytest.raises(SourceError, match="cannot be read"):
        followed(spark, table)
    assert followed(spark, table.rename(table.with_name("newer")), since=3).changes == 4


def test_a_restore_is_a_change_and_versions_without_the_feed_are_an_error(
    spark: SparkSession, table: Path
) -> None:
    assert followed(spark, table, since=3).changes == 4
    execute(spark, table, "RESTORE {table} TO VERSION AS OF 1")
    assert followed(spark, table).changes == 2, "2 is back, and 9 is deleted"
    switch = f"ALTER TABLE {{table}} SET TBLPROPERTIES ('{FEED}' = '%s')"
    execute(spark, table, switch % "false", "DELETE FROM {table} WHERE id = 0")
    with pytest.raises(TableError, match="does not record its changes"):
        followed(spark, table)
    execute(spark, table, switch % "true")
    with pytest.raises(SourceError, match="the feed was enabled later"):
        followed(spark, table)
    with pytest.raises(SourceError, match="the feed was enabled later"):
        net_changes(spark, str(table), 5, 7, key="id")


def test_a_replaced_table_is_refused_also_while_it_is_followed(
    spark: SparkSession, table: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    spark.createDataFrame([(7, "new")], "id bigint, v string").write.format("delta").option(
        FEED, "true"
    ).save(str(other))
    execute(spark, other, "DELETE FROM {table} WHERE id = 7", "INSERT INTO {table} VALUES (8, '')")

    def replaced(changes: DataFrame) -> DataFrame:
        if other.exists():
            shutil.rmtree(table)
            other.rename(table)
        return changes

    target = Append(str(tmp_path / "changelog"))
    source = DeltaChangeFeed(str(table), key="id")
    with pytest.raises(TableMismatchError, match="was replaced while it was read"):
        follow(source, MapRows(rows=replaced, sink=target), spark, job="out")
    assert {row.position.offset for row in rows(spark, target.path)} == {0}
    with pytest.raises(TableMismatchError, match="the changes of another table"):
        follow(source, target, spark, job="out")


# A short draw uses the first of each, which should be the hardest.
STATEMENTS = [
    "RESTORE {table} TO VERSION AS OF 2",
    "INSERT OVERWRITE {table} SELECT id, 'over' FROM {table} WHERE id > 0",
    "DELETE FROM {table} WHERE id IN (1, 3)",
    "UPDATE {table} SET v = concat(v, 'x') WHERE id < 2",
    "INSERT INTO {table} SELECT max(id) + 1, 'more' FROM {table}",
    "OPTIMIZE {table}",
]
RUNS = st.lists(
    st.tuples(st.sampled_from(STATEMENTS), st.sampled_from(["die", "wait", "follow"])),
    min_size=2,
    max_size=5,
    unique_by=lambda each: each[0],
)
CUTS = st.lists(st.tuples(st.integers(3, 12), st.integers(1, 3)), min_size=1, max_size=3)


@pytest.mark.draws("examples", short=[1], long=[20])
def test_the_changelog_of_any_history_rebuilds_the_table_in_any_batches(
    spark: SparkSession, base: Path, tmp_path_factory: pytest.TempPathFactory, examples: int
) -> None:
    @few(examples)
    @given(runs=RUNS, cuts=CUTS)
    def agree(runs: list[tuple[str, str]], cuts: list[tuple[int, int]]) -> None:
        root = tmp_path_factory.mktemp("drawn")
        table = Path(shutil.copytree(base, root / "t"))
        source, log = DeltaChangeFeed(str(table), key="id"), Append(f"{root}/log")
        for statement, then in runs:
            execute(spark, table, statement)
            if then == "die":
                with suppress(CrashError), crash_after(log.path):
                    follow(source, log, spark, job="out", starting_version=3)
            elif then == "follow":
                follow(source, log, spark, job="out", starting_version=3)
        follow(source, log, spark, job="out", starting_version=3)

        # Replay the changelog in random batches, each with some rows of the previous one.
        written = spark.read.format("delta").load(log.path)
        ordered = written.sort("position.offset").collect()
        rebuilt = CurrentTable(f"{root}/rebuilt")
        ends = sorted(min(cut, len(ordered)) for cut, _ in cuts)
        for number, (start, stop) in enumerate(pairwise([0, *ends, len(ordered)])):
            redelivered = cuts[number % len(cuts)][1]
            part = ordered[max(0, start - redelivered) : stop]
            rebuilt.write({"rows": spark.createDataFrame(part, written.schema)}, batch(number))
        require_same(spark, rebuilt, table)

    agree()
