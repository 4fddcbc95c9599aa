"""Whatever the order within the lateness, the cuts and the restarts: the stream, the batch and
plain Python agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from pyspark.sql import DataFrame, SparkSession

from tidegate.windows import hopping, session, sliding, tumbling

from ..drawing import few
from . import oracle
from .frames import AGGS, Transform, answers, batch, streamed
from .oracle import SECOND, Answer, Event
from .strategies import Arrival, arrivals


@dataclass(frozen=True)
class Case:
    """A transform and its definition."""

    transform: Transform
    oracle: Callable[[list[Event]], list[Answer]]


def by_key(transform: Callable[..., DataFrame], *durations: str, **options: str) -> Transform:
    return lambda events: transform(events, *durations, by="key", aggs=AGGS, **options)


CASES = {
    "tumbling": Case(
        by_key(tumbling, "5 seconds", offset="-2 seconds"),
        lambda events: oracle.hopping(events, 5 * SECOND, 5 * SECOND, -2 * SECOND),
    ),
    "hopping by copies": Case(
        by_key(hopping, "7 seconds", "2 seconds"),
        lambda events: oracle.hopping(events, 7 * SECOND, 2 * SECOND),
    ),
    "hopping by panes": Case(
        by_key(hopping, "8 seconds", "1 second"),
        lambda events: oracle.hopping(events, 8 * SECOND, SECOND),
    ),
    "sliding": Case(
        by_key(sliding, "3 seconds"), lambda events: oracle.sliding(events, 3 * SECOND)
    ),
    "session": Case(by_key(session, "1 second"), lambda events: oracle.session(events, SECOND)),
    "session cut": Case(
        by_key(session, "2 seconds", longest="10 seconds"),
        lambda events: oracle.session(events, 2 * SECOND, 10 * SECOND),
    ),
}
SHORT = ["hopping by panes", "sliding", "session"]


@pytest.mark.draws("name", short=SHORT, long=list(CASES))
@pytest.mark.slow
def test_stream_batch_and_plain_python_agree(spark: SparkSession, name: str) -> None:
    case = CASES[name]

    @few()
    @given(arrivals())
    def agree(arrival: Arrival) -> None:
        expected = Counter(case.oracle(arrival.events))
        assert answers(case.transform(batch(spark, arrival.events))) == expected
        assert streamed(spark, arrival, case.transform) == expected

    agree()
