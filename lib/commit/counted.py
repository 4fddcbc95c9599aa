"""Rows that are written are as many as were counted of them."""

from __future__ import annotations

from ..errors import AccountingError


def require_counted(found: int, *, counted: int, step: str, batch: int, path: str) -> None:
    """Refuse to write another number of rows of a batch than was counted of them."""
    if found != counted:
        raise AccountingError(
            f"batch {batch} counted {counted:,} {step} rows, and {found:,} were to be written to "
            f"{path}; none of them was.",
            "the same rows each time that a range of offsets is read.",
            "start the job again, which runs the batch anew; if it stays so, the topic was "
            "changed.",
        )
