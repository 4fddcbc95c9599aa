"""Random logs of a table, as a connector writes them to a topic: in order, again after restarts,
late, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from ..drawing import varied
from .oracle import Change

KEYS = [f"k{number}" for number in range(12)]


@st.composite
def logs(draw: st.DrawFn, most: int = 120) -> list[Change]:
    """Draw what a topic holds.

    A table lives: rows are made, changed, deleted with and without a tombstone, all of them at
    times, often several in one millisecond. The connector starts again and sends a stretch a second
    time, or a single change; some come late."""
    topic: list[Change] = []
    for step in draw(varied(st.lists(_steps(), min_size=2, max_size=most))):
        _take(topic, *step)
    return topic


def batches(most: int = 3) -> st.SearchStrategy[tuple[list[Change], list[list[Change]]]]:
    """Draw a topic, and how it is cut into batches."""
    return logs().flatmap(
        lambda log: st.lists(st.integers(0, len(log)), min_size=most - 1, max_size=most - 1).map(
            lambda cuts: (
                log,
                [log[start:stop] for start, stop in pairwise([0, *sorted(cuts), len(log)])],
            )
        )
    )


def _steps() -> st.SearchStrategy[tuple[str, str, int, int]]:
    what = st.sampled_from(
        ["change"] * 12 + ["delete", "end", "end", "stone", "again", "again", "one", "late"]
    )
    kind = st.one_of(
        what, what, what, what, what, st.sampled_from(["change", "end", "truncate", "old truncate"])
    )
    return st.tuples(
        kind, st.sampled_from(KEYS), st.sampled_from([0, 0, 1, 1, 2, 5]), st.integers(1, 8)
    )


def _take(topic: list[Change], kind: str, key: str, later: int, back: int) -> None:
    """Let one thing happen to the table, or to its connector."""
    taken = {change.position[0] for change in topic if change.position}
    position = max(taken, default=0) // 2 * 2 + 2
    now = max((change.at for change in topic if change.op != "tombstone"), default=0) + later
    mine = [change for change in topic if change.key == key]
    lives = bool(mine) and mine[-1].op not in ("delete", "tombstone")
    stone = Change("tombstone", key, None, None, now + back)
    if kind == "change":
        topic.append(Change("update" if lives else "create", key, f"v{position}", (position,), now))
    elif kind == "late":
        topic.append(Change("update", key, f"v{position}", (position,), max(0, now - back)))
    elif kind in ("delete", "end"):
        topic.append(Change("delete", key, None, (position,), now))
        topic.extend([stone] if kind == "end" else [])
    elif kind == "stone":
        topic.append(stone)
    elif kind == "truncate":
        topic.append(Change("truncate", None, None, (position,), now))
    elif kind == "old truncate":
        # Another partition has it, which was read more slowly.
        before = position - 2 * back + 1
        topic.extend(
            []
            if before in taken
            else [Change("truncate", None, None, (before,), max(0, now - back))]
        )
    elif kind == "again":
        topic.extend(topic[-back:])
    else:
        topic.extend(topic[-back:][:1])
