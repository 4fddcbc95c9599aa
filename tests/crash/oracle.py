"""What the tables must hold by the producer's ledger, as multisets in plain Python, and how they
differ from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from tidegate.testing.ledger import Sent, expected

from ..tables import Reader, by_spark, rows

Row = tuple[int, int, str, int, int, float, int]
"""Window start and end in ms, page, views, bytes, slowest, and the sum of `ms` in tenths, which is
exact."""

Place = tuple[str, int, int]
Thing = TypeVar("Thing", bound=Hashable)


def watermark(ledger: Iterable[Sent], lateness_ms: int) -> int:
    """Return the watermark in ms after the whole ledger has been read."""
    return max(sent.click.at for sent in ledger if sent.click.fault is None) - lateness_ms


def windows(ledger: Sequence[Sent], size_ms: int) -> Counter[Row]:
    """Return all windows of the ledger, closed and open, without late clicks."""
    return Counter(
        (
            start,
            start + size_ms,
            page,
            view.views,
            view.size,
            view.slowest_ms,
            round(view.total_ms * 10),
        )
        for (start, page), view in expected(ledger, size_ms).items()
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


def dead(ledger: Iterable[Sent], topic: str) -> Counter[tuple[Place, bytes]]:
    """Return place and bytes of each record of the ledger that cannot be read."""
    return Counter(((topic, s.partition, s.offset), s.value) for s in ledger if s.click.fault)


def late(ledger: Iterable[Sent], topic: str) -> Counter[Place]:
    """Return the place of each straggler."""
    return Counter(
        (topic, s.partition, s.offset) for s in ledger if s.click.straggler and not s.click.fault
    )


def read_dead(path: Path, read: Reader = rows) -> Counter[tuple[Place, bytes]]:
    """Read place and bytes of the dead letters."""
    columns = ["topic", "partition", "offset", "value"]
    return Counter(
        ((r["topic"], r["partition"], r["offset"]), bytes(r["value"])) for r in read(path, columns)
    )


def read_places(path: Path, read: Reader = rows) -> Counter[Place]:
    """Read the places of rows set aside; none if the table was never written."""
    columns = ["topic", "partition", "offset"]
    return Counter((r["topic"], r["partition"], r["offset"]) for r in read(path, columns))


def read_late(path: Path) -> Counter[Place]:
    """Read the places of the late rows."""
    return read_places(path)


def require_same(found: Counter[Thing], wanted: Counter[Thing], what: str) -> None:
    """Fail with a sample of what is missing and of what is too much."""
    missing, extra = wanted - found, found - wanted
    told = ", ".join(
        f"{n.total()} {word} (such as {list(n)[:3]})" for word, n in _named(missing, extra) if n
    )
    assert not told, f"{what}: {told}; wanted {wanted.total()}, found {found.total()}"


def _named(missing: Counter[Thing], extra: Counter[Thing]) -> list[tuple[str, Counter[Thing]]]:
    return [("missing", missing), ("extra", extra)]
