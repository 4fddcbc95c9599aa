"""The peer benchmark: the library and its peers run over a small topic, and rows are compared.

The tests only read the Flink program, because the packages of Flink are large."""

from __future__ import annotations

import ast
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from benchmarks.peers import topics
from benchmarks.peers.answers import QUERIES, checksum, difference, normalized, read_delta_rows
from benchmarks.peers.contestants import AUTO_CDC, contestants
from benchmarks.peers.installing import HERE, install, javac
from benchmarks.peers.measuring import measure
from benchmarks.peers.spark_queries import WAYS
from benchmarks.peers.tables import TARGET_RATIOS
from benchmarks.support.contestant_process import RunContext
from tidegate.testing import Broker

ROWS = 2_000
PROCESSES = [
    (name, query)
    for name, contestant in contestants().items()
    if name in ("Kafka Streams", AUTO_CDC)
    for query in QUERIES
    if query not in contestant.without
]
ALL = [(way, query) for way, queries in WAYS.items() for query in queries]


@pytest.fixture(scope="session")
def filled(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fill the topics, and return the folder of the table."""
    folder = tmp_path_factory.mktemp("peers")
    topics.fill(broker, ROWS, folder / "tables")
    topics.fill_changes(broker, ROWS)
    return folder


def expected(broker: Broker, query: str) -> pd.DataFrame:
    return normalized(QUERIES[query], QUERIES[query].expected(broker.bootstrap_servers))


@pytest.mark.broker
@pytest.mark.pages
@pytest.mark.draws(
    "way, query",
    short=[
        ("backfill", "session"),
        ("pyspark", "changelog"),
        ("pyspark", "distinct"),
        ("stream", "changelog"),
        ("stream", "sequence"),
    ],
    long=ALL,
)
def test_spark_returns_the_expected_rows(
    spark: SparkSession, broker: Broker, filled: Path, way: str, query: str
) -> None:
    context = RunContext(broker.bootstrap_servers, topics.CLICKS, filled / f"{way}-{query}")
    WAYS[way][query](spark, context)
    rows = normalized(QUERIES[query], read_delta_rows(QUERIES[query], context.folder / "table"))
    assert difference(rows, expected(broker, query), sketched=query == "distinct") is None


@pytest.mark.broker
@pytest.mark.pages
@pytest.mark.skipif(javac() is None, reason="a JRE has no compiler")
@pytest.mark.draws("name, query", short=[("Kafka Streams", "session")], long=PROCESSES)
def test_a_peer_returns_the_expected_rows(
    broker: Broker, filled: Path, tmp_path: Path, name: str, query: str
) -> None:
    install(flink=False, auto_cdc=name == AUTO_CDC)
    results = measure(
        broker,
        tmp_path,
        query,
        contestants()[name],
        label=f"peer-{query}",
        expected=expected(broker, query),
        runs=1,
    )
    assert results["seconds"] > 0


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


def test_every_contestant_runs_the_queries_that_it_supports() -> None:
    everyone = contestants()
    for name, way in (
        ("tidegate, stream", "stream"),
        ("tidegate, backfill", "backfill"),
        ("plain PySpark", "pyspark"),
    ):
        assert set(WAYS[way]) | everyone[name].without == set(QUERIES)
        assert not set(WAYS[way]) & everyone[name].without


def test_each_query_and_way_has_a_target_ratio_to_a_contestant() -> None:
    everyone = contestants()
    assert {query for query, _ in TARGET_RATIOS} == set(QUERIES)
    assert {way for _, way in TARGET_RATIOS} | {
        baseline for baseline, _ in TARGET_RATIOS.values()
    } <= set(everyone)


def test_rows_differ_by_values_not_by_order() -> None:
    rows = pd.DataFrame({"key": ["a", "b"], "views": [1, 2]})
    turned = rows.iloc[::-1]
    other = rows.assign(views=[2, 1])
    assert checksum(rows) == checksum(turned)
    assert difference(turned, rows, sketched=False) is None
    assert difference(other, rows, sketched=False) is not None
    assert difference(rows.iloc[:1], rows, sketched=False) is not None


def test_users_of_a_sketch_may_differ_by_its_error() -> None:
    rows = pd.DataFrame({"key": ["a", "b"], "start": [0, 0], "users": [1_000, 1_000]})
    assert difference(rows.assign(users=[1_010, 990]), rows, sketched=True) is None
    assert difference(rows.assign(users=[1_010, 990]), rows, sketched=False) is not None
    assert difference(rows.assign(users=[1_100, 900]), rows, sketched=True) is not None
