"""Each row has one fate, whatever the schema, the conditions and the table: it is filtered, fails a
check, is rejected by the sink, or is stored with its values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.extreme_values import EXTREMES, literals
from tests.support.hypothesis_profiles import few
from tests.support.readers import assert_readers_agree
from tests.support.row_conditions import conditions, outcome
from tests.support.sink_batches import batch
from tidegate.errors import TidegateError
from tidegate.sinks import Append, Sink, TableLayout, Upsert
from tidegate.sources.row_checks import FAILED_CHECK, RowChecks, Rule

pytestmark = pytest.mark.jobs

COLUMNS = ("a", "b", "c")
OPERANDS = (*COLUMNS, "cast(a AS INT)", "length(cast(b AS STRING))", "1", "0", "null", "'x'")
UNSTORABLE = ("", "__HIVE_DEFAULT_PARTITION__", "x" * 300)
"""Texts that a partition column cannot have."""
PARTITION_TYPES = {"STRING", "INT", "BIGINT", "BOOLEAN", "DATE", "DECIMAL(9,2)"}


@dataclass(frozen=True)
class World:
    """A schema, rows as SQL expressions, the conditions of an input, and a table.

    required: the NOT NULL columns. check: the condition of a CHECK constraint. A table with either
    exists before the sink.
    """

    types: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    where: str
    rule: str
    partition: str | None
    required: frozenset[str] = frozenset()
    check: str | None = None
    is_upsert: bool = False

    def frame(self, spark: SparkSession) -> DataFrame:
        values = ", ".join(f"({n}, {', '.join(row)})" for n, row in enumerate(self.rows))
        return spark.sql(f"SELECT * FROM VALUES {values} AS t(number, {', '.join(COLUMNS)})")

    def sink(self, path: str) -> Sink:
        layout = TableLayout(partition_by=[] if self.partition is None else [self.partition])
        return (
            Upsert(path, keys=["number"], layout=layout)
            if self.is_upsert
            else Append(path, layout=layout)
        )

    def create(self, spark: SparkSession, path: str) -> None:
        """Create a table with constraints. Delta refuses some conditions, which are left out."""
        fields = ["number INT"]
        for name, data_type in zip(COLUMNS, self.types, strict=True):
            fields.append(f"{name} {data_type}{' NOT NULL' * (name in self.required)}")
        by = "" if self.partition is None else f"PARTITIONED BY ({self.partition})"
        spark.sql(f"CREATE TABLE delta.`{path}` ({', '.join(fields)}) USING DELTA {by}")
        if self.check is not None:
            spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT drawn CHECK ({self.check})")


@st.composite
def worlds(draw: st.DrawFn) -> World:
    types = tuple(draw(st.sampled_from(sorted(EXTREMES))) for _ in COLUMNS)
    values = []
    for data_type in types:
        added = [f"'{text}'" for text in UNSTORABLE] if data_type == "STRING" else []
        values.append(st.sampled_from([*literals(data_type), *added]))
    rows = draw(st.lists(st.tuples(*values), min_size=2, max_size=5))
    partitions = [
        name for name, data_type in zip(COLUMNS, types, strict=True) if data_type in PARTITION_TYPES
    ]
    drawn_conditions = conditions(OPERANDS)
    return World(
        types,
        tuple(rows),
        draw(st.just("true") | drawn_conditions),
        draw(st.just("true") | drawn_conditions),
        draw(st.sampled_from([None, *partitions])),
        draw(st.frozensets(st.sampled_from(COLUMNS), max_size=2)),
        draw(st.none() | drawn_conditions),
        draw(st.booleans()),
    )


def expected_fate(world: World, row: DataFrame) -> str:
    """Return the fate of a row by itself, by Spark's SQL and the rules of the table."""
    matches = outcome(row, world.where)
    if matches is not True:
        return "filtered" if matches is False else "where"
    if outcome(row, world.rule) is not True:
        return "rule"
    nulls = [name for name in world.required if outcome(row, f"{name} IS NULL")]
    texts = ", ".join(f"'{text}'" for text in UNSTORABLE)
    by = world.partition
    is_unstorable = by is not None and outcome(row, f"cast({by} AS STRING) IN ({texts})")
    is_violated = world.check is not None and outcome(row, world.check) is not True
    return "rejected" if nulls or is_unstorable or is_violated else "stored"


ORDERS = World(
    ("INT", "STRING", "DOUBLE"),
    tuple(
        (f"cast({a} AS INT)", text, "cast(1 AS DOUBLE)")
        for a, text in enumerate(("'x'", "'y'", "''", "cast(null AS STRING)", "'z'"))
    ),
    where="10 / (a - 4) < 0",
    rule="b <=> 'y' OR a != 1",
    partition="b",
    required=frozenset(["b"]),
    check="1 / a > 0",
)
"""Its rows violate the CHECK by an error, are stored, have an empty partition, a null, and raise an
error in `where`."""


@pytest.mark.draws
@given(world=worlds())
@example(world=ORDERS)
@few(4)
def test_each_row_has_one_fate_whatever_the_schema_the_conditions_and_the_table(
    world: World, spark: SparkSession
) -> None:
    frame = world.frame(spark)
    checks = RowChecks(world.where, [Rule("rule", world.rule)], "dead_letter")
    try:
        checked = checks.with_verdicts(frame, F.col("number") >= 0, COLUMNS, "filtered")
    except TidegateError:
        reject()
    with TemporaryDirectory() as folder:
        path = f"{folder}/table"
        if world.required or world.check is not None:
            try:
                world.create(spark, path)
            except PySparkException:
                reject()
        sink = world.sink(path)
        verdict = F.when(F.col("filtered"), "filtered").when(
            F.col(FAILED_CHECK).isNotNull(),
            F.when(F.col(FAILED_CHECK) < 0, "where").otherwise("rule"),
        )
        fates = {
            row["number"]: row["verdict"]
            for row in checked.select("number", verdict.alias("verdict")).collect()
        }
        good = checked.where(verdict.isNull()).select("number", *COLUMNS).persist()
        reason = sink.rejection(good)
        accepted = good if reason is None else good.where(reason.isNull())
        stored = {row["number"] for row in accepted.select("number").collect()}
        fates = {
            number: fate or ("stored" if number in stored else "rejected")
            for number, fate in fates.items()
        }
        assert fates == {
            number: expected_fate(world, frame.where(F.col("number") == number))
            for number in range(len(world.rows))
        }
        sink.write({"rows": accepted}, batch(0))
        good.unpersist()
        text = F.to_json(F.struct("number", *COLUMNS), {"ignoreNullFields": "false"})
        table = spark.read.format("delta").load(path)
        sent = {
            row[0] for row in frame.where(F.col("number").isin([*stored])).select(text).collect()
        }
        found = [row[0] for row in table.select(text).collect()]
        assert sorted(found) == sorted(sent)
        assert len({json.loads(row)["number"] for row in found}) == len(found)
        assert_readers_agree(spark, Path(path))
