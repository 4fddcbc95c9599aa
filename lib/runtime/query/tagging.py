"""Several frames as one, each row marked with the frame that it is of, and taken apart again."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...columns import quoted

INPUT = "__tidegate_input"


def tagged(**frames: DataFrame) -> DataFrame:
    """Put frames together, so that the rows of several streams come in one micro-batch.

    Columns: INPUT, the name by which a row's frame was given, and for each name a struct of that
    frame's columns, which is null in the rows of the others. Rows of a frame are neither lost nor
    changed. Keeps no state; a checkpoint is bound to the names, in their order.

    >>> both = tagged(clicks=clicks, users=clicks.select("user").distinct())
    >>> both.columns, both.count() == clicks.count() + untagged(both, "users").count()
    (['__tidegate_input', 'clicks', 'users'], True)
    """
    return reduce(DataFrame.unionByName, [_marked(name, frames) for name in frames])


def _marked(own: str, frames: dict[str, DataFrame]) -> DataFrame:
    row = F.struct(*[quoted(column) for column in frames[own].columns])
    structs = [
        (row if name == own else F.lit(None).cast(frame.schema)).alias(name)
        for name, frame in frames.items()
    ]
    return frames[own].select(F.lit(own).alias(INPUT), *structs)


def untagged(frame: DataFrame, name: str) -> DataFrame:
    """Return the rows of one of the frames that were put together, with that frame's columns."""
    return frame.where(quoted(INPUT) == F.lit(name)).select(f"{name}.*")
