"""The final rows of a table of corrected windows, out of the log of their answers."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ..columns import quoted, require
from ..windows.merging import WINDOW
from ._window_changes import VERSION

_RANK = "__tidegate_rank"


def rebuilt(log: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """Return the answers that a log of corrections ends with.

    These are the rows of the current table that are final.

    Args:
        log: the table that `Corrected` has appended to.
        by: the key columns of its windows.

    Returns:
        window, keys, one column an answer, version.

    Raises:
        ColumnError: at the call.
    """
    require(log, [WINDOW, *by], "by")
    newest = Window.partitionBy(quoted(WINDOW), *map(quoted, by)).orderBy(F.desc(VERSION))
    ranked = log.withColumn(_RANK, F.row_number().over(newest))
    last = ranked.where((quoted(_RANK) == 1) & quoted("new").isNotNull())
    return last.select(quoted(WINDOW), *map(quoted, by), "new.*", VERSION)
