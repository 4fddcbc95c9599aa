"""Random changes of two tables, cut into batches, and the tables that they leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeAlias

from .tables import Row

Side: TypeAlias = Literal["left", "right"]
SIDES: tuple[Side, ...] = ("left", "right")
Event: TypeAlias = tuple[Side, int, int, str | None, str | None, int, bool]
"""Table, case, primary key, join key, value, version, deleted."""
SCHEMA = "side string, case int, id int, key string, value string, version int, deleted boolean"


@dataclass
class Log:
    """What has happened to the tables of one case: of each key the newest version counts."""

    newest: dict[tuple[Side, int], tuple[int, Row | None]] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        side, _, id_, key, value, version, deleted = event
        known = self.newest.get((side, id_))
        if known is None or version >= known[0]:
            self.newest[side, id_] = (version, None if deleted else (key, value or ""))

    def table(self, wanted: Side) -> dict[int, Row]:
        return {
            id_: row
            for (side, id_), (_, row) in self.newest.items()
            if side == wanted and row is not None
        }


def history(seed: int, *, cases: int, batches: int) -> list[list[Event]]:
    """Draw changes: rows come, change their join key or value, go, or go though never there.

    A fifth of the changes come again, at once or batches later, and some come after newer ones of
    their key."""
    random = Random(seed)
    cut: list[list[Event]] = [[] for _ in range(batches)]
    for case in range(cases):
        for event in _events(random, case):
            batch = random.randrange(batches)
            cut[batch].append(event)
            if random.random() < 0.2:
                cut[random.randrange(batch, batches)].append(event)
    for events in cut:
        random.shuffle(events)
    return cut


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
