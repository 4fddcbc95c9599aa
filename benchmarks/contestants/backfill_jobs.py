"""Window jobs over one topic, each as a stream and with a backfill."""

from __future__ import annotations

from benchmarks.contestants.window_queries import tidegate_windows
from benchmarks.support.contestant_process import Contestant, run_contestant
from tidegate.windows import Hopping, Session, Tumbling, Window

WINDOWS: dict[str, tuple[Window, str]] = {
    "tumbling": (Tumbling("10 seconds"), "page"),
    "hopping": (Hopping("60 seconds", "10 seconds"), "page"),
    "session": (Session("30 seconds"), "user"),
}
CONTESTANTS: dict[str, Contestant] = {
    name: contestant
    for kind, (window, by) in WINDOWS.items()
    for name, contestant in (
        (f"{kind}, stream", tidegate_windows(window, by)),
        (f"{kind}, backfill", tidegate_windows(window, by, backfill_threshold=0)),
    )
}
BASELINES = {name: f"{name.partition(',')[0]}, stream" for name in CONTESTANTS}


if __name__ == "__main__":
    run_contestant(CONTESTANTS)
