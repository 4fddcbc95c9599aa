"""Transforms need nothing but the DataFrame API: they run under Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lib

SCRIPT = """
from datetime import UTC, datetime
from pyspark.sql import SparkSession, functions as F
from lib.aggregates import count, last, mean
from lib.windows import hopping, session, sliding, tumbling

spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = [(datetime(2026, 1, 1, 10, 3, second, tzinfo=UTC), second) for second in range(0, 50, 10)]
events = spark.createDataFrame(rows, "event_time timestamp, value int")
aggs = {"n": count(), "mean": mean("value"), "last": last("value")}
for frame in (
    tumbling(events, "20 seconds", aggs=aggs),
    hopping(events, "20 seconds", "1 second", aggs=aggs),
    sliding(events, "20 seconds", aggs=aggs),
    session(events, "10 seconds", aggs=aggs),
):
    print(type(frame).__module__, sum(row.n for row in frame.collect()))
"""


def test_all_windows_run_under_spark_connect(tmp_path: Path) -> None:
    root = str(Path(lib.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable}
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    module = "pyspark.sql.connect.dataframe"
    # 5 events; each in 20 windows of a second's hop; sliding sees 1, 2, 3, 3, 3.
    assert done.stdout.split("\n")[:4] == [f"{module} {n}" for n in (5, 100, 12, 5)]
