"""Streams with random order, batches and restarts equal the batch and the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from pyspark.sql import DataFrame, SparkSession

from tests.support import window_oracle as oracle
from tests.support.hypothesis_profiles import few
from tests.support.window_frames import AGGS, Transform, batch, run_stream, window_rows
from tests.support.window_oracle import SECOND, Event, WindowRow
from tests.support.window_strategies import Arrival, arrivals
from tidegate.windows import hopping, session, sliding, tumbling


@dataclass(frozen=True)
class Case:
    """A transform and its oracle."""

    transform: Transform
    oracle: Callable[[list[Event]], list[WindowRow]]


def by_key(transform: Callable[..., DataFrame], *durations: str, **options: str) -> Transform:
    return lambda events: transform(events, *durations, by="key", aggs=AGGS, **options)


CASES = {
    "tumbling": Case(
        by_key(tumbling, "5 seconds", offset="-2 seconds"),
        lambda events: oracle.hopping(events, 5 * SECOND, 5 * SECOND, -2 * SECOND),
    ),
    "hopping, size not a multiple of hop": Case(
        by_key(hopping, "7 seconds", "2 seconds"),
        lambda events: oracle.hopping(events, 7 * SECOND, 2 * SECOND),
    ),
    "hopping, size a multiple of hop": Case(
        by_key(hopping, "8 seconds", "1 second"),
        lambda events: oracle.hopping(events, 8 * SECOND, SECOND),
    ),
    "sliding": Case(
        by_key(sliding, "3 seconds"), lambda events: oracle.sliding(events, 3 * SECOND)
    ),
    "session": Case(by_key(session, "1 second"), lambda events: oracle.session(events, SECOND)),
    "session, max_duration": Case(
        by_key(session, "2 seconds", max_duration="10 seconds"),
        lambda events: oracle.session(events, 2 * SECOND, 10 * SECOND),
    ),
}
SHORT = ["hopping, size a multiple of hop", "sliding", "session"]


@pytest.mark.draws("name", short=SHORT, long=list(CASES))
@pytest.mark.slow
def test_stream_and_batch_equal_the_oracle(spark: SparkSession, name: str) -> None:
    case = CASES[name]

    @few()
    @given(arrivals())
    def agree(arrival: Arrival) -> None:
        expected = Counter(case.oracle(arrival.events))
        assert window_rows(case.transform(batch(spark, arrival.events))) == expected
        assert run_stream(spark, arrival, case.transform) == expected

    agree()
