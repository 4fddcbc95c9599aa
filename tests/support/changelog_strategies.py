"""Hypothesis strategies for the changelog topic of a table.

The log has redelivered and late changes, and is split into batches at any offset.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from tests.support.changelog_oracle import Change
from tests.support.hypothesis_profiles import varied

KEYS = [f"k{number}" for number in range(12)]


@st.composite
def logs(draw: st.DrawFn, most: int = 120) -> list[Change]:
    """Draw the records of a topic.

    Rows are created, updated, deleted with and without a tombstone, and truncated, often several
    times in a millisecond. The connector redelivers ranges or single changes, and some changes are
    late.
    """
    topic: list[Change] = []
    for action in draw(varied(st.lists(_actions(), min_size=2, max_size=most))):
        _append(topic, *action)
    return topic


def batches(most: int = 3) -> st.SearchStrategy[tuple[list[Change], list[list[Change]]]]:
    """Draw a topic, and the same topic in batches."""
    return logs().flatmap(
        lambda log: st.lists(st.integers(0, len(log)), min_size=most - 1, max_size=most - 1).map(
            lambda cuts: (
                log,
                [log[start:stop] for start, stop in pairwise([0, *sorted(cuts), len(log)])],
            )
        )
    )


def _actions() -> st.SearchStrategy[tuple[str, str, int, int]]:
    frequent = st.sampled_from(
        ["change"] * 12
        + ["delete", *["delete and tombstone"] * 2, "tombstone", *["redeliver range"] * 2]
        + ["redeliver one", "late"]
    )
    rare = st.sampled_from(["change", "delete and tombstone", "truncate", "late truncate"])
    kind = st.one_of(*[frequent] * 5, rare)
    return st.tuples(
        kind, st.sampled_from(KEYS), st.sampled_from([0, 0, 1, 1, 2, 5]), st.integers(1, 8)
    )


def _append(topic: list[Change], kind: str, key: str, later: int, back: int) -> None:
    """Append the records of one action of the table or its connector."""
    used = {change.position[0] for change in topic if change.position}
    position = max(used, default=0) // 2 * 2 + 2
    now = max((change.at for change in topic if change.op != "tombstone"), default=0) + later
    of_key = [change for change in topic if change.key == key]
    exists = bool(of_key) and of_key[-1].op not in ("delete", "tombstone")
    tombstone = Change("tombstone", key, None, None, now + back)
    if kind == "change":
        op = "update" if exists else "create"
        topic.append(Change(op, key, f"v{position}", (position,), now))
    elif kind == "late":
        topic.append(Change("update", key, f"v{position}", (position,), max(0, now - back)))
    elif kind in ("delete", "delete and tombstone"):
        topic.append(Change("delete", key, None, (position,), now))
        topic.extend([tombstone] if kind == "delete and tombstone" else [])
    elif kind == "tombstone":
        topic.append(tombstone)
    elif kind == "truncate":
        topic.append(Change("truncate", None, None, (position,), now))
    elif kind == "late truncate":
        # From another partition, which was read later.
        before = position - 2 * back + 1
        if before not in used:
            topic.append(Change("truncate", None, None, (before,), max(0, now - back)))
    elif kind == "redeliver range":
        topic.extend(topic[-back:])
    else:
        topic.extend(topic[-back:][:1])
