"""Whether a batch computes its views anew: where that costs less than to change them."""

from __future__ import annotations

from collections.abc import Sequence

from ._evaluation import Evaluation, Relation
from .keyed_table import KeyedTable

SMALL_BYTES = 16 * 2**20
"""Tables and views of so many bytes are joined sooner than a batch finds what it changes of them.

Measured by benchmarks/table_table.py: what a changed view costs beside one that is computed anew is
2.5 seconds of small queries, in which 2 million rows are joined and written.
"""
ROW_BYTES = 50
"""What a row is taken to need, in bytes: to count them would cost a query over each table."""
SHARE = 10
"""A row that a batch changes costs what so many cost that are read and written again."""


def costs_less(evaluation: Evaluation, members: Sequence[Relation]) -> bool:
    """Return whether to compute the views among these anew, from all rows of their tables.

    Not where a view records its changes for others: they would be told that every row went and
    came.
    """
    states = {each.path: evaluation.state(each) for each in members}
    there = {path: state for path, state in states.items() if state.version >= 0}
    tables = [each for each in members if isinstance(each, KeyedTable)]
    views = there.keys() - {table.path for table in tables}
    if any(there[path].keeps_changes() for path in views):
        return False
    sizes = {path: state.size() for path, state in there.items()}
    if sum(sizes.values()) <= SMALL_BYTES:
        return True
    changes = sum(evaluation.count(name) for name in {table.rows_of for table in tables})
    return sum(sizes.get(table.path, 0) for table in tables) <= changes * SHARE * ROW_BYTES
