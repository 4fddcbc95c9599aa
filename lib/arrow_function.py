"""Python functions of Arrow arrays as functions of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType


def arrow_function(
    function: Callable[..., Any], kind: DataType | str, *, stays: bool = False
) -> Callable[..., Column]:
    """Return a function of arrays as one of columns, which gives the type `kind`.

    Whether it takes an array at a time or all of a task's, its annotations say. Only the columns
    that it is given go to Python; the row's others wait for its answer.

    stays: whether Spark must call it just where it stands, and once for each row. Otherwise it may
        call it again for a filter that it has moved, or after one.
    """
    # Spark's declaration leaves out this call.
    arrow_udf: Any = F.arrow_udf  # type: ignore[attr-defined]
    made = arrow_udf(function, kind)
    found: Callable[..., Column] = made.asNondeterministic() if stays else made
    return found
