"""The fingerprint of a job: stable between starts, and different for a different query."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import Input, Job, KafkaSource, json_format
from tidegate import aggregates as agg
from tidegate.errors import CheckpointError, ColumnTypeError
from tidegate.job.fingerprint import (
    FingerprintDiff,
    changed_text,
    describe_value,
    job_fingerprint,
)
from tidegate.sinks import Append, FanOut, KafkaSink, MapRows
from tidegate.sketches import approx_count_distinct, approx_quantile
from tidegate.transform import Stateful, Stateless, plan_name
from tidegate.windows import Hopping, Tumbling, WindowAggregation

pytestmark = pytest.mark.usefixtures("spark")

VIEWS = WindowAggregation(Tumbling("1 minute"), aggs={"n": agg.count()})


@dataclass(frozen=True)
class Before:
    size: str
    names: list[str] = field(default_factory=list)
    plan_name: ClassVar[str] = "sized"


@dataclass(frozen=True)
class After:
    longest: str
    names: list[str] = field(default_factory=list)
    added: int = 0
    plan_name: ClassVar[str] = "sized"
    plan_keys: ClassVar[Mapping[str, str]] = {"longest": "size"}


class Unpinned(Append):
    """A sink of a user, which does not declare a plan name."""


def rows_above(least: int) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: rows.where(F.col("ms") > least)


def rows_over(minimum: int) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: rows.where(F.col("ms") > minimum)


def late_from(time: Column) -> Column:
    return time


@plan_name("first_rows", keys={"number": "n"})
def limit(rows: DataFrame, number: int) -> DataFrame:
    return rows.limit(number)


def page_job(**options: Any) -> Job:
    clicks = Input(
        KafkaSource("a:1", "clicks"),
        json_format("page STRING, event_time TIMESTAMP"),
        time="event_time",
        watermark_delay="10 seconds",
        watermarks=options.pop("watermarks", "global"),
    )
    return Job(name="pages", inputs={"clicks": clicks}, sink=Append("/t"), **options)


def diff(recorded: Job, current: Job) -> FingerprintDiff:
    return FingerprintDiff(job_fingerprint(recorded), job_fingerprint(current))


def test_a_new_field_with_its_default_and_a_renamed_one_with_its_key_do_not_change_the_text() -> (
    None
):
    assert describe_value(Before("x")) == describe_value(After("x")) == "sized(size='x')"
    assert describe_value(After("x", added=1)) == "sized(added=1, size='x')"


def test_a_function_with_a_plan_name_can_be_renamed_and_its_parameters_too() -> None:
    assert describe_value(partial(limit, number=3)) == "first_rows(n=3)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: agg.count(), lambda: agg.count("page")),
        (lambda: agg.count("page"), lambda: agg.sum("page")),
        (lambda: agg.avg("ms"), lambda: agg.last("ms")),
        (lambda: agg.sum("ms"), lambda: agg.partials({"n": agg.sum("ms")})["n"]),
        (lambda: approx_quantile("ms", 0.5), lambda: approx_quantile("ms", 0.9)),
        (lambda: approx_quantile("ms", 0.5), lambda: approx_quantile("ms", 0.5, k=400)),
        (
            lambda: approx_count_distinct("user"),
            lambda: approx_count_distinct("user", precision=14),
        ),
        (lambda: agg.sum(F.col("ms") + 1), lambda: agg.sum(F.col("ms") + 2)),
        (
            lambda: agg.reduce_with(agg.Reduction(late_from, "max")),
            lambda: agg.reduce_with(agg.Reduction(late_from, "min")),
        ),
        (lambda: Tumbling("10 s"), lambda: Hopping("10 s", "5 s")),
        (lambda: Stateless(rows_above(3)), lambda: Stateless(rows_above(4))),
        (lambda: Stateless(rows_above(3)), lambda: Stateful(rows_above(3), late_from=late_from)),
        (lambda: Append("/t"), lambda: Unpinned("/t")),
        (lambda: lambda ms, least=3: ms, lambda: lambda ms, least=4: ms),
        (lambda: partial(rows_above, 3), lambda: partial(rows_above, 4)),
        (lambda: partial(rows_above, least=3), lambda: partial(rows_above, least=4)),
        (lambda: {"a": 1, "b": 2}, lambda: {"a": 1, "b": 3}),
        (lambda: Decimal("1.5"), lambda: Decimal("2.5")),
        (lambda: date(2026, 1, 1), lambda: date(2026, 1, 2)),
    ],
)
def test_different_values_have_different_texts_and_equal_values_the_same(
    one: Callable[[], object], other: Callable[[], object], spark: SparkSession
) -> None:
    assert describe_value(one()) == describe_value(one())
    assert describe_value(one()) != describe_value(other())


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("p(a={x}, y=b(z='(, 2'))", "p(a={x}, y=b(z='(, 3'))", ("y=b(z='(, 2')", "y=b(z='(, 3')")),
        ("p(a={x})", "p(a={x}, y=[2])", ("nothing", "y=[2]")),
        ("p(a={x}, b=1, c=2)", "p(a={x}, b=3, c=4)", ("b=1, c=2", "b=3, c=4")),
        ("p(q(r=1, a={x}), a={x})", "p(q(r=2, a={x}), a={x})", ("r=1", "r=2")),
        ("p(q(a={x}), c)", "p(r(a={x}), c)", ("q(a={x})", "r(a={x})")),
        ("p(a={x}, b)", "p(b, a={x})", ("p(a={x}, b)", "p(b, a={x})")),
        ("p(a={x}, b=1)", "None", ("p(a={x}, b=1)", "None")),
        ("final", "changes", ("final", "changes")),
    ],
)
def test_of_long_texts_only_the_changed_arguments_are_shown(
    old: str, new: str, changed: tuple[str, str]
) -> None:
    long_value = "'a long value, which occurs in both texts, and has (brackets'"
    assert changed_text(old.replace("{x}", long_value), new.replace("{x}", long_value)) == tuple(
        each.replace("{x}", long_value) for each in changed
    )


def test_equal_durations_have_one_text_and_lambda_variables_have_no_numbers(
    spark: SparkSession,
) -> None:
    assert (
        describe_value("1 minute") == describe_value(timedelta(seconds=60)) == describe_value("60s")
    )
    summed = [describe_value(F.transform("xs", lambda x: x + 1)) for _ in range(2)]
    assert summed[0] == summed[1]


def test_a_user_function_has_its_module_and_name_and_the_values_that_it_binds() -> None:
    assert describe_value(late_from) == "test_fingerprint.late_from"
    assert describe_value(rows_above(3)) == "test_fingerprint.rows_above.<lambda>(3)"
    assert describe_value(rows_above) == describe_value(rows_above)
    over = describe_value(rows_over(3)).replace("rows_over", "rows_above")
    assert over == describe_value(rows_above(3)), "the name of a variable does not count"
    assert describe_value(Unpinned("/t")) == "test_fingerprint.Unpinned(path='/t')"


def test_the_order_of_bound_values_does_not_depend_on_the_names_of_variables() -> None:
    def first(a: int, b: str) -> Callable[[], object]:
        return lambda: (a, b)

    def second(b: int, a: str) -> Callable[[], object]:
        return lambda: (a, b)

    texts = [describe_value(make(7, "x")).partition("<lambda>")[2] for make in (first, second)]
    assert texts == ["('x', 7)", "('x', 7)"]


def test_the_code_of_a_function_does_not_count_but_the_revision_does() -> None:
    def texts(function: Callable[[DataFrame], DataFrame], revision: int | None) -> dict[str, str]:
        return job_fingerprint(page_job(transform=Stateless(function), revision=revision))

    functions = [lambda rows: rows.where("ms > 1"), lambda rows: rows.where("ms > 2")]
    assert texts(functions[0], None) == texts(functions[1], None)
    changes = FingerprintDiff(texts(functions[0], None), texts(functions[1], 2))
    assert changes.descriptions == ["revision changed from None to 2"]


@pytest.mark.parametrize("revision", [1.5, True, ["a"], "", " "])
def test_a_revision_is_a_text_or_a_number(revision: object) -> None:
    with pytest.raises(ColumnTypeError, match="invalid revision"):
        page_job(revision=revision)


def test_a_revision_needs_a_new_checkpoint_only_with_a_stateful_transform() -> None:
    stateful = diff(page_job(transform=VIEWS), page_job(transform=VIEWS, revision="b"))
    with pytest.raises(CheckpointError, match="revision changed from None to b"):
        stateful.require_allowed(1, list)
    mapped = Stateless(rows_above(3))
    stateless = diff(page_job(transform=mapped), page_job(transform=mapped, revision="b"))
    assert stateless.require_allowed(1, list) == (
        "safe changes: revision changed from None to b: applies from the next batch; existing rows "
        "do not change"
    )


def test_the_text_of_a_sink_does_not_contain_its_paths() -> None:
    def text(root: str) -> str:
        sink = FanOut(
            Append(f"{root}/all"),
            other_sinks=[MapRows(rows=rows_above(1), sink=Append(f"{root}/b", output="b"))],
        )
        return describe_value(sink, {path: f"<{output}>" for path, output in sink.tables()})

    assert text("/one") == text("/two")
    assert "<append>" in text("/one")


def test_the_text_of_a_sink_does_not_contain_its_password() -> None:
    options = {"kafka.sasl.jaas.config": "secret"}
    sink = KafkaSink("/data/sent", bootstrap_servers="a:1", topic="t", key="page", options=options)
    assert "secret" not in describe_value(sink)
    assert "topic='t'" in describe_value(sink)


def test_the_parts_of_a_job_have_the_names_of_its_arguments() -> None:
    job = page_job(transform=VIEWS, watermarks="log")
    assert list(job_fingerprint(job)) == [
        "inputs",
        "clicks.topics",
        "clicks.format",
        "clicks.input",
        "clicks.watermark",
        "transform",
        "each_batch",
        "emit",
        "allowed_lateness",
        "sink",
        "revision",
    ]


def test_a_checkpoint_is_bound_to_the_parts_that_its_state_depends_on() -> None:
    mapped = Stateless(rows_above(3))
    windows, stateless, without = (page_job(transform=each) for each in (VIEWS, mapped, None))
    assert diff(windows, without).is_checkpoint_bound("transform")
    assert diff(stateless, windows).is_checkpoint_bound("transform")
    assert not diff(stateless, without).is_checkpoint_bound("transform")
    assert diff(stateless, without).is_checkpoint_bound("emit")
    assert diff(stateless, without).is_checkpoint_bound("clicks.watermark")
    assert not diff(windows, windows).is_checkpoint_bound("clicks.input")
    assert FingerprintDiff({"a": "1", "b": "2"}, {"b": "3", "c": "4"}).changed_parts == [
        "b",
        "c",
        "a",
    ]


SCRIPT = """
from functools import partial
from tidegate import sinks, aggregates as agg, windows
from tidegate.job.fingerprint import describe_value
from tidegate.transform import Stateless
from pyspark.sql import SparkSession, functions as F
{session}
def keep(names, rows):
    return rows
names = {{"a", "b", "c", "d"}}
aggs = {{"n": agg.sum(F.col("ms") + 1), "x": agg.max(F.when(F.col("ms") > 1, 2))}}
print(describe_value(windows.WindowAggregation(windows.Tumbling("1 minute"), aggs=aggs)))
print(describe_value(Stateless(partial(keep, names))))
print(describe_value(Stateless(lambda rows: keep(names, rows))))
"""
CLASSIC = 'spark = SparkSession.builder.master("local[1]").getOrCreate()'
CONNECT = 'spark = SparkSession.builder.remote("local[1]").getOrCreate()'


@pytest.mark.jobs
@pytest.mark.slow
def test_two_processes_have_the_same_texts_and_so_has_spark_connect() -> None:
    # Spark Connect spells text literals and higher-order functions of columns in another way.
    def texts(seed: str, session: str) -> list[str]:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        environment.pop("SPARK_CONNECT_MODE_ENABLED", None)
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(session=session)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        return run.stdout.splitlines()

    classic = texts("1", CLASSIC)
    assert texts("2", CLASSIC) == classic
    assert texts("3", CONNECT) == classic
