"""The job of standing queries killed between its tables: what runs again finds what was there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.scenarios.standing_queries import NO_QUERIES, World, read_matches, sent
from tests.support.crash_leftovers import batches
from tests.support.delta_tables import rows
from tests.support.percolator_oracle import FIELDS
from tests.support.spark_submit import SubmittedJob
from tidegate.patterns import percolate
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(1200)]
TABLES = ("queries", "matches", "waiting")
"""In the order in which a batch writes them."""


@pytest.mark.draws("kills", short=[("matches",)], long=[TABLES])
def test_a_job_killed_between_its_tables_loses_no_match_and_repeats_none(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, kills: tuple[str, ...]
) -> None:
    world, root = sent(broker, topic), tmp_path / "tables"
    sizes = {"documents.max_records_per_batch": 150, "queries.max_records_per_batch": 60}
    options = {**world.options, **sizes}
    submitted = SubmittedJob("standing_queries", root, tmp_path / "job.log", options)
    for table in kills:
        submitted.killed_at(table)
        newest = batches(root, table)[-1]
        committed = root / "_checkpoints" / "standing_queries" / "commits" / str(newest)
        assert not committed.exists()
    submitted.finished(spark)
    assert len(world.decided) > 1_000
    assert read_matches(root / "matches") == world.decided
    assert Counter(row["doc"] for row in rows(root / "waiting")) == world.waiting
    reasons = Counter(row["reason"] for row in rows(root / "dead_letters"))
    assert any("at character 1: 'prise' is not a field" in reason for reason in reasons)
    assert len(reasons) == reasons.total() == len(NO_QUERIES)
    for table in TABLES:
        assert len(set(batches(root, table))) == len(batches(root, table))
    _same_as_a_batch(spark, world, root)


def _same_as_a_batch(spark: SparkSession, world: World, root: Path) -> None:
    """The past, out of tables: the documents and the history that the job left."""
    schema = f"{world.options['documents.schema']}"
    texts = [(one.value().decode(),) for one in world.documents]
    read = F.from_json("value", schema).alias("one")
    documents = spark.createDataFrame(texts, "value string").select(read).select("one.*")
    history = spark.read.format("delta").load(str(root / "queries"))
    found = percolate(documents, history, FIELDS, as_of="event_time", order="query_offset")
    names = ("doc", "query_id", "valid_from", "query_offset")
    due = found.where(F.unix_millis("event_time") < world.reached).select(*names)
    written = spark.read.format("delta").load(str(root / "matches")).select(*names)
    assert due.exceptAll(written).unionByName(written.exceptAll(due)).isEmpty()
