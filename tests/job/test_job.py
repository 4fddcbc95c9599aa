"""The validation of a job at construction, and the properties that follow from its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate import Input, Job, Limits
from tidegate.aggregates import count
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError, TidegateError
from tidegate.formats import json_format
from tidegate.joins import IntervalJoin
from tidegate.sinks import Append, CorrectedWindows, FanOut, MapRows, Upsert
from tidegate.sources import KafkaSource
from tidegate.transform import Stateful, Stateless
from tidegate.windows import Sliding, Tumbling, WindowAggregation


@pytest.fixture(scope="module")
def topic_input(spark: SparkSession) -> Callable[[str], Input]:
    """Return a function from a topic to an input; parsing the schema needs a session."""
    format = json_format("page STRING, event_time TIMESTAMP")

    def create(topic: str) -> Input:
        return Input(
            source=KafkaSource(bootstrap_servers="nowhere:9092", topics=[topic]),
            format=format,
            time="event_time",
            watermark_delay="10 seconds",
        )

    return create


def identity(rows: DataFrame) -> DataFrame:
    return rows


def union(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.unionByName(right)


VIEWS = WindowAggregation(Tumbling("1 minute"), by="page", aggs={"n": count()})
APPEND = Append(path="/tables/views")
CORRECTED = CorrectedWindows("/tables/views", aggregation=VIEWS, log=None)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": ""}, ArgumentError, "^invalid name: ''"),
        ({"name": "a/b"}, ArgumentError, "^invalid name: 'a/b'"),
        ({"name": None}, ArgumentError, "^invalid name: None"),
        ({"inputs": {}}, ArgumentError, r"^invalid names of inputs: \[\]"),
        ({"inputs": ["clicks"]}, ColumnTypeError, r"^invalid inputs: \['clicks'\]"),
        ({"inputs": {"clicks": "clicks"}}, ColumnTypeError, r"^invalid inputs\['clicks'\]: 'cl"),
        ({"sink": "/tables/views"}, ColumnTypeError, "^invalid sink: '/tables/views'"),
        ({"sink": Append}, ColumnTypeError, "^invalid sink: <class"),
        ({"transform": identity}, ColumnTypeError, "does not define which rows are late"),
        ({"transform": Stateless}, ColumnTypeError, "does not define which rows are late"),
        ({"transform": Stateless(union)}, ArgumentError, "missing a required argument: 'right'"),
        ({"each_batch": "rows"}, ColumnTypeError, "^invalid each_batch: 'rows'"),
        ({"each_batch": union}, ArgumentError, "^invalid each_batch: it takes"),
        ({"emit": "final "}, ArgumentError, "^invalid emit: 'final '"),
        ({"emit": "changes"}, ArgumentError, "^invalid sink: .* do not support Append"),
        ({"allowed_lateness": "1 hour"}, ArgumentError, "^invalid sink: .* not support Append"),
        ({"allowed_lateness": "an hour"}, ArgumentError, "allowed_lateness.*'an hour'"),
        ({"sink": CORRECTED}, ArgumentError, "^invalid transform: None"),
        ({"sink": CORRECTED, "transform": Stateless(identity)}, ArgumentError, "aggregates merge"),
        (
            {
                "sink": CORRECTED,
                "transform": WindowAggregation(Sliding("1 minute"), aggs={"n": count()}),
            },
            ArgumentError,
            "the same WindowAggregation in both",
        ),
        (
            {"sink": CORRECTED, "transform": replace(VIEWS, by="user")},
            ArgumentError,
            "the same WindowAggregation in both",
        ),
        (
            {"sink": CORRECTED, "transform": replace(VIEWS, aggs={"views": count()})},
            ArgumentError,
            "the same WindowAggregation in both",
        ),
        (
            {"sink": CORRECTED, "transform": VIEWS, "each_batch": identity},
            ArgumentError,
            "and each_batch",
        ),
        ({"every": 10}, ColumnTypeError, "every.*10"),
        ({"every": "10 parsecs"}, ArgumentError, "every.*'10 parsecs'"),
        ({"metrics_port": 70_000}, ArgumentError, "^invalid metrics_port: 70000"),
        ({"report": ""}, ArgumentError, "^invalid report: ''"),
        ({"limits": {"dead_rows": 1}}, ColumnTypeError, "^invalid limits: .*'dead_rows': 1"),
        ({"checkpoint": "/tables/views"}, ArgumentError, "checkpoint.*/tables/views"),
        ({"checkpoint": "/tables/views/own"}, ArgumentError, "VACUUM would delete it"),
        ({"checkpoint": "/tables/views/_delta_log"}, ArgumentError, "VACUUM would delete it"),
        ({"checkpoint": "/tables"}, ArgumentError, "checkpoint.*/tables"),
        ({"checkpoint": ""}, ArgumentError, "^invalid checkpoint: ''"),
        ({"checkpoint": Path("/c")}, ArgumentError, "^invalid checkpoint: .*Path"),
        ({"dead_letters": "/tables/views"}, ArgumentError, "dead_letters.*/tables/views"),
        (
            {"dead_letters": "/tables/x/../views/dead"},
            ArgumentError,
            "dead_letters.*/tables/views/dead",
        ),
        ({"late_rows": "file:/tables/views"}, ArgumentError, "late_rows.*/tables/views"),
        (
            {"late_rows": "/tables/one", "dead_letters": "/tables/one"},
            ArgumentError,
            "dead_letters.*late_rows|late_rows.*dead_letters",
        ),
        ({"late_rows": 3}, ArgumentError, "^invalid late_rows: 3"),
        ({"late_rows": {"searches": "/tables/late"}}, ArgumentError, r"unknown inputs \['search"),
    ],
)
def test_a_job_with_invalid_arguments_raises(
    topic_input: Callable[[str], Input],
    arguments: dict[str, Any],
    error: type[TidegateError],
    message: str,
) -> None:
    defaults = {"name": "views", "inputs": {"clicks": topic_input("clicks")}, "sink": APPEND}
    with pytest.raises(error, match=message):
        Job(**{**defaults, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"transform": Stateless(identity)}, "too many positional arguments"),
        (
            {"each_batch": identity},
            "got an unexpected keyword argument|missing a required argument",
        ),
        ({"late_rows": "/tables/late"}, "a path for each input"),
        (
            {"late_rows": {"clicks": "/tables/one", "searches": "/tables/one"}},
            r"late_rows\['clicks'\].*late_rows\['searches'\]",
        ),
        ({"transform": VIEWS}, "too many positional arguments"),
    ],
)
def test_several_inputs_need_a_frame_and_a_path_each(
    topic_input: Callable[[str], Input], arguments: dict[str, Any], message: str
) -> None:
    inputs = {name: topic_input(name) for name in ("clicks", "searches")}
    with pytest.raises(ArgumentError, match=message):
        Job(**{"name": "views", "inputs": inputs, "sink": APPEND, **arguments})


@pytest.mark.parametrize("name", ["page views", "1st", "a.b", ""])
def test_the_name_of_an_input_must_be_an_identifier(
    topic_input: Callable[[str], Input], name: str
) -> None:
    with pytest.raises(ArgumentError, match=r"^invalid names of inputs"):
        Job(name="views", inputs={name: topic_input("clicks")}, sink=APPEND)


def test_two_inputs_cannot_read_the_same_topic(topic_input: Callable[[str], Input]) -> None:
    inputs = {name: topic_input("clicks") for name in ("one", "other")}
    with pytest.raises(ArgumentError, match="each topic in one input only"):
        Job(name="twice", inputs=inputs, sink=APPEND)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"watermarks": 0}, ArgumentError, "watermarks.*0"),
        ({"watermarks": "each"}, ArgumentError, "watermarks.*'each'"),
        ({"idle_timeout": "1 millisecond"}, ArgumentError, "idle_timeout"),
        ({"idle_timeout": 10}, ColumnTypeError, "idle_timeout.*10"),
        ({"source": "clicks"}, ColumnTypeError, "source.*'clicks'"),
    ],
)
def test_an_input_with_invalid_arguments_raises(
    topic_input: Callable[[str], Input],
    arguments: dict[str, Any],
    error: type[TidegateError],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        replace(topic_input("clicks"), **arguments)


@pytest.mark.parametrize(
    "arguments",
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
def test_a_limit_out_of_range_raises(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=f"^invalid {next(iter(arguments))}: "):
        Limits(**arguments)


def test_an_idle_timeout_requires_a_trigger_interval(topic_input: Callable[[str], Input]) -> None:
    inputs = {"clicks": replace(topic_input("clicks"), idle_timeout="10 seconds")}
    with pytest.raises(ArgumentError, match=r"^invalid idle_timeout: '10 seconds'"):
        Job(name="views", inputs=inputs, sink=APPEND)
    Job(name="views", inputs=inputs, sink=APPEND, every=timedelta(seconds=10))


def test_default_paths_are_next_to_the_sinks_table(topic_input: Callable[[str], Input]) -> None:
    locations = Job(name="views", inputs={"clicks": topic_input("clicks")}, sink=APPEND).locations
    assert locations.checkpoint == "/tables/views.checkpoint"
    assert (locations.dead_letters.path, locations.dead_letters.output) == (
        "/tables/views.dead_letters",
        "dead_letters",
    )
    assert [(name, table.path, table.output) for name, table in locations.late_rows.items()] == [
        ("clicks", "/tables/views.late", "late")
    ]


def test_each_of_several_inputs_has_its_own_late_rows(topic_input: Callable[[str], Input]) -> None:
    job = Job(
        name="views",
        inputs={name: topic_input(name) for name in ("clicks", "searches")},
        transform=Stateful(union, late_from=lambda time: time),
        sink=APPEND,
        late_rows={"searches": "/elsewhere/late"},
    )
    assert [(table.path, table.output) for table in job.locations.late_rows.values()] == [
        ("/tables/views.late_clicks", "late_clicks"),
        ("/elsewhere/late", "late_searches"),
    ]


def test_two_outputs_of_a_sink_may_share_a_table(topic_input: Callable[[str], Input]) -> None:
    sink = FanOut(
        Append("/tables/all", output="one"), other_sinks=[Append("/tables/all", output="other")]
    )
    job = Job(name="views", inputs={"clicks": topic_input("clicks")}, sink=sink)
    assert job.sink.tables() == [("/tables/all", "other"), ("/tables/all", "one")]


def test_two_tables_of_a_sink_have_different_outputs(topic_input: Callable[[str], Input]) -> None:
    sink = FanOut(Append("/tables/all"), other_sinks=[Append("/tables/archive")])
    with pytest.raises(ArgumentError, match="several tables with the output 'append'"):
        Job(name="views", inputs={"clicks": topic_input("clicks")}, sink=sink)


@pytest.mark.parametrize(
    ("arguments", "is_one_to_one"),
    [
        ({}, True),
        ({"each_batch": identity}, True),
        ({"transform": Stateless(identity)}, False),
        ({"transform": Stateless(identity, one_to_one=True)}, True),
        ({"transform": Stateful(identity, late_from=lambda time: time)}, False),
        ({"transform": VIEWS, "sink": CORRECTED}, False),
        ({"transform": VIEWS, "sink": CORRECTED, "emit": "changes"}, True),
    ],
)
def test_stateless_queries_return_one_row_for_each_good_row(
    topic_input: Callable[[str], Input], arguments: dict[str, Any], is_one_to_one: bool
) -> None:
    defaults = {"name": "views", "inputs": {"clicks": topic_input("clicks")}, "sink": APPEND}
    assert Job(**{**defaults, **arguments}).one_to_one is is_one_to_one


def test_fields_that_no_table_can_store_raise_unless_the_job_can_rename_them(
    topic_input: Callable[[str], Input],
) -> None:
    format = json_format("page STRUCT<`no 1`: STRING>, event_time TIMESTAMP")
    inputs = {"clicks": replace(topic_input("clicks"), format=format)}
    for transform in (None, VIEWS):
        with pytest.raises(ColumnError, match=r"'clicks'.*'no 1'|'no 1'.*'clicks'"):
            Job(name="views", inputs=inputs, sink=APPEND, transform=transform)
    Job(name="views", inputs=inputs, sink=APPEND, each_batch=identity)
    Job(name="views", inputs=inputs, sink=APPEND, transform=Stateless(identity))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("emit", ["early", "final"])
def test_counts_of_an_early_join_are_not_added_up_over_batches(
    topic_input: Callable[[str], Input], how: Any, emit: Any
) -> None:
    join = IntervalJoin("page", within=("0 seconds", "1 hour"), how=how, emit=emit)
    totals = Upsert("/tables/totals", keys=["page"], aggs={"n": count()})
    rows = Append("/tables/rows", output="rows")
    by_sink: dict[str, dict[str, Any]] = {
        "each_batch": {"sink": totals, "each_batch": identity},
        "rows of a sink": {"sink": MapRows(sink=totals, rows=identity)},
        "one of several sinks": {
            "sink": FanOut(rows, other_sinks=[totals]),
            "each_batch": identity,
        },
    }
    wrapped = Stateful(lambda left, right: join(left, right), late_from=join.late_at)
    is_refused = emit == "early" and how not in ("semi", "anti")
    for transform in (join, wrapped):
        for options in by_sink.values():
            arguments: dict[str, Any] = {
                "name": "clicked",
                "inputs": {"searches": topic_input("searches"), "clicks": topic_input("clicks")},
                "transform": transform,
                **options,
            }
            if is_refused:
                with pytest.raises(ArgumentError, match="invalid emit of the join: 'early'"):
                    Job(**arguments)
            else:
                Job(**arguments)
        rows_only = {"each_batch": identity, "sink": rows}
        Job(**{**arguments, **rows_only})
