"""One job twice over one topic: as a stream, and with what waits as one batch first."""

from __future__ import annotations

from tidegate.windows import Hopping, Session, Tumbling, Window

from .contest import Contestant, compete
from .contestants import of_tidegate

WINDOWS: dict[str, tuple[Window, str]] = {
    "tumbling": (Tumbling("10 seconds"), "page"),
    "hopping": (Hopping("60 seconds", "10 seconds"), "page"),
    "session": (Session("30 seconds"), "user"),
}
CONTESTANTS: dict[str, Contestant] = {
    name: contestant
    for kind, (window, by) in WINDOWS.items()
    for name, contestant in (
        (f"{kind}, stream", of_tidegate(window, by)),
        (f"{kind}, backlog", of_tidegate(window, by, backlog=0)),
    )
}
RIVALS = {name: f"{name.partition(',')[0]}, stream" for name in CONTESTANTS}


if __name__ == "__main__":
    compete(CONTESTANTS)
