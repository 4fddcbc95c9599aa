"""A backfill on a cluster, started by spark-submit: warm up on a small topic, then measure.

Command line: NAME SERVERS WARM_TOPIC TOPIC FOLDER. The program writes FOLDER/measured.json:
`seconds` of the run, and `batch`, the seconds up to the end of the backfill."""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path

# spark-submit runs this file by its path.
sys.path.insert(0, str(Path(__file__).parents[2]))

from pyspark.sql import functions as F

from benchmarks.contestants.backfill_jobs import CONTESTANTS
from benchmarks.support.contestant_process import RunContext
from tidegate import set_log_level, spark_session


class BackfillTimer(logging.Handler):
    """Records when a job logs the end of its backfill."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Record the time of the message."""
        if "backfilled" in record.msg:
            self.at = time.monotonic()


def main() -> None:
    """Run a contestant, and write its measurements."""
    name, servers, warm, topic, folder = sys.argv[1:]
    spark = spark_session("bench")
    set_log_level(spark)
    timer = BackfillTimer()
    log = logging.getLogger("tidegate.engine.backfill")
    log.addHandler(timer)
    log.setLevel(logging.INFO)
    root = Path(folder)
    CONTESTANTS[name](spark, RunContext(servers, warm, root / "warm"))
    context = RunContext(servers, topic, root / "measured")
    started_at = time.monotonic()
    CONTESTANTS[name](spark, context)
    seconds = time.monotonic() - started_at
    table = spark.read.format("delta").load(str(context.folder / "table"))
    # A sum of hashes ignores the order of rows. The last digit of a mean depends on it.
    columns = [column for column in table.columns if not column.startswith("mean")]
    hashed = F.xxhash64(*columns).cast("decimal(38,0)")
    results = table.agg(F.count(F.lit(1)).alias("rows"), F.sum(hashed).alias("answer")).collect()[0]
    measurements = {
        "seconds": seconds,
        "batch": timer.at - started_at,
        "rows_out": results["rows"],
        "answer": str(results["answer"]),
    }
    (root / "measured.json").write_text(json.dumps(measurements), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
