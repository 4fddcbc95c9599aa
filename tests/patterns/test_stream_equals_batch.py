"""Whatever the order within the lateness, the cuts and the restarts: the stream, the batch and
plain Python agree."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tidegate.commit import EPOCH
from tidegate.patterns import Pattern, Sequences
from tidegate.patterns._search.matching import Skip
from tidegate.testing import StreamDriver

from ..drawing import few
from . import oracle
from .frames import SCHEMA, batch, numbers, results
from .oracle import Event
from .strategies import BASE, SECOND, SPAN, WITHIN, events, patterns

LATENESS = 4


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[Event]]:
    """Draw events in an order in which none is late, cut into micro-batches anywhere."""
    drawn = draw(events())
    delays = draw(st.lists(st.integers(0, LATENESS), min_size=len(drawn), max_size=len(drawn)))
    late = zip(delays, drawn, strict=True)
    arrived = [event for _, event in sorted(late, key=lambda p: p[0] * SECOND + p[1].micros)]
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(arrived) - 1)), max_size=3)))
    edges = [0, *cuts, len(arrived)]
    return [arrived[start:stop] for start, stop in pairwise(edges) if arrived[start:stop]]


def streamed(spark: SparkSession, arrival: list[list[Event]], found: Sequences) -> DataFrame:
    """Run the arrival as a stream to its end, with a restart in the middle."""
    lateness = f"{LATENESS} seconds"
    with StreamDriver(spark, SCHEMA, found, lateness=lateness) as stream:
        for number, some in enumerate(arrival):
            stream.feed(batch(spark, some))
            if number == 1:
                stream.restart()
        stream.advance_to(EPOCH + (BASE + 3 * SPAN * SECOND) * EPOCH.resolution)
        rows = stream.results()
        return spark.createDataFrame(rows.collect(), rows.schema)


@pytest.mark.draws
@pytest.mark.slow
def test_stream_batch_and_plain_python_agree(spark: SparkSession) -> None:
    @few()
    @given(patterns(), arrivals(), st.sampled_from(["past_last", "to_next"]))
    def agree(pattern: Pattern, arrival: list[list[Event]], skip: Skip) -> None:
        every = [event for some in arrival for event in some]
        expected = Counter(oracle.matches(every, pattern, WITHIN, skip=skip, timeouts=True))
        found = Sequences(
            pattern, by="key", measures=numbers(pattern), skip=skip, timeouts=True, order="number"
        )
        assert Counter(results(found(batch(spark, every)), pattern)) == expected
        assert Counter(results(streamed(spark, arrival, found), pattern)) == expected

    agree()
