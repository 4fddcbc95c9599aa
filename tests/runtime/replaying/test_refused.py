"""What a replay cannot begin with is refused before anything is read or written."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count
from tidegate.errors import ArgumentError
from tidegate.joins import IntervalJoin
from tidegate.runtime.job import Input, Job
from tidegate.runtime.replaying.refused import require_middle
from tidegate.runtime.replaying.start import Start, offsets_of
from tidegate.sinks import Append, Corrected, Current, FanOut, Sink, Upsert
from tidegate.transform import Stateful, Transform
from tidegate.windows import Session, Tumbling, Windowed

from ..topics import reading

AGGS = {"n": count()}
TARGET = Append("/nowhere/rows")
UNTOLD = Stateful(lambda pages: pages, late=lambda time: time)


def a_job(transform: Transform | None, sink: Sink, inputs: int = 1) -> Job:
    names = ("pages", "others")[:inputs]
    return Job(
        name="refused",
        inputs={name: Input(reading("nowhere:9092", name)) for name in names},
        transform=transform,
        sink=sink,
    )


@pytest.mark.usefixtures("spark")
def test_jobs_of_which_it_is_unknown_what_is_whole_are_named() -> None:
    tumbling = Windowed(Tumbling("10 seconds"), aggs=AGGS)
    refused: list[tuple[str, Transform | None, Sink]] = [
        ("Session, which does not tell", Windowed(Session("10 seconds"), aggs=AGGS), TARGET),
        ("Stateful, which does not tell", UNTOLD, TARGET),
        (
            "windows that change after",
            tumbling,
            Corrected("/nowhere/rows", windowed=tumbling, log=None),
        ),
        ("the sink FanOut", tumbling, FanOut(TARGET, also=[Append("/nowhere/b", step="b")])),
        ("an Upsert by page, whose", None, Upsert("/nowhere/rows", keys=["page"])),
        ("the sink Current", None, Current("/nowhere/rows")),
    ]
    for reason, transform, sink in refused:
        with pytest.raises(ArgumentError, match=reason):
            require_middle(a_job(transform, sink))


@pytest.mark.usefixtures("spark")
def test_jobs_whose_results_tell_their_time_and_reach_are_not_refused() -> None:
    for window in (Tumbling("10 seconds"), Session("10 seconds", longest="1 minute")):
        windowed = Windowed(window, aggs=AGGS)
        require_middle(a_job(windowed, TARGET))
        require_middle(a_job(windowed, Upsert("/nowhere/rows", keys=["window"])))
    require_middle(a_job(None, TARGET))
    anti = IntervalJoin("page", within=("0 seconds", "1 second"), how="anti")
    require_middle(a_job(anti, TARGET, inputs=2))


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ({"other": {0: 5}}, "other:0, of which 'refused' has read nothing"),
        ({"pages": {7: 5}}, "pages:7, of which 'refused' has read nothing"),
        ({"pages": {0: 101}}, "pages:0:101, and 'refused' has read 10 to 100"),
        ({"pages": {0: 9}}, "pages:0:9, and 'refused' has read 10 to 100"),
    ],
)
def test_offsets_that_the_job_has_not_read_are_refused(
    spark: SparkSession, start: Start, said: str
) -> None:
    job = a_job(None, TARGET)
    with pytest.raises(ArgumentError, match=said):
        offsets_of(job, spark, start, first={"pages": {0: 10}}, end={"pages": {0: 100, 1: 7}})


def test_a_partition_that_is_not_named_begins_where_the_job_began(spark: SparkSession) -> None:
    read = {"first": {"pages": {0: 10}}, "end": {"pages": {0: 100, 1: 7}}}
    found = offsets_of(a_job(None, TARGET), spark, {"pages": {0: 50}}, **read)
    assert found == {"pages": {0: 50, 1: 0}}


def test_a_sink_of_rows_by_an_event_time_of_their_own_is_refused(spark: SparkSession) -> None:
    by_seen = Windowed(Tumbling("10 seconds"), aggs={"n": F.count("*")}, time="seen")
    with pytest.raises(ArgumentError, match="a transform by seen"):
        require_middle(a_job(by_seen, TARGET))
