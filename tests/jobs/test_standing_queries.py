"""Documents past standing queries, from real topics, against plain Python over what was sent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.standing_queries import StandingQueries, job
from tidegate.errors import ConfigError
from tidegate.patterns import matches
from tidegate.runtime.query.run import run
from tidegate.testing import Broker

from ..configured import configured, from_options
from ..patterns.standing.oracle import FIELDS
from ..tables import rows
from ..worlds.standing_queries import NO_QUERIES, World, read_matches, sent


@pytest.mark.broker
def test_each_document_meets_the_queries_of_its_time(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    world, root = sent(broker, topic), tmp_path / "tables"
    sizes = {"documents.max_rows": 150, "queries.max_rows": 60}
    given = {**world.options, **sizes, "output.root": root}
    done = run(job(from_options(StandingQueries, given)), spark)

    assert (done.rows_in, done.dead) == (len(world.documents) + len(world.log), len(NO_QUERIES))
    assert len(world.decided) > 1_000
    assert read_matches(root / "matches") == world.decided
    assert Counter(row["doc"] for row in rows(root / "waiting")) == world.waiting
    reasons = {row["reason"] for row in rows(root / "dead_letters")}
    assert any("at character 1: 'prise' is no field" in reason for reason in reasons)
    assert len(reasons) == len(NO_QUERIES)
    _same_as_a_batch(spark, world, root)


def _same_as_a_batch(spark: SparkSession, world: World, root: Path) -> None:
    """The past, out of tables: the documents and the history that the job left."""
    schema = f"{world.options['documents.schema']}"
    texts = [(one.value().decode(),) for one in world.documents]
    read = F.from_json("value", schema).alias("one")
    documents = spark.createDataFrame(texts, "value string").select(read).select("one.*")
    history = spark.read.format("delta").load(str(root / "queries"))
    found = matches(documents, history, FIELDS, as_of="event_time", order="query_offset")
    names = ("doc", "query_id", "valid_from", "query_offset")
    due = found.where(F.unix_millis("event_time") < world.reached).select(*names)
    written = spark.read.format("delta").load(str(root / "matches")).select(*names)
    assert due.exceptAll(written).unionByName(written.exceptAll(due)).isEmpty()


def test_the_shipped_configuration_holds_and_what_it_must_not_have_is_told(
    spark: SparkSession,
) -> None:
    config = configured(StandingQueries)
    assert config.search.lag == "1 minute"
    names = {"table", "dead_letters", "gaps", "versions", "waiting"}
    assert set(config.output.tables()) == {f"output.{name}" for name in names}
    assert list(job(config).inputs) == ["documents", "queries"]
    with pytest.raises(ConfigError, match="its values are texts"):
        configured(StandingQueries, {}, "queries.schema=query string")
    with pytest.raises(ConfigError, match="default names price"):
        job(configured(StandingQueries, {}, "search.default=price"))
