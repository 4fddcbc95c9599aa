"""Idleness: event time advances once streams are idle for their timeout."""

from __future__ import annotations

from tidegate.engine.idleness import Idleness, stream_activity

SECOND = 1_000_000


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def create_idleness(clock: Clock, **timeouts: float) -> Idleness:
    return Idleness(timeouts, clock)


def test_event_time_advances_from_the_newest_event_once_all_streams_are_idle() -> None:
    clock = Clock()
    idleness = create_idleness(clock, clicks=60.0)
    clock.now = 10.0
    idleness.record_batch(0, {"clicks": 5}, {"clicks": False})
    idleness.watermarks = {"clicks": 100 * SECOND}
    clock.now = 69.9
    assert idleness.due_heartbeats(is_batch_running=False) == {}
    clock.now = 70.0
    assert idleness.due_heartbeats(is_batch_running=False) == {"clicks": 160 * SECOND}
    clock.now = 80.0
    assert idleness.due_heartbeats(is_batch_running=False) == {}, (
        "heartbeats are a quarter of the timeout apart"
    )
    clock.now = 85.0
    assert idleness.due_heartbeats(is_batch_running=False) == {"clicks": 175 * SECOND}


def test_rows_and_unread_records_end_idleness() -> None:
    clock = Clock()
    idleness = create_idleness(clock, clicks=60.0)
    idleness.watermarks = {"clicks": 100 * SECOND}
    for batch, (rows, has_backlog) in enumerate([(3, False), (0, True)]):
        clock.now += 50.0
        idleness.record_batch(batch, {"clicks": rows}, {"clicks": has_backlog})
        clock.now += 50.0
        assert idleness.due_heartbeats(is_batch_running=False) == {}
    clock.now += 10.0
    assert idleness.due_heartbeats(is_batch_running=False) == {"clicks": 160 * SECOND}


def test_a_long_batch_is_not_idleness() -> None:
    clock = Clock()
    idleness = create_idleness(clock, clicks=60.0)
    idleness.record_batch(0, {"clicks": 1}, {})
    idleness.watermarks = {"clicks": 100 * SECOND}
    clock.now = 500.0
    assert idleness.due_heartbeats(is_batch_running=True) == {}


def test_a_batch_is_recorded_once() -> None:
    clock = Clock()
    idleness = create_idleness(clock, clicks=60.0)
    idleness.watermarks = {"clicks": 0}
    for now in (0.0, 30.0, 60.0):
        clock.now = now
        idleness.record_batch(7, {"clicks": 1}, {})
    assert idleness.due_heartbeats(is_batch_running=False) == {"clicks": 60 * SECOND}


def test_an_idle_stream_follows_the_slowest_active_stream_and_never_moves_back() -> None:
    clock = Clock()
    idleness = create_idleness(clock, slow=60.0, fast=60.0, silent=60.0)
    idleness.watermarks = {"slow": 30 * SECOND, "fast": 90 * SECOND}
    clock.now = 60.0
    idleness.record_batch(0, {"slow": 1, "fast": 1}, {})
    assert idleness.due_heartbeats(is_batch_running=False) == {"silent": 30 * SECOND}
    idleness.watermarks["silent"] = 40 * SECOND
    clock.now = 119.0
    assert idleness.due_heartbeats(is_batch_running=False) == {}


def test_a_stream_without_a_timeout_is_never_idle() -> None:
    clock = Clock()
    idleness = create_idleness(clock, clicks=60.0, searches=float("inf"))
    clock.now = 600.0
    assert idleness.due_heartbeats(is_batch_running=False) == {}
    idleness.watermarks = {"clicks": 5 * SECOND}
    assert idleness.due_heartbeats(is_batch_running=False) == {}, (
        "searches are active and have no watermark yet"
    )
    idleness.watermarks["searches"] = 7 * SECOND
    assert idleness.due_heartbeats(is_batch_running=False) == {"clicks": 7 * SECOND}


def test_after_a_restart_without_rows_event_time_advances_from_the_watermark() -> None:
    clock = Clock()
    idleness = create_idleness(clock, clicks=60.0)
    idleness.previous_watermark = 1_000 * SECOND
    clock.now = 60.0
    assert idleness.due_heartbeats(is_batch_running=False) == {"clicks": 1_060 * SECOND}


def test_a_progress_report_has_each_streams_rows_and_backlog() -> None:
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
    assert stream_activity(report, names) == (
        {"clicks-0, clicks-2": 5, "clicks-1": 4, "users": 1},
        {"clicks-0, clicks-2": True, "clicks-1": False, "users": False},
    )
