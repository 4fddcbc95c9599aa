"""The rivals' benchmark still runs: the library's ways and Kafka Streams over a small topic.

Of Flink, whose packages are large, the program is read alone. Wrong rows are told from right."""

from __future__ import annotations

import ast
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from benchmarks.contest import Place
from benchmarks.peers import topics
from benchmarks.peers.answers import QUERIES, checksum, difference, in_form, of_table
from benchmarks.peers.contestants import contestants
from benchmarks.peers.installing import HERE, install, javac
from benchmarks.peers.measuring import measured
from benchmarks.peers.spark_queries import WAYS
from benchmarks.peers.tables import WANTED
from tidegate.testing import Broker

ROWS = 2_000
STREAMED = [name for name in QUERIES if name not in contestants()["Kafka Streams"].without]
ALL = [(way, query) for way, queries in WAYS.items() for query in queries]


@pytest.fixture(scope="session")
def filled(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the table; the topics are beside it."""
    folder = tmp_path_factory.mktemp("peers")
    topics.fill(broker, ROWS, folder / "tables")
    return folder


def expected(broker: Broker, query: str) -> pd.DataFrame:
    return in_form(QUERIES[query], QUERIES[query].expected(broker.servers))


@pytest.mark.broker
@pytest.mark.pages
@pytest.mark.draws(
    "way, query",
    short=[("backlog", "session"), ("hand", "distinct"), ("stream", "sequence")],
    long=ALL,
)
def test_spark_gives_the_rows_expected(
    spark: SparkSession, broker: Broker, filled: Path, way: str, query: str
) -> None:
    place = Place(broker.servers, topics.CLICKS, filled / f"{way}-{query}")
    WAYS[way][query](spark, place)
    rows = in_form(QUERIES[query], of_table(QUERIES[query], place.folder / "table"))
    assert difference(rows, expected(broker, query), sketched=query == "distinct") is None


@pytest.mark.broker
@pytest.mark.pages
@pytest.mark.skipif(javac() is None, reason="there is a JRE alone, which compiles nothing")
@pytest.mark.draws("query", short=["session"], long=STREAMED)
def test_kafka_streams_gives_the_rows_expected(
    broker: Broker, filled: Path, tmp_path: Path, query: str
) -> None:
    install(flink=False)
    found = measured(
        broker,
        tmp_path,
        query,
        contestants()["Kafka Streams"],
        label=f"peer-{query}",
        expected=expected(broker, query),
        runs=1,
    )
    assert found["seconds"] > 0


def test_flink_has_every_query() -> None:
    program = ast.parse((HERE / "flink_sql.py").read_text(encoding="utf-8"))
    values = {
        target.id: node.value
        for node in program.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    queries = values["QUERIES"]
    assert isinstance(queries, ast.Dict)
    names = [key.value for key in queries.keys if isinstance(key, ast.Constant)]
    assert names == list(QUERIES)


def test_every_query_is_run_by_those_that_have_words_for_it() -> None:
    everyone = contestants()
    for name, way in (
        ("tidegate, stream", "stream"),
        ("tidegate, backlog", "backlog"),
        ("by hand", "hand"),
    ):
        assert set(WAYS[way]) | everyone[name].without == set(QUERIES)
        assert not set(WAYS[way]) & everyone[name].without


def test_each_query_and_way_has_a_wanted_ratio_beside_a_contestant() -> None:
    everyone = contestants()
    assert {query for query, _ in WANTED} == set(QUERIES)
    assert {way for _, way in WANTED} | {rival for rival, _ in WANTED.values()} <= set(everyone)


def test_rows_differ_by_a_value_and_not_by_their_order() -> None:
    rows = pd.DataFrame({"key": ["a", "b"], "views": [1, 2]})
    turned = rows.iloc[::-1]
    other = rows.assign(views=[2, 1])
    assert checksum(rows) == checksum(turned)
    assert difference(turned, rows, sketched=False) is None
    assert difference(other, rows, sketched=False) is not None
    assert difference(rows.iloc[:1], rows, sketched=False) is not None


def test_users_counted_by_a_sketch_may_differ_by_its_error_alone() -> None:
    rows = pd.DataFrame({"key": ["a", "b"], "start": [0, 0], "users": [1_000, 1_000]})
    assert difference(rows.assign(users=[1_010, 990]), rows, sketched=True) is None
    assert difference(rows.assign(users=[1_010, 990]), rows, sketched=False) is not None
    assert difference(rows.assign(users=[1_100, 900]), rows, sketched=True) is not None
