"""A replay from the middle compares what is whole, and a switch takes the rest from the job."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.aggregates import count
from tidegate.errors import CheckpointError, TableError
from tidegate.runtime.cli import replayed, switched
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.compare import compare
from tidegate.runtime.query.run import run
from tidegate.runtime.replaying.replay import replay
from tidegate.runtime.replaying.switch import switch
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.transform import Stateless
from tidegate.windows import Hopping, Tumbling, Windowed

from ...tables import rows
from ..left import FIRST, SECOND, WINDOWS, Left
from ..topics import START, reading, sent

pytestmark = [pytest.mark.broker, pytest.mark.jobs]

SECOND_RUN = len(FIRST)
"""The offset with which the second run began. The newest event before it is 31 s after the start,
so that windows of 10 s are whole which end after 41 s."""


def test_results_that_need_rows_of_before_are_not_compared_and_are_kept_by_a_switch(
    spark: SparkSession, left: Left, capsys: pytest.CaptureFixture[str]
) -> None:
    job = left.job()
    before = left.views()
    start = {left.topic: {0: SECOND_RUN}}
    replayed(job, spark, (), as_json=True, start=start)
    told = json.loads(capsys.readouterr().out)
    assert told["agree"]
    assert told["since"] == str(START.replace(second=41)).replace(" ", "T")
    # Those that end at 50 and at 60; the four before them are of records before, or may be.
    assert (told["found"]["rows"], told["before"]) == (2, 4)
    # The row of second 2 was late then. Now it is not: what had made it late is not read.
    assert told["late"] == [1, 0]
    replayed(job, spark, (), as_json=False)
    said = capsys.readouterr().out
    assert "not compared: 4 rows of the job's" in said
    assert "results after 2026-03-02T09:00:41+00:00 up to 2026-03-02T09:01:11+00:00" in said
    switched(job, spark, back=False)
    assert left.views() == before
    assert left.aside("late") == {(0, 8): 1}
    assert left.aside("dead_letters") == {(0, 2): 1, (0, 10): 1}
    run(job, spark)
    assert left.views() == WINDOWS
    assert left.aside("late") == {(0, 8): 1, (0, 16): 1}
    assert sorted(at for _, at in left.aside("dead_letters").elements()) == [2, 10, 17]
    assert compare(job, spark).agree
    with pytest.raises(CheckpointError, match="began in the middle"):
        replay(job, spark)
    switched(job, spark, back=True)
    assert left.views() == before
    run(job, spark)
    assert left.views() == WINDOWS


@pytest.mark.parametrize("at", [1, SECOND_RUN + 2])
def test_a_start_within_a_batch_is_that_start(spark: SparkSession, left: Left, at: int) -> None:
    before = left.views()
    found = replay(left.job(), spark, start={left.topic: {0: at}})
    assert found is not None
    assert found.found.agree
    seconds = [each for each in [*FIRST, *SECOND][:at] if not isinstance(each, str)]
    assert found.since is not None
    assert (found.since - START).total_seconds() == max(seconds) + 10
    assert found.before == sum(first + 10 <= max(seconds) + 10 for first in before)
    switch(left.job(), spark)
    assert left.views() == before


def test_a_column_that_is_new_is_null_in_rows_of_before(spark: SparkSession, left: Left) -> None:
    both = Windowed(Tumbling("10 seconds"), aggs={"n": count(), "twice": count()})
    job = left.job(transform=both)
    found = replay(job, spark, start={left.topic: {0: SECOND_RUN}})
    assert found is not None
    assert (found.columns, found.found.agree) == (["twice"], True)
    switch(job, spark)
    assert Counter(row["twice"] for row in rows(left.root / "views")) == {None: 4, 1: 1, 2: 1}


def test_a_row_that_was_late_and_is_not_late_now_explains_a_difference(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    sent(broker.servers, topic, [1, 12, 23, 35, 47, 58, 69, 70, 44, 80, 91, 92])
    left = Left(broker, topic, tmp_path, tmp_path)
    by_two = {"pages": Input(reading(broker.servers, topic, max_rows=2))}
    run(left.job(inputs=by_two), spark)
    assert left.aside("late") == {(0, 8): 1}
    # The replay reads everything in one batch.
    found = replay(left.job(), spark, start={topic: {0: 3}})
    assert found is not None
    assert (found.found.missing, found.found.extra, found.found.different) == (0, 0, 1)
    assert found.late == (1, 0)
    assert found.unexplained is not None
    assert found.unexplained.agree
    switch(left.job(), spark)
    assert left.views()[40] == 2
    assert not left.aside("late")


def test_other_windows_are_compared_and_not_switched(spark: SparkSession, left: Left) -> None:
    job = left.job(transform=Windowed(Hopping("10 seconds", "5 seconds"), aggs={"n": count()}))
    found = replay(job, spark, start={left.topic: {0: SECOND_RUN}})
    assert found is not None
    assert (found.found.missing, found.found.different) == (0, 0)
    assert found.found.extra > 0
    with pytest.raises(CheckpointError, match="the window was another one"):
        switch(job, spark)
    assert Path(f"{left.root}/views.replay").exists()


def test_a_table_with_a_column_that_the_replay_has_not_is_not_switched(
    spark: SparkSession, left: Left
) -> None:
    job = left.job(transform=Windowed(Tumbling("10 seconds"), aggs={"other": count()}))
    assert replay(job, spark, start={left.topic: {0: SECOND_RUN}}) is not None
    with pytest.raises(TableError, match="n is new"):
        switch(job, spark)


def test_a_job_without_state_begins_where_a_batch_did_and_all_its_rows_are_compared(
    spark: SparkSession, left: Left
) -> None:
    run(pages(left), spark)
    whole = Counter(map(str, rows(left.root / "pages")))
    changed = pages(left, page="upper(page)")
    found = replay(changed, spark, start={left.topic: {0: SECOND_RUN + 2}})
    assert found is not None
    assert (found.found.missing, found.found.extra, found.since) == (10, 10, None)
    assert found.before == 6
    switch(changed, spark)
    made = rows(left.root / "pages")
    assert Counter(row["page"] for row in made) == {"p0": 6, "P0": 10}
    assert Counter(str(row).replace("P0", "p0") for row in made) == whole
    dead = rows(left.root / "pages.dead_letters", ["offset"])
    assert sorted(row["offset"] for row in dead) == [2, 10, 17]
    with pytest.raises(CheckpointError, match="no offset tells"):
        compare(changed, spark)


def pages(left: Left, page: str = "page") -> Job:
    """Return a job without state over the same topic, which reads as many records a batch."""
    changed = Stateless(lambda pages: pages.selectExpr(f"{page} AS page", "event_time"))
    given = Input(reading(left.broker.servers, left.topic, max_rows=SECOND_RUN))
    sink = Append(str(left.root / "pages"))
    return left.job(name="pages", inputs={"pages": given}, transform=changed, sink=sink)
