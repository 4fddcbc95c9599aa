"""What a view and its tables must agree on: at construction, and before each batch."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from ..commit.batch import Batch
from ..commit.once import last_batch
from ..errors import ArgumentError, ReplayMismatchError
from ..jvm import delta_state
from ._evaluation import Relation


def require_sides_that_join(path: str, left: Relation, right: Relation, on: Sequence[str]) -> None:
    """Refuse sides whose rows are not found by the columns of `on`, or lie in unlike buckets."""
    for side in (left, right):
        if side.found_by != list(on):
            raise ArgumentError(
                f"{path} is joined on {on}, and {side.path} is looked up by {side.found_by}.",
                "the same columns.",
                f"by={on} for {side.path}.",
            )
    if left.buckets != right.buckets:
        raise ArgumentError(
            f"{left.path} has {left.buckets} buckets, and {right.path} {right.buckets}.",
            "as many on both sides, so that equal keys are in equal buckets.",
            f"buckets={left.buckets}",
        )


def require_a_whole_key(left: Relation, right: Relation, on: Sequence[str]) -> None:
    """Refuse a full join in which two rows without a match could have one key."""
    if all(set(side.keys) < set(on) for side in (left, right)):
        raise ArgumentError(
            f"the keys {left.keys} and {right.keys} are parts of on, {on}: a row of the left and "
            "one of the right without a match could have one key.",
            "a full join on the whole key of a side, or on columns outside of a key.",
        )


def require_own_places(tables: Sequence[tuple[str, str]]) -> None:
    """Refuse tables that share a path or a step."""
    paths = {path for path, _ in tables}
    steps = {step for _, step in tables}
    if len(paths) < len(tables) or len(steps) < len(tables):
        raise ArgumentError(
            f"the tables and steps are {tables}.", "a path and a step of its own for each table."
        )


def require_together(spark: SparkSession, members: Sequence[Relation], batch: Batch) -> None:
    """Refuse tables that do not hold the same batches.

    A crash may have left some of them, the last in the order of writing, without this batch.
    """
    found = []
    for each in members:
        exists = delta_state(spark, each.path).version >= 0
        found.append((exists, last_batch(spark, each.path, batch, each.step)))
    without = list(found)
    while without and _has(without[0][1], batch):
        without.pop(0)
    # A table that is there without a batch of this query is another's, and batches are counted anew
    # in each query.
    if len(set(without)) > 1 or (True, None) in without:
        told = ", ".join(
            f"{each.path} has {number if exists else 'no table'}"
            for each, (exists, number) in zip(members, found, strict=True)
        )
        raise ReplayMismatchError(
            f"the tables do not hold the same batches of this query: {told}.",
            "all of them as the last batch left them.",
            "restore them together, or start with a new checkpoint and new tables; nothing was "
            "written.",
        )


def _has(number: int | None, batch: Batch) -> bool:
    return number is not None and number >= batch.number
