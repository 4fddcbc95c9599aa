"""Logs of accounts' events as frames, and drawn at random."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from ..worlds.accounts import (
    KINDS,
    SCHEMA,
    START,
    Event,
    Sent,
    State,
    amount,
    ordered,
    partition_of,
    told,
)

Cut = list[list[Sent]]


def frame(spark: SparkSession, log: Iterable[Sent]) -> DataFrame:
    """Return events as a job reads them."""
    made = [
        (
            sent.event.account,
            sent.event.kind,
            amount(sent.event.cents),
            sent.event.owner,
            START + timedelta(milliseconds=sent.event.at),
            "t",
            sent.partition,
            sent.offset,
        )
        for sent in log
    ]
    return spark.createDataFrame(made, f"{SCHEMA}, topic STRING, partition INT, offset BIGINT")


def found(states: DataFrame) -> list[State]:
    """Collect states as the oracle tells them, sorted."""
    return ordered(told(row.asDict()) for row in states.collect())


def placed(made: Iterable[Event], partitions: int = 2) -> list[Sent]:
    """Give each event its place in a topic; offsets have holes."""
    ends = dict.fromkeys(range(partitions), 0)
    log = []
    for event in made:
        partition = partition_of(event, partitions)
        log.append(Sent(partition, ends[partition], event))
        ends[partition] += 1 + event.cents % 2
    return log


_EVENTS = st.builds(
    Event,
    st.sampled_from(["a", "b", "c", "d"]),
    st.sampled_from(KINDS),
    st.integers(1, 99_999),
    st.sampled_from([None, "Ann", "Bo"]),
    st.integers(0, 50),
)


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    """Draw a log in batches, some of which read again from where an earlier one began."""
    log = placed(draw(st.lists(_EVENTS, min_size=1, max_size=40)))
    ends = sorted(draw(st.lists(st.integers(0, len(log)), max_size=3)))
    starts = [0, *ends]
    again = [draw(st.integers(0, start)) for start in starts]
    return [log[first:end] for first, end in zip(again, [*ends, len(log)], strict=True)]
