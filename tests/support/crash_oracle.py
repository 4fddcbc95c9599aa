"""What the tables must hold by the producer's ledger, as multisets in plain Python, and how they
differ from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from tests.support.delta_tables import Reader, by_spark, rows
from tests.support.expected_views import expected_views
from tidegate.jobs.sample_clicks import SentRecord

Row = tuple[int, int, str, int, int, float, int]
"""Window start and end in ms, page, views, bytes, slowest, and the sum of `ms` in tenths, which is
exact."""

Place = tuple[str, int, int]
Thing = TypeVar("Thing", bound=Hashable)


def watermark(ledger: Iterable[SentRecord], lateness_ms: int) -> int:
    """Return the watermark in ms after the whole ledger has been read."""
    return (
        max(sent.click.event_time_ms for sent in ledger if sent.click.fault is None) - lateness_ms
    )


def windows(ledger: Sequence[SentRecord], size_ms: int) -> Counter[Row]:
    """Return all windows of the ledger, closed and open, without late clicks."""
    return Counter(
        (
            start,
            start + size_ms,
            page,
            view.views,
            view.total_bytes,
            view.slowest_ms,
            round(view.total_ms * 10),
        )
        for (start, page), view in expected_views(ledger, size_ms).items()
    )


def closed(rows: Counter[Row], until_ms: int) -> Counter[Row]:
    """Keep the windows that a watermark has closed."""
    return Counter({row: count for row, count in rows.items() if row[1] <= until_ms})


def views(rows: Counter[Row]) -> int:
    """Return the clicks that the windows count."""
    return sum(row[3] * count for row, count in rows.items())


def read_by_spark(spark: SparkSession, path: Path) -> Counter[Row]:
    """Read the windows of a table with Spark."""
    return read_windows(path, by_spark(spark))


def read_by_deltalake(path: Path) -> Counter[Row]:
    """Read the windows of a table without Spark."""
    return read_windows(path)


def read_windows(path: Path, read: Reader = rows) -> Counter[Row]:
    """Read the windows of a table."""
    return Counter(
        (
            round(row["window"]["start"].timestamp() * 1000),
            round(row["window"]["end"].timestamp() * 1000),
            row["page"],
            row["views"],
            row["bytes"],
            row["slowest_ms"],
            round(row["mean_ms"] * row["views"] * 10),
        )
        for row in read(path)
    )


def dead(ledger: Iterable[SentRecord], topic: str) -> Counter[tuple[Place, bytes]]:
    """Return the position and bytes of each record of the ledger that cannot be read."""
    return Counter(((topic, s.partition, s.offset), s.value) for s in ledger if s.click.fault)


def late(ledger: Iterable[SentRecord], topic: str) -> Counter[Place]:
    """Return the position of each late click."""
    return Counter(
        (topic, s.partition, s.offset) for s in ledger if s.click.is_late and not s.click.fault
    )


def read_dead(path: Path, read: Reader = rows) -> Counter[tuple[Place, bytes]]:
    """Read the positions and bytes of the dead letters."""
    columns = ["topic", "partition", "offset", "value"]
    return Counter(
        ((r["topic"], r["partition"], r["offset"]), bytes(r["value"])) for r in read(path, columns)
    )


def read_places(path: Path, read: Reader = rows) -> Counter[Place]:
    """Read the positions of the rows of a side output; empty if the table does not exist."""
    columns = ["topic", "partition", "offset"]
    return Counter((r["topic"], r["partition"], r["offset"]) for r in read(path, columns))


def read_late(path: Path) -> Counter[Place]:
    """Read the positions of the late rows."""
    return read_places(path)


def require_same(found: Counter[Thing], wanted: Counter[Thing], what: str) -> None:
    """Fail with samples of missing and of extra rows."""
    missing, extra = wanted - found, found - wanted
    differences = ", ".join(
        f"{n.total()} {word} (such as {list(n)[:3]})" for word, n in _named(missing, extra) if n
    )
    assert not differences, f"{what}: {differences}; expected {wanted.total()}, got {found.total()}"


def _named(missing: Counter[Thing], extra: Counter[Thing]) -> list[tuple[str, Counter[Thing]]]:
    return [("missing", missing), ("extra", extra)]
