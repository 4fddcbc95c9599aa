"""Random events, and random ways for them to arrive."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from hypothesis import strategies as st

from ..drawing import varied
from .oracle import SECOND, Event

LATENESS = 4 * SECOND
SPAN = 40 * SECOND
BASE = 1_760_000_000 * SECOND


class Arrival(NamedTuple):
    """Events as a stream sees them: micro-batches, and after which of them the query is stopped and
    started."""

    batches: list[list[Event]]
    restarts: set[int]

    @property
    def events(self) -> list[Event]:
        """All events."""
        return [event for batch in self.batches for event in batch]


def events(base: int = BASE, most: int = 120) -> st.SearchStrategy[list[Event]]:
    """Draw events with crowded times, so that ties, gaps and touching windows are frequent."""
    micros = st.one_of(
        st.integers(0, SPAN // SECOND).map(lambda second: second * SECOND),
        st.integers(0, SPAN),
        st.integers(0, 8).map(lambda tick: 20 * SECOND + tick),
    )
    event = st.builds(
        Event,
        micros.map(lambda offset: base + offset),
        st.sampled_from(["a", "b", "c", None]),
        st.one_of(st.none(), st.integers(-5, 5)),
    )
    return varied(st.lists(event, min_size=2, max_size=most))


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    """Draw events in an order in which none is late, cut into micro-batches anywhere."""
    drawn = draw(events())
    delays = draw(st.lists(st.integers(0, LATENESS), min_size=len(drawn), max_size=len(drawn)))
    arrived = [
        event
        for _, event in sorted(
            zip(delays, drawn, strict=True), key=lambda pair: pair[0] + pair[1].micros
        )
    ]
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(arrived) - 1)), max_size=2)))
    edges = [0, *cuts, len(arrived)]
    batches = [arrived[start:stop] for start, stop in pairwise(edges) if arrived[start:stop]]
    return Arrival(batches, draw(st.sets(st.integers(0, len(batches) - 1), max_size=1)))
