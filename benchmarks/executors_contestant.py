"""One backlog on a cluster, as spark-submit runs it: warmed up on a small topic, then measured.

The command line says: NAME SERVERS WARM_TOPIC TOPIC FOLDER. What was measured is left in the
folder, as measured.json: `seconds` of the whole run, and `batch`, up to the end of the backlog's
batch."""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path

# spark-submit runs this file by its path.
sys.path.insert(0, str(Path(__file__).parent.parent))

from pyspark.sql import functions as F

from benchmarks.backlog_contestants import CONTESTANTS
from benchmarks.contest import Place
from tidegate.runtime import quiet, spark_session


class WorkedOff(logging.Handler):
    """Keeps when a job has said that its backlog was worked off."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the time of the message."""
        if "was worked off" in record.msg:
            self.at = time.monotonic()


def main() -> None:
    """Run a contestant, and leave what was measured."""
    name, servers, warm, topic, folder = sys.argv[1:]
    spark = spark_session("bench")
    quiet(spark)
    told = WorkedOff()
    log = logging.getLogger("tidegate.runtime.query.backlog")
    log.addHandler(told)
    log.setLevel(logging.INFO)
    root = Path(folder)
    CONTESTANTS[name](spark, Place(servers, warm, root / "warm"))
    place = Place(servers, topic, root / "measured")
    began = time.monotonic()
    CONTESTANTS[name](spark, place)
    seconds = time.monotonic() - began
    table = spark.read.format("delta").load(str(place.folder / "table"))
    # A sum of hashes is the same in whatever order the rows are; a mean may end in another digit.
    columns = [column for column in table.columns if not column.startswith("mean")]
    hashed = F.xxhash64(*columns).cast("decimal(38,0)")
    found = table.agg(F.count(F.lit(1)).alias("rows"), F.sum(hashed).alias("answer")).collect()[0]
    measured = {
        "seconds": seconds,
        "batch": told.at - began,
        "rows_out": found["rows"],
        "answer": str(found["answer"]),
    }
    (root / "measured.json").write_text(json.dumps(measured), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
