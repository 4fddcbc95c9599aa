"""The join of posts and follows as a materialized view, in the library and in plain PySpark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commit.batch import UNIX_EPOCH, BatchPlan, CommitContext
from tidegate.views.keyed_table import KeyedTable
from tidegate.views.view import View

KEYS = {"posts": ["post"], "follows": ["follower", "author"]}
COLUMNS = {"posts": ["post", "author", "text"], "follows": ["follower", "author"]}
Write = Callable[[DataFrame, int], None]


def messages(
    spark: SparkSession, start: int, stop: int, authors: int, *, version: int
) -> DataFrame:
    """Return changes of both tables: of ten, eight insert, one deletes and one moves a row."""
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

    def keyed_table(name: str) -> KeyedTable:
        return KeyedTable(
            str(folder / name),
            output=name,
            input="rows",
            to_changes=lambda frame: side(name, frame),
            key=KEYS[name],
            lookup_by="author",
            order_by="version",
            buckets=buckets,
        )

    return View(
        str(folder / "view"),
        left=keyed_table("posts"),
        right=keyed_table("follows"),
        on="author",
        buckets=buckets,
    )


def by_view(spark: SparkSession, folder: Path, buckets: int) -> Write:
    """Return the library's writer."""
    view = timelines(folder, buckets)
    return lambda frame, number: void(view.write({"rows": frame}, batch_of(number)))


def void(_: object) -> None:
    """Discard a value."""


def batch_of(number: int) -> CommitContext:
    """Return a batch with this number."""
    known: dict[str, Any] = {"start": {}, "end": {}, "watermark": UNIX_EPOCH}
    plan = BatchPlan(
        job="bench", query_id="q", run_id="r", number=number, offsets_hash=str(number), **known
    )
    return CommitContext(plan=plan)


def plain_pyspark(spark: SparkSession, folder: Path, buckets: int) -> Write:
    """Return a writer that recomputes the join of the latest rows with each batch."""

    def latest_rows(name: str) -> DataFrame:
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
        posts, follows = (latest_rows(name).where("not deleted").drop("deleted") for name in KEYS)
        joined = posts.join(follows, "author")
        joined.write.format("delta").mode("overwrite").save(str(folder / "view"))

    return write


CONTESTANTS: dict[str, Callable[[SparkSession, Path, int], Write]] = {
    "view": by_view,
    "plain PySpark": plain_pyspark,
}
"""By name: returns the writer of batches for a folder and a number of buckets."""
