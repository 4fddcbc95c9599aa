"""A stream, a batch and the oracle agree for any arrival order, micro-batches and restarts."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tests.support import pattern_oracle as oracle
from tests.support.hypothesis_profiles import few
from tests.support.pattern_frames import SCHEMA, batch, collect_matches, number_measures
from tests.support.pattern_oracle import Event
from tests.support.pattern_strategies import BASE, SECOND, SPAN, WITHIN, events, patterns
from tidegate.commit.batch import UNIX_EPOCH
from tidegate.patterns import MatchSequence, Pattern
from tidegate.patterns._search.sequence_matcher import Skip
from tidegate.testing import StreamDriver

WATERMARK_DELAY = 4


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[Event]]:
    """Draw micro-batches of events in an arrival order without late events."""
    drawn = draw(events())
    size = len(drawn)
    delays = draw(st.lists(st.integers(0, WATERMARK_DELAY), min_size=size, max_size=size))
    delayed = zip(delays, drawn, strict=True)
    arrived = [event for _, event in sorted(delayed, key=lambda p: p[0] * SECOND + p[1].micros)]
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(arrived) - 1)), max_size=3)))
    edges = [0, *cuts, len(arrived)]
    return [arrived[start:stop] for start, stop in pairwise(edges) if arrived[start:stop]]


def run_stream(
    spark: SparkSession, arrival: list[list[Event]], transform: MatchSequence
) -> DataFrame:
    """Run the micro-batches as a stream to its end, with a restart after the second."""
    delay = f"{WATERMARK_DELAY} seconds"
    with StreamDriver(spark, SCHEMA, transform, watermark_delay=delay) as stream:
        for number, micro_batch in enumerate(arrival):
            stream.feed(batch(spark, micro_batch))
            if number == 1:
                stream.restart()
        stream.advance_to(UNIX_EPOCH + (BASE + 3 * SPAN * SECOND) * UNIX_EPOCH.resolution)
        rows = stream.results()
        return spark.createDataFrame(rows.collect(), rows.schema)


@pytest.mark.draws
@pytest.mark.slow
def test_stream_batch_and_plain_python_agree(spark: SparkSession) -> None:
    @few()
    @given(patterns(), arrivals(), st.sampled_from(["past_last", "to_next"]))
    def agree(pattern: Pattern, arrival: list[list[Event]], skip: Skip) -> None:
        all_events = [event for micro_batch in arrival for event in micro_batch]
        expected = Counter(oracle.matches(all_events, pattern, WITHIN, skip=skip, timeouts=True))
        measures = number_measures(pattern)
        transform = MatchSequence(
            pattern, by="key", measures=measures, skip=skip, timeouts=True, order="number"
        )
        assert Counter(collect_matches(transform(batch(spark, all_events)), pattern)) == expected
        streamed = run_stream(spark, arrival, transform)
        assert Counter(collect_matches(streamed, pattern)) == expected

    agree()
