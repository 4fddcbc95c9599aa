"""Window jobs by their watermarks: global, per partition, and from the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.contestants.window_queries import tidegate_windows
from benchmarks.support.contestant_process import Contestant, run_contestant
from tidegate.sketches import approx_count_distinct
from tidegate.windows import Hopping, Session, Sliding, Tumbling

_QUERIES: Mapping[str, Mapping[str, Any]] = {
    "tumbling": {"window": Tumbling("10 seconds"), "by": "page"},
    "hopping": {"window": Hopping("60 seconds", "10 seconds"), "by": "page"},
    "session": {"window": Session("30 seconds"), "by": "user"},
    "sliding": {"window": Sliding("60 seconds"), "by": "user"},
    "distinct": {
        "window": Tumbling("10 seconds"),
        "by": "page",
        "aggs": {"users": approx_count_distinct("user")},
    },
}
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "global watermark": {},
    "partition watermarks": {"watermarks": "partition"},
    "log watermarks": {"watermarks": "log"},
    "log watermarks, backfill": {"watermarks": "log", "backfill_threshold": 0},
    "backfill": {"backfill_threshold": 0},
}

BASELINES: dict[str, str] = {}
CONTESTANTS: dict[str, Contestant] = {}
for _query, _parts in _QUERIES.items():
    for _kind, _settings in _KINDS.items():
        CONTESTANTS[f"{_query}, {_kind}"] = tidegate_windows(**_parts, **_settings)
        BASELINES[f"{_query}, {_kind}"] = f"{_query}, global watermark"


if __name__ == "__main__":
    run_contestant(CONTESTANTS)
