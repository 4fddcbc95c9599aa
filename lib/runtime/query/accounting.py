"""Row accounting.

What a batch read equals what it wrote, kept and set aside, or the batch is not written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...commit import Batch
from ...errors import AccountingError, DeadLetterFloodError
from ...offsets import offset_of
from ..limits import Limits

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What a batch's query counted while it ran; the times are in microseconds since 1970.

    late: the rows that are late by the log; no others are known yet.
    """

    rows: int
    dead: int
    earliest: int | None
    latest: int | None
    clamped: int = 0
    filtered: int = 0
    late: int = 0


def tally(
    batch: Batch, counts: Sequence[Mapping[str, Any]], again: Again | None = None
) -> Observed:
    """Add up the counts of an input's streams, and check them against the offsets planned.

    A range of offsets may have holes, so it may give fewer rows than its length, but never more.

    again: how the range is counted once more where rows may have been counted twice, or not at all.
    """
    length = span(batch)
    if not counts:
        if length:
            raise AccountingError(
                f"batch {batch.number} covers {length:,} offsets and its rows were not counted.",
                "a transform that keeps the observed columns' plan in one query.",
            )
        return Observed(rows=0, dead=0, earliest=None, latest=None)
    seen = _added(counts)
    if again is not None and again.needed(seen, length):
        _LOG.log(
            logging.WARNING if seen.rows else logging.INFO,
            "batch %s: %s rows were counted in %s offsets; they are counted once more",
            batch.number,
            f"{seen.rows:,}",
            f"{length:,}",
        )
        first, seen = seen, _added([again.count()])
        if first.rows:
            # The times stay: of rows that are counted twice they are the same.
            seen = replace(seen, earliest=first.earliest, latest=first.latest)
    if not _can_be(seen, length):
        raise AccountingError(
            f"batch {batch.number} counted {seen.rows:,} rows, {seen.dead:,} of them unreadable, "
            f"in a range of {length:,} offsets.",
            "at most one row for each offset.",
        )
    return seen


@dataclass(frozen=True)
class Again:
    """A second count of a batch's rows, where the first may have some of them twice, or none.

    Spark adds up what each task has counted. A task whose output is lost with its executor runs
    again, and is added again. And a join need not read the rows that meet an empty table.

    count: counts them by a query of its own.
    lost: whether executors were lost since it was asked last.
    """

    count: Callable[[], Mapping[str, Any]]
    lost: Callable[[], bool]

    def needed(self, seen: Observed, length: int) -> bool:
        """Whether rows may have been counted twice, or not at all.

        In a range that has holes the first cannot be told from the number alone.
        """
        if not seen.rows:
            return length > 0
        return not _can_be(seen, length) or (seen.rows < length and self.lost())


def _can_be(seen: Observed, length: int) -> bool:
    return seen.dead <= seen.rows <= length


def _added(counts: Sequence[Mapping[str, Any]]) -> Observed:
    def of(name: str) -> list[int]:
        return [each[name] for each in counts if each.get(name) is not None]

    return Observed(
        rows=sum(of("rows")),
        dead=sum(of("dead")),
        earliest=min(of("earliest"), default=None),
        latest=max(of("latest"), default=None),
        clamped=sum(of("clamped")),
        filtered=sum(of("filtered")),
        late=sum(of("late")),
    )


def span(batch: Batch) -> int:
    """Return the number of offsets between a batch's start and end."""
    return sum(
        until - offset_of(batch.start, topic, partition)
        for topic, ends in batch.end.items()
        for partition, until in ends.items()
    )


def check_one_to_one(
    batch: Batch, rows_in: int, dead: int, rows_out: int, filtered: int = 0
) -> None:
    """Refuse a batch without exactly one row out for each good row that counts."""
    if rows_in != dead + filtered + rows_out:
        left_out = f", {filtered:,} left out by where" if filtered else ""
        raise AccountingError(
            f"batch {batch.number} read {rows_in:,} rows, of which {dead:,} were unreadable"
            f"{left_out}, and gave {rows_out:,}.",
            "one row out for each good row in.",
        )


def rows_given(
    batch: Batch, seen: Sequence[Observed], counted: int | None, *, one_to_one: bool
) -> int:
    """Return how many rows a batch's query gave, of all its inputs.

    counted: None where no more is known than that each good row gave one.
    one_to_one: refuse any other number than that.
    """
    rows_in = sum(each.rows for each in seen)
    dead = sum(each.dead for each in seen)
    filtered = sum(each.filtered for each in seen)
    rows_out = rows_in - dead - filtered if counted is None else counted
    if one_to_one:
        check_one_to_one(batch, rows_in, dead, rows_out, filtered)
    return rows_out


def too_late(batch: Batch, limits: Limits) -> str | None:
    """Tell of a batch that has more late rows than the limits say.

    None where there is nothing to tell.
    """
    rows = batch.rows_in or 0
    late = batch.late or 0
    by_count = limits.late_rows is not None and late > limits.late_rows
    by_share = (
        limits.late_ratio is not None
        and rows >= limits.min_rows
        and late > limits.late_ratio * rows
    )
    if not (by_count or by_share):
        return None
    limit = (
        f"limits.late_rows is {limits.late_rows:,}"
        if by_count
        else f"limits.late_ratio is {limits.late_ratio:.1%}"
    )
    return f"{late:,} of the {rows:,} rows of batch {batch.number} came too late; {limit}"


def check_late(batch: Batch, counted: int, found: int) -> None:
    """Refuse a batch whose stream left out other rows as late than reading it again finds."""
    if counted != found:
        raise AccountingError(
            f"batch {batch.number} left out {counted:,} rows as late, and its offsets, read again, "
            f"have {found:,}; nothing of this batch was written.",
            "the same rows each time that a range of offsets is read.",
        )


def check_dropped(batch: Batch, dropped: int, late: int) -> None:
    """Refuse a batch of which Spark dropped rows as late, where the transform calls none late.

    late: how many rows were left to Spark to drop.
    """
    if dropped and not late:
        raise AccountingError(
            f"Spark dropped {dropped:,} rows of batch {batch.number} behind the watermark, and "
            "none of its rows is late by what the transform says; nothing of this batch was "
            "written.",
            "a transform whose late_at tells which rows its operators leave out.",
            "a value such as Windowed(...), or the `late` of Stateful put right.",
        )


def check_flood(
    batch: Batch, seen: Observed, limits: Limits, samples: Callable[[], list[str]]
) -> None:
    """Refuse a batch with more unreadable rows than the limits allow.

    samples: gives the commonest reasons.
    """
    most = limits.dead_rows
    share = limits.dead_ratio
    by_count = most is not None and seen.dead > most
    by_share = share is not None and seen.rows >= limits.min_rows and seen.dead > share * seen.rows
    if not (by_count or by_share):
        return
    limit = f"{most:,} rows (limits.dead_rows)" if by_count else f"{share:.1%} (limits.dead_ratio)"
    reasons = "".join(f"\n    {line}" for line in samples())
    raise DeadLetterFloodError(
        f"{seen.dead:,} of the {seen.rows:,} rows of batch {batch.number} could not be read; "
        f"nothing of this batch was written. The commonest reasons:{reasons}",
        f"{limit} in one batch.",
        "put the input or its schema right, then start again; or raise the limit, and they go to "
        "the dead letters.",
    )
