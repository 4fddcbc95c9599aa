"""The windows that are measured, by how their rows are late; one of them in its own process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.sketches import distinct
from tidegate.windows import Hopping, Session, Sliding, Tumbling

from .contest import Contestant, compete
from .contestants import of_tidegate

_QUERIES: Mapping[str, Mapping[str, Any]] = {
    "tumbling": {"window": Tumbling("10 seconds"), "by": "page"},
    "hopping": {"window": Hopping("60 seconds", "10 seconds"), "by": "page"},
    "session": {"window": Session("30 seconds"), "by": "user"},
    "sliding": {"window": Sliding("60 seconds"), "by": "user"},
    "distinct": {
        "window": Tumbling("10 seconds"),
        "by": "page",
        "aggs": {"users": distinct("user")},
    },
}
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "one watermark": {},
    "a watermark each": {"watermarks": "partition"},
    "by the log": {"watermarks": "log"},
    "by the log, backlog": {"watermarks": "log", "backlog": 0},
    "backlog": {"backlog": 0},
}

RIVALS: dict[str, str] = {}
BY_LOG: dict[str, Contestant] = {}
for _query, _parts in _QUERIES.items():
    for _kind, _settings in _KINDS.items():
        BY_LOG[f"{_query}, {_kind}"] = of_tidegate(**_parts, **_settings)
        RIVALS[f"{_query}, {_kind}"] = f"{_query}, one watermark"
"""By name, the contestant and what it is compared with."""


if __name__ == "__main__":
    compete(BY_LOG)
