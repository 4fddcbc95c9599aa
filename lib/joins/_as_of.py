"""The join of events with the version of a table that was valid when they happened."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..columns import quoted

VALID_FROM = "valid_from"
VALID_TO = "valid_to"
BLOCK = 64
"""How many versions a block has: an event is compared with blocks, then with one's versions."""

_START = "__tidegate_start"
_END = "__tidegate_end"
_BLOCK = "__tidegate_block"
_FIRST = "__tidegate_first"
_NEXT = "__tidegate_next"
_OWN = "__tidegate_own"


def join_as_of(
    events: DataFrame,
    table: DataFrame,
    keys: Sequence[str],
    how: str,
    time: str,
    order: Sequence[str],
) -> DataFrame:
    """Join each event with the version that was valid at its time.

    That is the version that began last at or before that time, unless it has ended by then.

    An event looks up the block of its key's versions that holds its time, then the version in that
    block: of v versions it is compared with v / 64 and 64, where one join by key and time would
    compare it with all of them.
    """
    added: list[str] = []
    if how in ("inner", "left"):
        added = [name for name in table.columns if name not in (*keys, VALID_TO)]
    versions = _in_blocks(table, keys, order)
    placed = _with_block(events, versions, keys, time)
    candidates = versions.select(
        *_renamed(keys),
        *map(quoted, added),
        quoted(VALID_FROM).alias(_START),
        quoted(_END),
        quoted(_BLOCK),
    )
    met = _same(keys) & (quoted(_OWN) == quoted(_BLOCK)) & _valid(time)
    return placed.join(candidates, met, how).select(*map(quoted, [*events.columns, *added]))


def _in_blocks(table: DataFrame, keys: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Add each version's end and block; of a block, its first version and the next one's start."""
    began = quoted(VALID_FROM)
    ended = quoted(VALID_TO) if VALID_TO in table.columns else F.lit(None).cast("timestamp")
    # Of versions that began at one instant all but the last are empty, so one that ends at once
    # must not be the last.
    in_order = [began, *map(quoted, order), ended.asc_nulls_last()]
    place = Window.partitionBy(*map(quoted, keys)).orderBy(*in_order)
    number = F.row_number().over(place) - 1
    # A version without a beginning meets nothing. Were it numbered, a block might begin with one,
    # and no event could tell whether that block holds its time.
    return table.where(began.isNotNull()).withColumns(
        {
            _END: F.least(ended, F.lead(began).over(place)),
            _BLOCK: F.floor(number / BLOCK).cast("int"),
            _FIRST: number % BLOCK == 0,
            _NEXT: F.lead(began, BLOCK).over(place),
        }
    )


def _with_block(
    events: DataFrame, versions: DataFrame, keys: Sequence[str], time: str
) -> DataFrame:
    """Add to each event the block of its key that holds its time."""
    # An event that no later block holds looks into block 0, which so need not be joined. Most keys
    # have no other.
    later = versions.where(quoted(_FIRST) & (quoted(_BLOCK) > 0)).select(
        *_renamed(keys),
        quoted(VALID_FROM).alias(_START),
        quoted(_NEXT).alias(_END),
        quoted(_BLOCK),
    )
    found = events.join(later, _same(keys) & _valid(time), "left")
    own = F.coalesce(quoted(_BLOCK), F.lit(0))
    return found.select(*map(quoted, events.columns), own.alias(_OWN))


def _renamed(keys: Sequence[str]) -> list[Column]:
    return [quoted(name).alias(_key(index)) for index, name in enumerate(keys)]


def _same(keys: Sequence[str]) -> Column:
    return reduce(and_, [quoted(name) == quoted(_key(index)) for index, name in enumerate(keys)])


def _key(index: int) -> str:
    return f"__tidegate_on_{index}"


def _valid(time: str) -> Column:
    """Return whether a version, or a block of versions, holds the time.

    Its start is inclusive and its end exclusive; an end that is null is open.
    """
    begun = quoted(_START) <= quoted(time)
    over = quoted(_END).isNotNull() & (quoted(time) >= quoted(_END))
    return begun & ~over
