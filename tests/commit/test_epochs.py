"""A checkpoint's identity files on a disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.commit.epochs import EpochFiles
from tidegate.commit.identity import Identity
from tidegate.commit.ledger import Ledger


def test_an_identity_that_is_written_again_is_at_no_moment_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = EpochFiles(spark, str(tmp_path / "checkpoint"))
    ledger = Ledger.claimed(files, Identity(job="j"), {})

    def write() -> None:
        for _ in range(500):
            files.write(ledger.identity)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not writing.done():
            ledger.require_newest()
        writing.result()
    assert files.read() == ledger.identity
