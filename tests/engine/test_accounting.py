"""The accounting of a batch: every record is a row, a dead letter or an error."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tidegate import Limits
from tidegate.commit.batch import BatchPlan
from tidegate.engine.accounting import (
    ObservedCounts,
    Recounter,
    check_dead_letter_limit,
    count_rows_out,
    reconcile_counts,
)
from tidegate.errors import AccountingError, DeadLetterLimitError
from tidegate.offsets import count_offsets


def batch(start: int = 100, end: int = 150) -> BatchPlan:
    return BatchPlan(
        job="job",
        query_id="q",
        run_id="r",
        number=3,
        offsets_hash="h",
        start={"t": {0: start}},
        end={"t": {0: end, 1: 50}},
        watermark=datetime(2026, 1, 1, tzinfo=UTC),
    )


def observed(rows: int, dead: int = 0) -> ObservedCounts:
    return ObservedCounts(rows=rows, dead_letters=dead, min_event_time=None, max_event_time=None)


def counts(rows: int | None, dead: int | None = 0) -> dict[str, int | None]:
    return {"rows": rows, "dead_letters": dead, "earliest": 5, "latest": 9}


def test_offsets_of_new_partitions_are_counted_from_zero() -> None:
    assert count_offsets(batch().start, batch().end) == 100


def test_a_range_may_have_fewer_rows_than_offsets() -> None:
    assert reconcile_counts(batch(), [counts(40, 3)]) == ObservedCounts(
        rows=40, dead_letters=3, min_event_time=5, max_event_time=9
    )


def test_counts_of_streams_add_up_and_a_stream_without_rows_has_no_times() -> None:
    silent = {"rows": 0, "dead_letters": 0, "earliest": None, "latest": None}
    later = {"rows": 7, "dead_letters": 1, "earliest": 6, "latest": 11}
    assert reconcile_counts(batch(), [counts(40, 3), silent, later]) == ObservedCounts(
        rows=47, dead_letters=4, min_event_time=5, max_event_time=11
    )


def test_a_batch_without_offsets_has_no_rows() -> None:
    empty = batch(100, 100)
    assert reconcile_counts(replace(empty, end=empty.start), []) == observed(0)


@pytest.mark.parametrize(
    "stream_counts", [[], [counts(101)], [counts(5, 6)], [counts(60), counts(41)]]
)
def test_impossible_counts_raise(stream_counts: list[dict[str, int | None]]) -> None:
    with pytest.raises(AccountingError, match="batch 3"):
        reconcile_counts(batch(), stream_counts)


@pytest.mark.parametrize(
    ("rows", "dead", "lost", "recounted"),
    [
        (100, 3, True, False),
        # Lost executors matter only if some offsets have no record.
        (60, 3, False, False),
        (60, 3, True, True),
        (101, 3, False, True),
        (5, 6, False, True),
        (0, 0, False, True),
    ],
)
def test_rows_that_may_be_counted_twice_or_not_at_all_are_counted_again(
    rows: int, dead: int, lost: bool, recounted: bool
) -> None:
    recounter = Recounter(count=lambda: {**counts(50, 2), "latest": 7}, executors_lost=lambda: lost)
    found = reconcile_counts(batch(), [counts(rows, dead)], recounter)
    assert (found.rows, found.dead_letters) == ((50, 2) if recounted else (rows, dead))
    # Counting a row twice does not change its time.
    assert (found.min_event_time, found.max_event_time) == ((5, 9) if rows else (5, 7))


def test_an_impossible_recount_raises() -> None:
    recounter = Recounter(count=lambda: counts(101), executors_lost=lambda: False)
    with pytest.raises(AccountingError, match="it has 101 rows"):
        reconcile_counts(batch(), [counts(110)], recounter)


def test_a_job_without_a_transform_writes_each_good_row_once() -> None:
    read, filtered = observed(50, 8), replace(observed(50, 8), filtered_rows=2)
    assert count_rows_out(batch(), read, 42, one_to_one=True) == 42
    assert count_rows_out(batch(), read, None, one_to_one=True) == 42
    assert count_rows_out(batch(), filtered, 40, one_to_one=True) == 40
    assert count_rows_out(batch(), read, 41, one_to_one=False) == 41
    message = "8 dead letters - 2 filtered or discarded rows != 42 rows out"
    with pytest.raises(AccountingError, match=message):
        count_rows_out(batch(), filtered, 42, one_to_one=True)
    for out in (41, 43):
        with pytest.raises(AccountingError, match=r"^batch 3 has lost or duplicated rows"):
            count_rows_out(batch(), read, out, one_to_one=True)


@pytest.mark.parametrize(
    ("rows", "dead", "limits"),
    [
        (10_000, 11, Limits(dead_rows=10)),
        (1_000, 101, Limits(dead_rows=None, dead_ratio=0.1, min_rows=1_000)),
        (1, 1, Limits(dead_rows=0)),
    ],
)
def test_too_many_dead_letters_stop_the_job_with_their_reasons(
    rows: int, dead: int, limits: Limits
) -> None:
    with pytest.raises(DeadLetterLimitError) as error:
        check_dead_letter_limit(
            batch(), observed(rows, dead), limits, lambda: ["9 x parse: no JSON"]
        )
    assert f"batch 3 has too many dead letters: {dead} of {rows:,} rows" in str(error.value)
    assert "9 x parse: no JSON" in str(error.value)


@pytest.mark.parametrize(
    ("rows", "dead", "limits"),
    [
        (10_000, 10, Limits(dead_rows=10, dead_ratio=None)),
        (999, 999, Limits(dead_rows=None, dead_ratio=0.1, min_rows=1_000)),
        (1_000, 100, Limits(dead_rows=None, dead_ratio=0.1, min_rows=1_000)),
        (5, 5, Limits(dead_rows=None, dead_ratio=None)),
        (0, 0, Limits(dead_rows=0, dead_ratio=0.0, min_rows=0)),
    ],
)
def test_within_the_limits_reasons_are_not_read(rows: int, dead: int, limits: Limits) -> None:
    check_dead_letter_limit(
        batch(), observed(rows, dead), limits, lambda: pytest.fail("reasons were read")
    )
