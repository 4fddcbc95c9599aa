"""Lucene's monitor beside standing queries: the same documents, queries and matches."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from tidegate.runtime.process.installation import java

from .by_keys import Found
from .harness import LONGEST_SECONDS
from .peers.contestants import HEAP
from .peers.installing import CLASSES, JARS, PERCOLATOR, install, javac

Texts = Sequence[tuple[int, str]]
_PREFIX = re.compile(r"\b(w\d+)\*")
_BELOW = re.compile(r"price:<(\d+)")


def available() -> bool:
    """Return whether its program can be compiled here, and make it ready."""
    if javac() is None:
        return False
    install(flink=False)
    return True


def in_lucene(text: str) -> str:
    """Return one of the benchmark's queries as Lucene's parser and monitor take it best.

    >>> in_lucene("w12* AND price:<500")
    '/w12.*/ AND price:[0 TO 499]'
    """
    text = _PREFIX.sub(r"/\1.*/", text)
    return _BELOW.sub(lambda found: f"price:[0 TO {int(found[1]) - 1}]", text)


def percolated(documents: DataFrame, texts: Texts, folder: Path) -> tuple[Found, DataFrame]:
    """Run documents past queries, a tenth of them once before, and return the time and the pairs.

    The time begins when the queries are stored, and ends with the last match."""
    folder.mkdir(parents=True)
    rows = documents.select("id", "price", "body").toPandas()
    (queries, given, found) = (folder / name for name in ("queries", "documents", "matches"))
    lines = (f"{number}\t{in_lucene(text)}\n" for number, text in texts)
    queries.write_text("".join(lines), encoding="utf-8")
    rows.to_csv(given, sep="\t", header=False, index=False)
    command = [java(), HEAP, "-cp", f"{CLASSES}:{JARS}/lucene/*", PERCOLATOR]
    command += [str(queries), str(given), str(len(rows) // 10), str(found)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECONDS)
    if done.returncode:
        raise SystemExit(f"Lucene's monitor failed:\n{done.stderr}")
    (seconds, cpu, peak_mib) = map(float, done.stdout.split())
    pairs = documents.sparkSession.read.csv(str(found), "id bigint, query_id bigint", sep="\t")
    run: Found = {
        "name": "Lucene's monitor",
        "keys": len(texts),
        "seconds": seconds,
        "cpu": cpu,
        "peak_mib": peak_mib,
        "found": pairs.count(),
        "thousand_a_second": len(rows) / seconds / 1e3,
    }
    return run, pairs
