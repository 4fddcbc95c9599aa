"""Random changes of two tables in batches, and the resulting tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeAlias

from tests.support.join_tables import Row

Side: TypeAlias = Literal["left", "right"]
SIDES: tuple[Side, ...] = ("left", "right")
Event: TypeAlias = tuple[Side, int, int, str | None, str | None, int, bool]
"""Table, case, primary key, join key, value, version, deleted."""
SCHEMA = "side string, case int, id int, key string, value string, version int, deleted boolean"


@dataclass
class TableLog:
    """The current rows of the tables of one case: the latest version of each key."""

    latest: dict[tuple[Side, int], tuple[int, Row | None]] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        side, _, id_, key, value, version, deleted = event
        current = self.latest.get((side, id_))
        if current is None or version >= current[0]:
            self.latest[side, id_] = (version, None if deleted else (key, value or ""))

    def table(self, table_side: Side) -> dict[int, Row]:
        return {
            id_: row
            for (side, id_), (_, row) in self.latest.items()
            if side == table_side and row is not None
        }


def random_history(seed: int, *, cases: int, batches: int) -> list[list[Event]]:
    """Return random changes: inserts, updates of join key or value, and deletes, also of no row.

    A fifth of the changes is duplicated, in the same or a later batch, and changes can arrive after
    newer ones of their key."""
    random = Random(seed)
    batches_of_events: list[list[Event]] = [[] for _ in range(batches)]
    for case in range(cases):
        for event in _events(random, case):
            batch = random.randrange(batches)
            batches_of_events[batch].append(event)
            if random.random() < 0.2:
                batches_of_events[random.randrange(batch, batches)].append(event)
    for events in batches_of_events:
        random.shuffle(events)
    return batches_of_events


def _events(random: Random, case: int) -> Iterator[Event]:
    for side in SIDES:
        for id_ in range(random.randint(0, 3)):
            for version in range(random.randint(1, 4)):
                if random.random() < 0.3:
                    yield (side, case, id_, None, None, version, True)
                else:
                    yield (
                        side,
                        case,
                        id_,
                        random.choice(["a", "a", "b", None]),
                        random.choice("xyz"),
                        version,
                        False,
                    )
