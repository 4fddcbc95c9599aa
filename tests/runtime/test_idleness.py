"""Idleness: event time goes on past streams that have been quiet for long enough."""

from __future__ import annotations

from tidegate.runtime.query.idleness import Idleness, sources

SECOND = 1_000_000


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def idle(clock: Clock, **timeouts: float) -> Idleness:
    return Idleness(timeouts, clock)


def test_event_time_goes_on_from_the_newest_event_once_all_have_been_quiet_for_long_enough() -> (
    None
):
    clock = Clock()
    quiet = idle(clock, clicks=60.0)
    clock.now = 10.0
    quiet.saw(0, {"clicks": 5}, {"clicks": False})
    quiet.reached = {"clicks": 100 * SECOND}
    clock.now = 69.9
    assert quiet.due(busy=False) == {}
    clock.now = 70.0
    assert quiet.due(busy=False) == {"clicks": 160 * SECOND}
    clock.now = 80.0
    assert quiet.due(busy=False) == {}, "a quarter of the time-out lies between two heartbeats"
    clock.now = 85.0
    assert quiet.due(busy=False) == {"clicks": 175 * SECOND}


def test_a_row_ends_the_silence_and_one_that_waits_never_lets_it_begin() -> None:
    clock = Clock()
    quiet = idle(clock, clicks=60.0)
    quiet.reached = {"clicks": 100 * SECOND}
    for batch, (rows, waiting) in enumerate([(3, False), (0, True)]):
        clock.now += 50.0
        quiet.saw(batch, {"clicks": rows}, {"clicks": waiting})
        clock.now += 50.0
        assert quiet.due(busy=False) == {}
    clock.now += 10.0
    assert quiet.due(busy=False) == {"clicks": 160 * SECOND}


def test_a_long_batch_is_not_silence() -> None:
    clock = Clock()
    quiet = idle(clock, clicks=60.0)
    quiet.saw(0, {"clicks": 1}, {})
    quiet.reached = {"clicks": 100 * SECOND}
    clock.now = 500.0
    assert quiet.due(busy=True) == {}


def test_a_batch_is_noted_once() -> None:
    clock = Clock()
    quiet = idle(clock, clicks=60.0)
    quiet.reached = {"clicks": 0}
    for now in (0.0, 30.0, 60.0):
        clock.now = now
        quiet.saw(7, {"clicks": 1}, {})
    assert quiet.due(busy=False) == {"clicks": 60 * SECOND}


def test_a_quiet_stream_follows_the_slowest_of_those_that_are_not_and_never_goes_back() -> None:
    clock = Clock()
    quiet = idle(clock, slow=60.0, fast=60.0, silent=60.0)
    quiet.reached = {"slow": 30 * SECOND, "fast": 90 * SECOND}
    clock.now = 60.0
    quiet.saw(0, {"slow": 1, "fast": 1}, {})
    assert quiet.due(busy=False) == {"silent": 30 * SECOND}
    quiet.reached["silent"] = 40 * SECOND
    clock.now = 119.0
    assert quiet.due(busy=False) == {}


def test_a_stream_without_a_time_out_is_never_quiet_and_nothing_is_known_at_first() -> None:
    clock = Clock()
    quiet = idle(clock, clicks=60.0, searches=float("inf"))
    clock.now = 600.0
    assert quiet.due(busy=False) == {}
    quiet.reached = {"clicks": 5 * SECOND}
    assert quiet.due(busy=False) == {}, "searches, awake as ever, have not told their time"
    quiet.reached["searches"] = 7 * SECOND
    assert quiet.due(busy=False) == {"clicks": 7 * SECOND}


def test_after_a_restart_without_a_row_event_time_goes_on_from_the_watermark() -> None:
    clock = Clock()
    quiet = idle(clock, clicks=60.0)
    quiet.before = 1_000 * SECOND
    clock.now = 60.0
    assert quiet.due(busy=False) == {"clicks": 1_060 * SECOND}


def test_a_report_tells_each_streams_rows_and_whether_more_wait() -> None:
    report = {
        "sources": [
            {
                "numInputRows": 5,
                "endOffset": {"clicks": {"0": 7, "2": 9}},
                "latestOffset": {"clicks": {"0": 7, "2": 12}},
            },
            {
                "numInputRows": 4,
                "endOffset": {"clicks": {"1": 3}},
                "latestOffset": {"clicks": {"1": 3}},
            },
            {"numInputRows": 1, "endOffset": {"users": {"0": 3}}, "latestOffset": None},
            {"numInputRows": 1, "endOffset": {"logOffset": 0}},
        ]
    }
    names = {
        "clicks-0, clicks-2": ["clicks-0", "clicks-2"],
        "clicks-1": ["clicks-1"],
        "users": ["users"],
    }
    assert sources(report, names) == (
        {"clicks-0, clicks-2": 5, "clicks-1": 4, "users": 1},
        {"clicks-0, clicks-2": True, "clicks-1": False, "users": False},
    )
