"""For which reasons rows of a batch could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from ..telemetry.record import MOST_REASONS
from .side_outputs import Aside, Part


def by_reason(aside: Iterable[Aside]) -> dict[tuple[str, str], int]:
    """Return how many rows could not be read for each of the commonest stages and reasons."""
    found: Counter[tuple[str, str]] = Counter()
    for each in aside:
        letters = each.letters() if each.dead else None
        for row in () if letters is None else _commonest(letters, MOST_REASONS):
            found[row["stage"], row["reason"]] += row["n"]
    return dict(found.most_common(MOST_REASONS))


def reasons(spark: SparkSession, part: Part) -> list[str]:
    """Return the commonest reasons for which rows could not be read."""
    dead = part.input.reading.dead(spark, part.batch.start, part.batch.end)
    return [
        f"{row['n']:,} x {row['stage']}: {row['reason']} "
        f"(first: {row['first']['topic']}, partition {row['first']['partition']}, offset "
        f"{row['first']['offset']})"
        for row in _commonest(dead, 5)
    ]


def _commonest(letters: DataFrame, most: int) -> list[Row]:
    top = letters.groupBy("stage", "reason").agg(
        F.count("*").alias("n"), F.min(F.struct("topic", "partition", "offset")).alias("first")
    )
    return top.orderBy(F.desc("n"), "stage", "reason").limit(most).collect()
