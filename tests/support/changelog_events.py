"""Logs of account events as DataFrames, and a Hypothesis strategy for batches of a log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tests.scenarios.accounts import (
    KINDS,
    SCHEMA,
    START,
    Event,
    Sent,
    State,
    amount,
    ordered,
    partition_of,
    state_of_row,
)

Batches = list[list[Sent]]


def frame(spark: SparkSession, log: Iterable[Sent]) -> DataFrame:
    """Return events with the columns of a job's input."""
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


def collect_states(states: DataFrame) -> list[State]:
    """Collect states in the form of the oracle, sorted."""
    return ordered(state_of_row(row.asDict()) for row in states.collect())


def with_log_positions(made: Iterable[Event], partitions: int = 2) -> list[Sent]:
    """Return the events with a partition and an offset; offsets have gaps."""
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
def replayed_batches(draw: st.DrawFn) -> Batches:
    """Draw a log in batches, some of which repeat events of earlier batches."""
    log = with_log_positions(draw(st.lists(_EVENTS, min_size=1, max_size=40)))
    ends = sorted(draw(st.lists(st.integers(0, len(log)), max_size=3)))
    starts = [draw(st.integers(0, start)) for start in [0, *ends]]
    return [log[start:end] for start, end in zip(starts, [*ends, len(log)], strict=True)]
