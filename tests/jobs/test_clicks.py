"""The click stream that is made up: seeded, faulty, out of order and partly late."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tidegate.errors import ArgumentError
from tidegate.testing.clicks import BROKEN, FAR_FUTURE, clicks
from tidegate.testing.ledger import Sent, Views, expected

MADE = clicks(5_000, seed=3)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    assert [click.value() for click in clicks(5_000, seed=3)] == [click.value() for click in MADE]
    assert clicks(5_000, seed=4) != MADE


def test_there_are_as_many_clicks_as_asked_for_in_the_order_of_their_arrival() -> None:
    assert len(MADE) == 5_000
    assert [click.arrived for click in MADE] == sorted(click.arrived for click in MADE)


def test_all_faults_are_there() -> None:
    faults = Counter(click.fault for click in MADE)
    assert set(faults) == {None, "far future", *BROKEN}
    assert sum(click.straggler for click in MADE) == 10
    assert sum(click.duplicate for click in MADE) == 50


def test_a_duplicate_has_the_bytes_of_its_original() -> None:
    originals = {click.event_id: click.value() for click in MADE if not click.duplicate}
    assert all(originals[click.event_id] == click.value() for click in MADE if click.duplicate)


def test_disorder_is_within_its_bound_but_for_stragglers() -> None:
    newest = 0
    for click in MADE:
        if not click.straggler and click.fault != "far future":
            assert newest - click.at <= 5_000
            newest = max(newest, click.at)


def test_stragglers_are_an_hour_late_and_arrive_near_the_end() -> None:
    late = [(index, click) for index, click in enumerate(MADE) if click.straggler]
    assert all(click.arrived - click.at >= 3_600_000 and index > 3_300 for index, click in late)


def test_good_records_are_json_and_broken_ones_are_not_good() -> None:
    for click in MADE:
        if click.fault is None:
            assert json.loads(click.value())["event_id"] == click.event_id
        if click.fault in ("broken json", "empty", "invalid utf-8"):
            with pytest.raises(ValueError, match=r".*"):
                json.loads(click.value().decode())
        if click.fault == "far future":
            assert str(FAR_FUTURE.year) in click.value().decode()


def test_a_count_too_small_for_the_faults_is_refused() -> None:
    with pytest.raises(ArgumentError, match="count is 20"):
        clicks(20)


def test_the_oracle_counts_by_window_and_page() -> None:
    ledger = [Sent(0, offset, click.value(), click) for offset, click in enumerate(MADE)]
    views = expected(ledger, 60_000)
    good = [click for click in MADE if click.fault is None and not click.straggler]
    assert sum(view.views for view in views.values()) == len(good)
    first = good[0]
    same = [c for c in good if c.at // 60_000 == first.at // 60_000 and c.page == first.page]
    assert views[first.at // 60_000 * 60_000, first.page] == Views(
        len(same), sum(c.ms for c in same), max(c.ms for c in same), sum(c.size for c in same)
    )
