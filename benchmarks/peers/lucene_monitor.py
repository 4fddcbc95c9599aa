"""The monitor of Lucene: the same documents, queries and matches as the percolator benchmark."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.peers.contestants import HEAP
from benchmarks.peers.installing import CLASSES, JARS, PERCOLATOR, install, javac
from benchmarks.support.harness import LONGEST_SECONDS
from benchmarks.support.key_sweep import Measurement
from tidegate.spark.jars import java_path

Texts = Sequence[tuple[int, str]]
_PREFIX = re.compile(r"\b(w\d+)\*")
_BELOW = re.compile(r"price:<(\d+)")


def available() -> bool:
    """Return whether a Java compiler is available, and install the program."""
    if javac() is None:
        return False
    install(flink=False)
    return True


def in_lucene(text: str) -> str:
    """Return a query of the benchmark in the syntax of Lucene.

    >>> in_lucene("w12* AND price:<500")
    '/w12.*/ AND price:[0 TO 499]'
    """
    text = _PREFIX.sub(r"/\1.*/", text)
    return _BELOW.sub(lambda results: f"price:[0 TO {int(results[1]) - 1}]", text)


def run_monitor(documents: DataFrame, texts: Texts, folder: Path) -> tuple[Measurement, DataFrame]:
    """Match documents against queries after a warm-up; return the measurement and the pairs.

    The time runs from stored queries to the last match."""
    folder.mkdir(parents=True)
    rows = documents.select("id", "price", "body").toPandas()
    (queries, input_file, results) = (folder / name for name in ("queries", "documents", "matches"))
    lines = (f"{number}\t{in_lucene(text)}\n" for number, text in texts)
    queries.write_text("".join(lines), encoding="utf-8")
    rows.to_csv(input_file, sep="\t", header=False, index=False)
    command = [java_path(), HEAP, "-cp", f"{CLASSES}:{JARS}/lucene/*", PERCOLATOR]
    command += [str(queries), str(input_file), str(len(rows) // 10), str(results)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECONDS)
    if done.returncode:
        raise SystemExit(f"the monitor of Lucene failed:\n{done.stderr}")
    (seconds, cpu, peak_mib) = map(float, done.stdout.split())
    pairs = documents.sparkSession.read.csv(str(results), "id bigint, query_id bigint", sep="\t")
    run: Measurement = {
        "name": "Lucene monitor",
        "keys": len(texts),
        "seconds": seconds,
        "cpu": cpu,
        "peak_mib": peak_mib,
        "count": pairs.count(),
        "thousand_a_second": len(rows) / seconds / 1e3,
    }
    return run, pairs
