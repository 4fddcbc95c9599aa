"""What a query is, as text: the same from start to start, another where the query is another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count, last, mean, total
from tidegate.runtime.query.plan import bound, changes, described, told
from tidegate.sinks import Append, FanOut, Mapped, Publish
from tidegate.sketches import distinct, quantile
from tidegate.transform import Stateful, Stateless
from tidegate.windows import Hopping, Tumbling, Windowed


@dataclass(frozen=True)
class Before:
    size: str
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class After:
    size: str
    names: list[str] = field(default_factory=list)
    added: int = 0


def above(least: int) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: rows.where(F.col("ms") > least)


def late(time: Column) -> Column:
    return time


def test_a_field_that_is_new_with_its_default_changes_nothing() -> None:
    assert described(Before("x")) == described(After("x")).replace("After", "Before")
    assert described(After("x", added=1)) == "After(size='x', added=1)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: count(), lambda: count("page")),
        (lambda: count("page"), lambda: total("page")),
        (lambda: mean("ms"), lambda: last("ms")),
        (lambda: quantile("ms", 0.5), lambda: quantile("ms", 0.9)),
        (lambda: quantile("ms", 0.5), lambda: quantile("ms", 0.5, k=400)),
        (lambda: distinct("user"), lambda: distinct("user", precision=14)),
        (lambda: total(F.col("ms") + 1), lambda: total(F.col("ms") + 2)),
        (lambda: Tumbling("10 s"), lambda: Hopping("10 s", "5 s")),
        (lambda: Stateless(above(3)), lambda: Stateless(above(4))),
        (lambda: Stateless(above(3)), lambda: Stateful(above(3), late=late)),
        (lambda: lambda rows: rows, lambda: lambda rows: rows.distinct()),
        (lambda: lambda ms: ms in {"a", "b"}, lambda: lambda ms: ms in {"a", "c"}),
        (lambda: lambda: [x + "b" for x in "a"], lambda: lambda: [x + "c" for x in "a"]),
        (lambda: lambda ms, least=3: ms, lambda: lambda ms, least=4: ms),
        (lambda: partial(above, 3), lambda: partial(above, 4)),
        (lambda: {"a": 1, "b": 2}, lambda: {"a": 1, "b": 3}),
    ],
)
def test_what_differs_is_told_differently_and_what_is_made_again_the_same(
    one: Callable[[], object], other: Callable[[], object], spark: SparkSession
) -> None:
    assert described(one()) == described(one())
    assert described(one()) != described(other())


def test_lengths_are_one_whatever_their_words_and_variables_of_lambdas_have_no_numbers(
    spark: SparkSession,
) -> None:
    assert described("1 minute") == described(timedelta(seconds=60)) == described("60s")
    summed = [described(F.transform("xs", lambda x: x + 1)) for _ in range(2)]
    assert summed[0] == summed[1]


def test_the_code_of_a_lambda_is_compared_within_one_version_of_python_and_named() -> None:
    one, other = described(lambda rows: rows.first()), described(lambda rows: rows.last())
    assert changes({"transform": one}, {"transform": other}) == ["transform"]
    assert "the code of a lambda is another" in told("transform", one, other)
    assert "lambda" not in told("transform", one, "None").partition(" and is ")[2]
    of_before, elsewhere = one.partition(", code ")[0], one.replace(", code 3.", ", code 2.")
    for unlike in (of_before, elsewhere):
        assert changes({"transform": unlike}, {"transform": other}) == []


def test_a_tables_path_is_no_part_of_what_a_sink_is() -> None:
    def told(root: str) -> str:
        sink = FanOut(
            Append(f"{root}/all"), also=[Mapped(rows=above(1), sink=Append(f"{root}/b", step="b"))]
        )
        return described(sink, {path: f"<{step}>" for path, step in sink.tables()})

    assert told("/one") == told("/two")
    assert "<append>" in told("/one")


def test_a_password_of_a_sink_is_no_part_of_what_it_is() -> None:
    options = {"kafka.sasl.jaas.config": "secret"}
    sink = Publish("/data/sent", servers="a:1", topic="t", key="page", options=options)
    assert "secret" not in described(sink)
    assert "topic='t'" in described(sink)


def test_a_checkpoint_is_bound_to_what_its_state_is_made_of() -> None:
    windows = described(Windowed(Tumbling("1 minute"), aggs={"n": count()}))
    mapped = described(Stateless(above(3)))
    assert bound("transform", windows, described(None))
    assert bound("transform", mapped, windows)
    assert not bound("transform", mapped, described(None))
    assert bound("emission", "final", "updates")
    assert not bound("clicks.reading", "a", "b")
    assert changes({"a": "1", "b": "2"}, {"b": "3", "c": "4"}) == ["b", "c", "a"]
