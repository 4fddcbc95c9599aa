"""The join of events with the version of a table that was valid when they happened."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..columns import quoted

VALID_FROM, VALID_TO = "valid_from", "valid_to"
BLOCK = 64
"""How many versions of a key an event is compared with; a key with more has several blocks, and a
list of them."""

_START, _END, _NEXT = "__tidegate_start", "__tidegate_end", "__tidegate_next"
_BLOCK, _FIRST, _OWN = "__tidegate_block", "__tidegate_first", "__tidegate_own"


def join_as_of(
    events: DataFrame,
    table: DataFrame,
    keys: Sequence[str],
    how: str,
    time: str,
    order: Sequence[str],
) -> DataFrame:
    """Join each event with the version that began last at or before its time, if that has not ended by then.

    An event looks up the block of its key's versions that holds its time, then the version in that
    block: of v versions it is compared with v / 64 and 64, where one join by key and time would
    compare it with all of them."""
    versions = _in_blocks(table, keys, order)
    blocks = versions.where(quoted(_FIRST) & (quoted(_BLOCK) > 0)).select(
        *_renamed(keys), quoted(VALID_FROM).alias(_START), quoted(_NEXT).alias(_END), quoted(_BLOCK)
    )
    found = events.join(blocks, _same(keys) & _valid(time), "left").select(
        *map(quoted, events.columns), F.coalesce(quoted(_BLOCK), F.lit(0)).alias(_OWN)
    )
    added = [name for name in table.columns if name not in (*keys, VALID_TO)]
    candidates = versions.select(
        *_renamed(keys),
        *map(quoted, added),
        quoted(VALID_FROM).alias(_START),
        quoted(_END),
        quoted(_BLOCK),
    )
    joined = found.join(
        candidates, _same(keys) & (quoted(_OWN) == quoted(_BLOCK)) & _valid(time), how
    )
    return joined.select(
        *map(quoted, events.columns if how in ("semi", "anti") else [*events.columns, *added])
    )


def _in_blocks(table: DataFrame, keys: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Add each version's end and block, and of a block its first version and where the next block
    begins."""
    began = quoted(VALID_FROM)
    given = quoted(VALID_TO) if VALID_TO in table.columns else F.lit(None).cast("timestamp")
    # Of versions that began at one instant all but the last are empty, so one that ends at once
    # must not be the last.
    place = Window.partitionBy(*map(quoted, keys)).orderBy(
        began, *map(quoted, order), given.asc_nulls_last()
    )
    number = F.row_number().over(place) - 1
    return table.withColumns(
        {
            _END: F.least(given, F.lead(began).over(place)),
            _BLOCK: F.floor(number / BLOCK).cast("int"),
            _FIRST: number % BLOCK == 0,
            _NEXT: F.lead(began, BLOCK).over(place),
        }
    )


def _renamed(keys: Sequence[str]) -> list[Column]:
    return [quoted(name).alias(f"__tidegate_on_{index}") for index, name in enumerate(keys)]


def _same(keys: Sequence[str]) -> Column:
    return reduce(
        and_, [quoted(name) == quoted(f"__tidegate_on_{index}") for index, name in enumerate(keys)]
    )


def _valid(time: str) -> Column:
    """Return whether a version, or a block of them, holds the time: start inclusive, end exclusive,
    null for open."""
    return (quoted(_START) <= quoted(time)) & (
        quoted(_END).isNull() | (quoted(time) < quoted(_END))
    )
