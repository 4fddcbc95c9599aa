"""A job on a real standalone cluster: executors are other processes, and `tidegate` reaches them by
--py-files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tidegate.testing.cluster import SparkCluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCRIPT = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.durations import microseconds

spark = SparkSession.builder.appName("smoke").getOrCreate()

@F.udf("string")
def where(size):
    import tidegate
    from tidegate.durations import microseconds
    return f"{tidegate.__file__} {microseconds(size)}"

rows = spark.range(0, 1000, numPartitions=4).withColumn("where", where(F.lit("1 minute")))
rows.write.format("delta").mode("overwrite").save(sys.argv[1])
print("master", spark.sparkContext.master, "driver lib", tidegate.__file__)
"""

SEEN = r"\S*/tidegate\.zip/tidegate/__init__\.py 60000000"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster.start(workers=2) as started:
        yield started


def test_a_script_writes_a_delta_table_with_lib_by_py_files_alone(
    cluster: SparkCluster, shipped: Path, tmp_path: Path
) -> None:
    script = tmp_path / "smoke.py"
    script.write_text(SCRIPT, encoding="utf-8")
    table = tmp_path / "table"
    done = cluster.submit(
        script,
        str(table),
        py_files=[shipped],
        cwd=tmp_path,
        settings={"spark.executor.memory": "512m"},
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert f"master {cluster.master}" in done.stdout
    rows = DeltaTable(str(table)).to_pandas()
    assert sorted(rows["id"]) == list(range(1000))
    assert [row for row in rows["where"].unique() if not re.fullmatch(SEEN, row)] == []


def test_the_cluster_has_two_workers(cluster: SparkCluster) -> None:
    state = cluster.state()
    assert state["aliveworkers"] == 2
    assert state["cores"] == 2
