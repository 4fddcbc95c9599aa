"""Several frames as one, each row marked with the frame that it is of, and taken apart again."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .columns import quoted
from .errors import ArgumentError

INPUT = "input"


def tagged(**frames: DataFrame) -> DataFrame:
    """Put frames together, batches or streams, so that one query reads the rows of all of them.

    Columns: `input`, the name by which a row's frame was given, and for each name a struct of that
    frame's columns, which is null in the rows of the others. Rows of a frame are neither lost nor
    changed. Keeps no state; a checkpoint is bound to the names, in their order.

    Raises:
        ArgumentError: for no frames, and for one that is called "input".

    >>> both = tagged(clicks=clicks, users=clicks.select("user").distinct())
    >>> both.columns, both.count() == clicks.count() + untagged(both, "users").count()
    (['input', 'clicks', 'users'], True)
    """
    if not frames or INPUT in frames:
        raise ArgumentError(
            f"the frames are named {list(frames)}.", f"at least one, and none of them {INPUT!r}."
        )
    return reduce(DataFrame.unionByName, [_marked(name, frames) for name in frames])


def _marked(own: str, frames: dict[str, DataFrame]) -> DataFrame:
    row = F.struct(*[quoted(column) for column in frames[own].columns])
    structs = [
        (row if name == own else F.lit(None).cast(frame.schema)).alias(name)
        for name, frame in frames.items()
    ]
    return frames[own].select(F.lit(own).alias(INPUT), *structs)


def untagged(frame: DataFrame, name: str) -> DataFrame:
    """Return the rows and columns of one of the frames that `tagged` put together."""
    return frame.where(quoted(INPUT) == F.lit(name)).select(f"{name}.*")
