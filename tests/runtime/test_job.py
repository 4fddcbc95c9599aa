"""What a job refuses when it is constructed, and what follows from what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.aggregates import count
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError, TidegateError
from tidegate.formats import json_format
from tidegate.runtime.job import Input, Job
from tidegate.runtime.limits import Limits
from tidegate.sinks import Append, Corrected, FanOut
from tidegate.sources import KafkaSource, Reading
from tidegate.transform import Stateful, Stateless
from tidegate.windows import Sliding, Tumbling, Windowed


@pytest.fixture(scope="module")
def reading(spark: SparkSession) -> Callable[[str], Reading]:
    """Return readings by topic; a schema's text needs a session."""
    format = json_format("page STRING, event_time TIMESTAMP")

    def made(topic: str) -> Reading:
        return Reading(
            source=KafkaSource(servers="nowhere:9092", topics=[topic]),
            format=format,
            time="event_time",
            lateness="10 seconds",
        )

    return made


def same(rows: DataFrame) -> DataFrame:
    return rows


def both(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.unionByName(right)


VIEWS = Windowed(Tumbling("1 minute"), by="page", aggs={"n": count()})
APPEND = Append(path="/tables/views")
CORRECTED = Corrected("/tables/views", windowed=VIEWS, log=None)


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"name": ""}, ArgumentError, "name is ''"),
        ({"name": "a/b"}, ArgumentError, "name is 'a/b'"),
        ({"name": None}, ArgumentError, "name is None"),
        ({"inputs": {}}, ArgumentError, r"inputs are named \[\]"),
        ({"inputs": ["clicks"]}, ColumnTypeError, "inputs is a list"),
        ({"inputs": {"clicks": "clicks"}}, ColumnTypeError, r"inputs\['clicks'\] is 'clicks'"),
        ({"sink": "/tables/views"}, ColumnTypeError, "sink is '/tables/views'"),
        ({"sink": Append}, ColumnTypeError, "sink is <class"),
        ({"transform": same}, ColumnTypeError, "does not say which rows are late"),
        ({"transform": Stateless}, ColumnTypeError, "does not say which rows are late"),
        ({"transform": Stateless(both)}, ArgumentError, "missing a required argument: 'right'"),
        ({"each_batch": "rows"}, ColumnTypeError, "each_batch is 'rows'"),
        ({"each_batch": both}, ArgumentError, "each_batch takes"),
        ({"emission": "final "}, ArgumentError, "emission is 'final '"),
        ({"emission": "updates"}, ArgumentError, "the sink is Append"),
        ({"corrections": "1 hour"}, ArgumentError, "the sink is Append"),
        ({"corrections": "an hour"}, ArgumentError, "corrections is 'an hour'"),
        ({"sink": CORRECTED}, ArgumentError, "transform is None"),
        ({"sink": CORRECTED, "transform": Stateless(same)}, ArgumentError, "aggregates merge"),
        (
            {"sink": CORRECTED, "transform": Windowed(Sliding("1 minute"), aggs={"n": count()})},
            ArgumentError,
            "one value for both",
        ),
        (
            {"sink": CORRECTED, "transform": replace(VIEWS, by="user")},
            ArgumentError,
            "one value for both",
        ),
        (
            {"sink": CORRECTED, "transform": replace(VIEWS, aggs={"views": count()})},
            ArgumentError,
            "one value for both",
        ),
        (
            {"sink": CORRECTED, "transform": VIEWS, "each_batch": same},
            ArgumentError,
            "and each_batch",
        ),
        ({"every": 10}, ColumnTypeError, "every is 10, a int"),
        ({"every": "10 parsecs"}, ArgumentError, "every is '10 parsecs'"),
        ({"metrics_port": 70_000}, ArgumentError, "metrics_port is 70000"),
        ({"report": ""}, ArgumentError, "report is ''"),
        ({"limits": {"dead_rows": 1}}, ColumnTypeError, "limits is"),
        ({"checkpoint": "/tables/views"}, ArgumentError, "the checkpoint is /tables/views"),
        ({"checkpoint": "/tables/views/own"}, ArgumentError, "VACUUM would delete it"),
        ({"checkpoint": "/tables/views/_delta_log"}, ArgumentError, "VACUUM would delete it"),
        ({"checkpoint": "/tables"}, ArgumentError, "a folder of the checkpoint's own"),
        ({"checkpoint": ""}, ArgumentError, "checkpoint is ''"),
        ({"checkpoint": Path("/c")}, ArgumentError, "checkpoint is .*Path"),
        ({"dead": "/tables/views"}, ArgumentError, "dead is /tables/views"),
        ({"dead": "/tables/x/../views/dead"}, ArgumentError, "dead is /tables/views/dead"),
        ({"late": "file:/tables/views"}, ArgumentError, "late is /tables/views"),
        ({"late": "/tables/one", "dead": "/tables/one"}, ArgumentError, "hold one another"),
        ({"late": 3}, ArgumentError, "late is 3"),
        ({"late": {"searches": "/tables/late"}}, ArgumentError, r"late names \['searches'\]"),
    ],
)
def test_a_job_whose_parts_do_not_fit_is_refused(
    reading: Callable[[str], Reading],
    given: dict[str, Any],
    error: type[TidegateError],
    told: str,
) -> None:
    parts = {"name": "views", "inputs": {"clicks": Input(reading("clicks"))}, "sink": APPEND}
    with pytest.raises(error, match=told):
        Job(**{**parts, **given})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"transform": Stateless(same)}, "too many positional arguments"),
        ({"each_batch": same}, "got an unexpected keyword argument|missing a required argument"),
        ({"late": "/tables/late"}, "a path for each input"),
        ({"late": {"clicks": "/tables/one", "searches": "/tables/one"}}, "hold one another"),
        ({"transform": VIEWS}, "too many positional arguments"),
    ],
)
def test_several_inputs_ask_for_a_frame_and_a_place_each(
    reading: Callable[[str], Reading], given: dict[str, Any], told: str
) -> None:
    inputs = {name: Input(reading(name)) for name in ("clicks", "searches")}
    with pytest.raises(ArgumentError, match=told):
        Job(**{"name": "views", "inputs": inputs, "sink": APPEND, **given})


@pytest.mark.parametrize("name", ["page views", "1st", "a.b", ""])
def test_an_input_has_a_name_that_can_be_a_keyword(
    reading: Callable[[str], Reading], name: str
) -> None:
    with pytest.raises(ArgumentError, match="inputs are named"):
        Job(name="views", inputs={name: Input(reading("clicks"))}, sink=APPEND)


def test_two_inputs_of_one_topic_are_refused(reading: Callable[[str], Reading]) -> None:
    inputs = {name: Input(reading("clicks")) for name in ("one", "other")}
    with pytest.raises(ArgumentError, match="topics of their own"):
        Job(name="twice", inputs=inputs, sink=APPEND)


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"watermarks": 0}, ArgumentError, "watermarks is 0"),
        ({"watermarks": "each"}, ArgumentError, "watermarks is 'each'"),
        ({"idle": "1 millisecond"}, ArgumentError, "idle is"),
        ({"idle": 10}, ColumnTypeError, "idle is 10"),
        ({"reading": "clicks"}, ColumnTypeError, "reading is 'clicks'"),
    ],
)
def test_an_input_out_of_range_is_refused(
    reading: Callable[[str], Reading],
    given: dict[str, Any],
    error: type[TidegateError],
    told: str,
) -> None:
    with pytest.raises(error, match=told):
        Input(**{"reading": reading("clicks"), **given})


@pytest.mark.parametrize(
    "given",
    [
        {"dead_ratio": 7},
        {"dead_ratio": -0.1},
        {"late_ratio": "0.1"},
        {"late_ratio": True},
        {"dead_rows": -1},
        {"late_rows": 1.5},
        {"min_rows": None},
    ],
)
def test_a_limit_out_of_range_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(given))):
        Limits(**given)


def test_an_idle_time_out_needs_a_job_that_runs_on(reading: Callable[[str], Reading]) -> None:
    inputs = {"clicks": Input(reading("clicks"), idle="10 seconds")}
    with pytest.raises(ArgumentError, match="idle time-out"):
        Job(name="views", inputs=inputs, sink=APPEND)
    Job(name="views", inputs=inputs, sink=APPEND, every=timedelta(seconds=10))


def test_what_is_not_given_lies_beside_the_sinks_table(reading: Callable[[str], Reading]) -> None:
    one = Job(name="views", inputs={"clicks": Input(reading("clicks"))}, sink=APPEND)
    assert one.places.checkpoint == "/tables/views.checkpoint"
    assert (one.places.dead.path, one.places.dead.step) == ("/tables/views.dead_letters", "dead")
    assert [(name, table.path, table.step) for name, table in one.places.late.items()] == [
        ("clicks", "/tables/views.late", "late")
    ]


def test_each_of_several_inputs_has_late_rows_of_its_own(
    reading: Callable[[str], Reading],
) -> None:
    job = Job(
        name="views",
        inputs={name: Input(reading(name)) for name in ("clicks", "searches")},
        transform=Stateful(both, late=lambda time: time),
        sink=APPEND,
        late={"searches": "/elsewhere/late"},
    )
    assert [(table.path, table.step) for table in job.places.late.values()] == [
        ("/tables/views.late_clicks", "late_clicks"),
        ("/elsewhere/late", "late_searches"),
    ]


def test_two_branches_of_a_sink_may_share_a_table(reading: Callable[[str], Reading]) -> None:
    sink = FanOut(Append("/tables/all", step="one"), also=[Append("/tables/all", step="other")])
    Job(name="views", inputs={"clicks": Input(reading("clicks"))}, sink=sink)


@pytest.mark.parametrize(
    ("given", "checked"),
    [
        ({}, True),
        ({"each_batch": same}, True),
        ({"transform": Stateless(same)}, False),
        ({"transform": Stateless(same, one_to_one=True)}, True),
        ({"transform": Stateful(same, late=lambda time: time)}, False),
        ({"transform": VIEWS, "sink": CORRECTED}, False),
        ({"transform": VIEWS, "sink": CORRECTED, "emission": "updates"}, True),
    ],
)
def test_one_row_out_for_each_good_row_is_asked_of_what_keeps_no_state(
    reading: Callable[[str], Reading], given: dict[str, Any], checked: bool
) -> None:
    parts = {"name": "views", "inputs": {"clicks": Input(reading("clicks"))}, "sink": APPEND}
    assert Job(**{**parts, **given}).one_to_one is checked


def test_fields_that_no_table_can_hold_are_refused_unless_the_job_can_rename_them(
    reading: Callable[[str], Reading],
) -> None:
    odd = json_format("page STRUCT<`no 1`: STRING>, event_time TIMESTAMP")
    inputs = {"clicks": Input(replace(reading("clicks"), format=odd))}
    for transform in (None, VIEWS):
        with pytest.raises(ColumnError, match="the input 'clicks' has the name 'no 1'"):
            Job(name="views", inputs=inputs, sink=APPEND, transform=transform)
    Job(name="views", inputs=inputs, sink=APPEND, each_batch=same)
    Job(name="views", inputs=inputs, sink=APPEND, transform=Stateless(same))
