"""Two ways to keep the join of posts and follows current, for the benchmark of views, and the
changes of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commit import Batch
from tidegate.commit.batch import EPOCH
from tidegate.views.keyed_table import KeyedTable
from tidegate.views.view import View

KEYS = {"posts": ["post"], "follows": ["follower", "author"]}
COLUMNS = {"posts": ["post", "author", "text"], "follows": ["follower", "author"]}
Write = Callable[[DataFrame, int], None]


def messages(
    spark: SparkSession, start: int, stop: int, authors: int, *, version: int
) -> DataFrame:
    """Return the changes of both tables with these numbers: of ten eight bring a row, one deletes
    and one moves one."""
    at, kind = F.col("id"), F.col("id") % 10
    earlier = F.pmod(F.xxhash64("id"), F.greatest(at, F.lit(1)))
    row = F.when(kind < 8, at).otherwise(earlier)
    return spark.range(start, stop).select(
        F.explode(F.array(F.lit("posts"), F.lit("follows"))).alias("table"),
        row.alias("post"),
        F.concat(F.lit("text of "), row.cast("string")).alias("text"),
        row.alias("follower"),
        F.pmod(F.xxhash64(F.when(kind == 9, at).otherwise(row), "table"), F.lit(authors)).alias(
            "author"
        ),
        (at + F.lit(version)).alias("version"),
        (kind == 8).alias("deleted"),
    )


def side(name: str, frame: DataFrame) -> DataFrame:
    """Return the changes of one table."""
    return frame.where(F.col("table") == name).select(*COLUMNS[name], "version", "deleted")


def timelines(folder: Path, buckets: int) -> View:
    """Return the view of posts and follows."""

    def kept(name: str) -> KeyedTable:
        return KeyedTable(
            str(folder / name),
            step=name,
            rows_of="rows",
            changes=lambda frame: side(name, frame),
            key=KEYS[name],
            by="author",
            position="version",
            buckets=buckets,
        )

    return View(
        str(folder / "view"),
        left=kept("posts"),
        right=kept("follows"),
        on="author",
        buckets=buckets,
    )


def by_view(spark: SparkSession, folder: Path, buckets: int) -> Write:
    """The library's way."""
    view = timelines(folder, buckets)
    return lambda frame, number: void(view.write({"rows": frame}, planned(number)))


def void(_: object) -> None:
    """Forget a value."""


def planned(number: int) -> Batch:
    """Return a batch of this number."""
    known: dict[str, Any] = {"start": {}, "end": {}, "watermark": EPOCH}
    return Batch(
        job="bench", query_id="q", run_id="r", number=number, offsets_hash=str(number), **known
    )


def by_hand(spark: SparkSession, folder: Path, buckets: int) -> Write:
    """The join of the newest rows, computed anew with each batch."""

    def newest(name: str) -> DataFrame:
        log = spark.read.format("delta").load(str(folder / name))
        row = F.max_by(F.struct(*COLUMNS[name], "deleted"), "version").alias("row")
        return (
            log.groupBy(*[F.col(key).alias(f"key_{key}") for key in KEYS[name]])
            .agg(row)
            .select("row.*")
        )

    def write(frame: DataFrame, number: int) -> None:
        for name in KEYS:
            side(name, frame).write.format("delta").mode("append").save(str(folder / name))
        posts, follows = (newest(name).where("not deleted").drop("deleted") for name in KEYS)
        joined = posts.join(follows, "author")
        joined.write.format("delta").mode("overwrite").save(str(folder / "view"))

    return write


CONTESTANTS: dict[str, Callable[[SparkSession, Path, int], Write]] = {
    "view": by_view,
    "by hand": by_hand,
}
"""By name: each takes a folder and a number of buckets, and gives what writes one batch after the
other."""
