"""The sample click stream: seeded, faulty, out of order and partly late."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.support.expected_views import ExpectedViews, expected_views
from tidegate.errors import ArgumentError
from tidegate.jobs.sample_clicks import FAR_FUTURE, UNREADABLE_FAULTS, SentRecord, clicks

MADE = clicks(5_000, seed=3)


def test_the_seed_determines_the_records() -> None:
    assert [click.value() for click in clicks(5_000, seed=3)] == [click.value() for click in MADE]
    assert clicks(5_000, seed=4) != MADE


def test_clicks_have_the_requested_number_and_arrival_order() -> None:
    assert len(MADE) == 5_000
    assert [click.arrival_ms for click in MADE] == sorted(click.arrival_ms for click in MADE)


def test_the_stream_has_all_faults() -> None:
    faults = Counter(click.fault for click in MADE)
    assert set(faults) == {None, "far future", *UNREADABLE_FAULTS}
    assert sum(click.is_late for click in MADE) == 10
    assert sum(click.is_duplicate for click in MADE) == 50


def test_a_duplicate_equals_its_original() -> None:
    originals = {click.event_id: click.value() for click in MADE if not click.is_duplicate}
    assert all(originals[click.event_id] == click.value() for click in MADE if click.is_duplicate)


def test_disorder_is_bounded_except_for_late_clicks() -> None:
    newest = 0
    for click in MADE:
        if not click.is_late and click.fault != "far future":
            assert newest - click.event_time_ms <= 5_000
            newest = max(newest, click.event_time_ms)


def test_late_clicks_are_hours_late_and_arrive_near_the_end() -> None:
    late = [(index, click) for index, click in enumerate(MADE) if click.is_late]
    assert all(
        click.arrival_ms - click.event_time_ms >= 3_600_000 and index > 3_300
        for index, click in late
    )


def test_records_without_a_fault_are_valid_json_and_others_are_not() -> None:
    for click in MADE:
        if click.fault is None:
            assert json.loads(click.value())["event_id"] == click.event_id
        if click.fault in ("broken json", "empty", "invalid utf-8"):
            with pytest.raises(ValueError, match=r".*"):
                json.loads(click.value().decode())
        if click.fault == "far future":
            assert str(FAR_FUTURE.year) in click.value().decode()


def test_a_count_too_small_for_the_faults_is_rejected() -> None:
    with pytest.raises(ArgumentError, match="invalid count: 20"):
        clicks(20)


def test_the_expected_views_are_counted_by_window_and_page() -> None:
    ledger = [SentRecord(0, offset, click.value(), click) for offset, click in enumerate(MADE)]
    views = expected_views(ledger, 60_000)
    good = [click for click in MADE if click.fault is None and not click.is_late]
    assert sum(view.views for view in views.values()) == len(good)
    first = good[0]
    same = [
        c
        for c in good
        if c.event_time_ms // 60_000 == first.event_time_ms // 60_000 and c.page == first.page
    ]
    assert views[first.event_time_ms // 60_000 * 60_000, first.page] == ExpectedViews(
        len(same), sum(c.ms for c in same), max(c.ms for c in same), sum(c.size for c in same)
    )
