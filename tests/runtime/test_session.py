"""The settings of a Spark session, and who has the last word on each."""

from __future__ import annotations

import pytest

from tidegate.runtime.process.session import SMALL, choose, defaults, local_cores

FILE = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.x": "file",
}


def test_the_settings_file_is_read_without_its_comments() -> None:
    found = defaults()
    assert found["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert all(key.startswith("spark.") and value for key, value in found.items())


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[4,2]", 4),
        ("spark://h:7077", 0),
        ("yarn", 0),
        ("local-cluster[2,1,99]", 0),
    ],
)
def test_only_a_local_master_has_cores_of_this_machine(master: str, cores: int) -> None:
    assert local_cores(master) == cores


def test_all_cores_are_those_of_this_process() -> None:
    assert local_cores("local[*]") >= 1


def test_a_small_machine_gets_as_many_partitions_as_cores() -> None:
    chosen = choose(FILE, {}, {"spark.master": "local[3]"})
    assert [chosen[key] for key in SMALL] == ["3", "3"]


def test_a_cluster_keeps_the_file() -> None:
    chosen = choose(FILE, {"spark.master": "spark://h:7077"}, {})
    assert [chosen[key] for key in SMALL] == ["2", "2"]


def test_what_a_user_has_set_stays() -> None:
    submitted = {"spark.sql.shuffle.partitions": "64", "spark.x": "submitted"}
    chosen = choose(FILE, submitted, {"spark.master": "local[3]", SMALL[1]: "2"})
    assert (chosen[SMALL[0]], chosen[SMALL[1]], chosen["spark.x"]) == ("64", "2", "submitted")
