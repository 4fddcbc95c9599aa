"""Hypothesis strategies for events and for their arrival in micro-batches."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from hypothesis import strategies as st

from tests.support.hypothesis_profiles import varied
from tests.support.window_oracle import SECOND, Event

WATERMARK_DELAY = 4 * SECOND
SPAN = 40 * SECOND
BASE = 1_760_000_000 * SECOND


class Arrival(NamedTuple):
    """The micro-batches of a stream, and the batches after which the query restarts."""

    batches: list[list[Event]]
    restarts: set[int]

    @property
    def events(self) -> list[Event]:
        """All events."""
        return [event for batch in self.batches for event in batch]


def events(base: int = BASE, max_size: int = 120) -> st.SearchStrategy[list[Event]]:
    """Draw events with clustered times, so that ties, gaps and adjacent windows are frequent."""
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
    return varied(st.lists(event, min_size=2, max_size=max_size))


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    """Draw events in random micro-batches, in an order without late events."""
    drawn = draw(events())
    delays = draw(
        st.lists(st.integers(0, WATERMARK_DELAY), min_size=len(drawn), max_size=len(drawn))
    )
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
