"""The accounting of a batch: every record is a row, a dead letter or an error."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidegate.commit import Batch
from tidegate.errors import AccountingError, DeadLetterFloodError
from tidegate.runtime.limits import Limits
from tidegate.runtime.query.accounting import (
    Again,
    Observed,
    check_flood,
    check_one_to_one,
    span,
    tally,
)


def batch(start: int = 100, end: int = 150) -> Batch:
    return Batch(
        job="job",
        query_id="q",
        run_id="r",
        number=3,
        offsets_hash="h",
        start={"t": {0: start}},
        end={"t": {0: end, 1: 50}},
        watermark=datetime(2026, 1, 1, tzinfo=UTC),
    )


def seen(rows: int, dead: int = 0) -> Observed:
    return Observed(rows=rows, dead=dead, earliest=None, latest=None)


def counts(rows: int | None, dead: int | None = 0) -> dict[str, int | None]:
    return {"rows": rows, "dead": dead, "earliest": 5, "latest": 9}


def test_the_span_counts_offsets_and_new_partitions_from_zero() -> None:
    assert span(batch()) == 100


def test_fewer_rows_than_offsets_are_right_for_offsets_have_holes() -> None:
    assert tally(batch(), [counts(40, 3)]) == Observed(rows=40, dead=3, earliest=5, latest=9)


def test_the_streams_of_an_input_add_up_and_one_without_rows_has_no_times() -> None:
    silent = {"rows": 0, "dead": 0, "earliest": None, "latest": None}
    later = {"rows": 7, "dead": 1, "earliest": 6, "latest": 11}
    assert tally(batch(), [counts(40, 3), silent, later]) == Observed(
        rows=47, dead=4, earliest=5, latest=11
    )


def test_a_batch_without_offsets_has_no_rows() -> None:
    empty = batch(100, 100)
    assert tally(Batch(**{**vars(empty), "end": empty.start}), []) == seen(0)


@pytest.mark.parametrize("given", [[], [counts(101)], [counts(5, 6)], [counts(60), counts(41)]])
def test_counts_that_can_not_be_are_refused(given: list[dict[str, int | None]]) -> None:
    with pytest.raises(AccountingError, match="batch 3"):
        tally(batch(), given)


@pytest.mark.parametrize(
    ("rows", "dead", "lost", "anew"),
    [
        (100, 3, True, False),
        # Whether executors were lost is asked where the range has holes.
        (60, 3, False, False),
        (60, 3, True, True),
        (101, 3, False, True),
        (5, 6, False, True),
        (0, 0, False, True),
    ],
)
def test_rows_that_may_be_counted_twice_or_not_at_all_are_counted_once_more(
    rows: int, dead: int, lost: bool, anew: bool
) -> None:
    again = Again(count=lambda: {**counts(50, 2), "latest": 7}, lost=lambda: lost)
    found = tally(batch(), [counts(rows, dead)], again)
    assert (found.rows, found.dead) == ((50, 2) if anew else (rows, dead))
    # Of a row that is seen twice the time is the same.
    assert (found.earliest, found.latest) == ((5, 9) if rows else (5, 7))


def test_a_second_count_that_can_not_be_is_refused() -> None:
    again = Again(count=lambda: counts(101), lost=lambda: False)
    with pytest.raises(AccountingError, match="counted 101 rows"):
        tally(batch(), [counts(110)], again)


def test_a_job_without_a_transform_gives_each_good_row_once() -> None:
    check_one_to_one(batch(), 50, 8, 42)
    check_one_to_one(batch(), 50, 8, 40, filtered=2)
    with pytest.raises(AccountingError, match="2 left out by where, and gave 42"):
        check_one_to_one(batch(), 50, 8, 42, filtered=2)
    for out in (41, 43):
        with pytest.raises(AccountingError, match="one row out for each good row"):
            check_one_to_one(batch(), 50, 8, out)


@pytest.mark.parametrize(
    ("rows", "dead", "limits"),
    [
        (10_000, 11, Limits(dead_rows=10)),
        (1_000, 101, Limits(dead_rows=None, dead_ratio=0.1, min_rows=1_000)),
        (1, 1, Limits(dead_rows=0)),
    ],
)
def test_a_flood_stops_the_job_and_tells_the_reasons(rows: int, dead: int, limits: Limits) -> None:
    with pytest.raises(DeadLetterFloodError) as told:
        check_flood(batch(), seen(rows, dead), limits, lambda: ["9 x parse: no JSON"])
    assert f"{dead} of the {rows:,} rows of batch 3" in str(told.value)
    assert "9 x parse: no JSON" in str(told.value)


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
def test_within_the_limits_no_reasons_are_asked_for(rows: int, dead: int, limits: Limits) -> None:
    check_flood(batch(), seen(rows, dead), limits, lambda: pytest.fail("asked"))
