"""The log of the answers that windows have given: what each was, and what it has become."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from ..columns import quoted
from ..commit.batch import Batch
from ..eventtime.changing import changing, changing_number
from ..windows.merging import WINDOW
from ._window_changes import VERSION


def entries(
    changes: DataFrame, keys: Sequence[str], answers: Sequence[str], batch: Batch
) -> DataFrame:
    """Return an entry for each answer that is final now, or was.

    changes: what `WindowChanges.of` returns.
    keys: the columns that make a window one. answers: the names of its answers.
    """
    old = quoted("old")
    new = quoted("new")
    was = _is_answered(old)
    now = _is_answered(new)
    end = quoted(WINDOW)["end"]
    # A window that is withdrawn has no new version: its entry is the one after the last.
    version = F.coalesce(new[VERSION], old[VERSION] + F.lit(1))
    return changes.where(was | now).select(
        *map(quoted, keys),
        version.alias(VERSION),
        F.when(was, old[VERSION]).alias("supersedes"),
        F.when(was, _answers(old, answers)).alias("old"),
        F.when(now, _answers(new, answers)).alias("new"),
        *_net(changes, answers, F.when(was, old), F.when(now, new)),
        changing_number(batch.number, F.unix_micros(end)).alias("batch"),
        changing(batch.watermark, end).alias("watermark"),
    )


def _is_answered(side: Column) -> Column:
    """Return whether a window's answer was given: windows that are still open have no version."""
    return F.coalesce(side[VERSION], F.lit(0).cast("bigint")) > 0


def _answers(side: Column, names: Sequence[str]) -> Column:
    return F.struct(*[side[name].alias(name) for name in names])


def _net(changes: DataFrame, names: Sequence[str], old: Column, new: Column) -> list[Column]:
    """Return the struct of new less old, of the answers that are numbers, if there are any."""
    kinds = {field.name: field.dataType for field in changes.select("new.*").schema}
    zero = F.lit(0)
    net = [
        (F.coalesce(new[name], zero) - F.coalesce(old[name], zero)).alias(name)
        for name in names
        if isinstance(kinds[name], NumericType)
    ]
    return [F.struct(*net).alias("net")] if net else []
