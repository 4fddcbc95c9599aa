"""A start is decided without Spark from what was read: its lineage, outputs and offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import StructField, StructType, TimestampType

from tidegate import Job
from tidegate.checkpoint.lineage import Backfill, CheckpointLineage, RecordedTable
from tidegate.checkpoint.spark_logs import CheckpointLogs
from tidegate.commit.batch import Stamp
from tidegate.commit.table_log import TableLog
from tidegate.errors import ArgumentError, CheckpointError
from tidegate.formats import json_format
from tidegate.job.fingerprint import job_fingerprint
from tidegate.jvm import TopicState
from tidegate.sinks import Append, FanOut
from tidegate.sources import Input, KafkaSource
from tidegate.startup.decision import Inspection, StartDecision, decide_start
from tidegate.startup.start_checks import check_job

SCHEMA = StructType([StructField("at", TimestampType())])
PATHS = {
    "dead_letters": "/shop/pages.dead_letters",
    "offset_gaps": "/shop/pages.offset_gaps",
    "append": "/shop/pages",
}
BACKFILL = Backfill(
    query="first",
    start={"pages": {0: 0}},
    end={"pages": {0: 9}},
    handover_start={"pages": {0: 6}},
    handover_time=None,
)


class ModelTable(TableLog):
    """A table with a known last stamp, or a missing table."""

    def __init__(self, path: str, stamp: Stamp | None = None, *, exists: bool = True) -> None:
        self.path = path
        self._stamp = stamp
        self._exists = exists

    @property
    def id(self) -> str | None:
        return f"id of {self.path}" if self._exists else None

    def last_batch(self, app_id: str) -> int | None:
        stamp = self._stamp
        return None if stamp is None or stamp.app_id != app_id else stamp.batch

    def last_stamp(self, job: str, output: str) -> Stamp | None:
        return self._stamp


def stamp(output: str, batch: int, query: str = "lost") -> Stamp:
    return Stamp(
        job="shop",
        query=query,
        run="run",
        batch=batch,
        output=output,
        offsets_hash="",
        end={"pages": {0: 40}},
        row_counts={},
        topic_ids={"pages": "topic id"},
    )


def job(**options: Any) -> Job:
    pages = Input(
        KafkaSource("localhost:9", topics=["pages"]),
        json_format(SCHEMA),
        time="at",
        watermark_delay="1 second",
    )
    defaults: dict[str, Any] = {
        "name": "shop",
        "inputs": {"pages": pages},
        "sink": Append("/shop/pages"),
    }
    return Job(**{**defaults, **options})


def with_archive() -> FanOut:
    return FanOut(Append("/shop/pages"), other_sinks=[Append("/shop/archive", output="archive")])


def inspection(
    of: Job,
    lineage: CheckpointLineage | None = None,
    tables: Mapping[str, TableLog] | None = None,
    **logs: Any,
) -> Inspection:
    return Inspection(
        logs=CheckpointLogs(path="/checkpoint", **logs),
        lineage=lineage,
        tables={
            **{output: ModelTable(path) for output, path in PATHS.items()},
            **(tables or {}),
        },
        topic_states={"pages": {"pages": TopicState("topic id", 1)}},
        fingerprint=job_fingerprint(of),
    )


def recorded(of: Job, **options: Any) -> CheckpointLineage:
    tables = {
        output: RecordedTable(path=path, id=f"id of {path}", version=3, commit_hash="")
        for output, path in PATHS.items()
    }
    lineage = CheckpointLineage(
        job="shop",
        query="query",
        epoch=2,
        last_batch=4,
        tables=tables,
        outputs=("append",),
        fingerprint=job_fingerprint(of),
    )
    return replace(lineage, **options)


def test_a_new_checkpoint_starts_with_an_empty_lineage_of_the_job() -> None:
    decision = decide_start(job(), inspection(job()))
    assert decision.lineage == CheckpointLineage(
        job="shop",
        outputs=("append",),
        topic_ids={"pages": "topic id"},
        fingerprint=job_fingerprint(job()),
    )
    assert decision.query_id is None
    assert decision.read_offsets == {}
    assert decision.fingerprint_diff.descriptions == []


def test_a_recorded_checkpoint_continues_with_its_tables_and_the_offsets_of_its_last_plan() -> None:
    lineage = recorded(job())
    plan = b'v1\n{"batchWatermarkMs":0}\n{"pages":{"0":7}}\n{"pages":{"1":8}}'
    decision = decide_start(
        job(),
        inspection(
            job(), lineage, planned_batches=[4, 5], offsets_contents={5: plan}, query="query"
        ),
    )
    assert decision.previous == lineage
    assert decision.lineage == replace(lineage, topic_ids={"pages": "topic id"})
    assert decision.query_id == "query"
    assert decision.read_offsets == {"pages": {0: 7, 1: 8}}


def test_a_lost_checkpoint_resumes_after_the_last_commit_of_the_target_only_on_request() -> None:
    tables = {output: ModelTable(path, stamp(output, 6)) for output, path in PATHS.items()}
    assert decide_start(job(), inspection(job(), tables=tables)).lineage.resume_point is None
    decision = decide_start(job(), inspection(job(), tables=tables), resume_from_table=True)
    point = decision.lineage.resume_point
    assert point is not None
    assert (point.query, point.first_batch) == ("lost", 7)
    assert decision.query_id == "lost"
    assert decision.read_offsets == {"pages": {0: 40}}


def test_a_job_without_tables_starts_new_even_if_it_should_resume() -> None:
    missing = {output: ModelTable(path, exists=False) for output, path in PATHS.items()}
    decision = decide_start(job(), inspection(job(), tables=missing), resume_from_table=True)
    assert decision.lineage.resume_point is None


def test_tables_of_other_batches_do_not_resume() -> None:
    both = job(sink=with_archive())
    tables = {
        **{output: ModelTable(path, stamp(output, 6)) for output, path in PATHS.items()},
        "archive": ModelTable("/shop/archive", stamp("archive", 7)),
    }
    with pytest.raises(CheckpointError, match="end with different batches"):
        decide_start(both, inspection(both, tables=tables), resume_from_table=True)


@pytest.mark.parametrize(
    ("changed", "written", "is_planned_again"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_a_backfill_is_planned_again_if_the_job_has_changed_and_no_table_has_it(
    changed: bool, written: bool, is_planned_again: bool
) -> None:
    lineage = recorded(job(), last_batch=-1, tables={}, backfill=BACKFILL, query=None, topic_ids={})
    current = job(each_batch=lambda rows: rows) if changed else job()
    dead = ModelTable(PATHS["dead_letters"], stamp("dead_letters", 0, "first") if written else None)
    decision = decide_start(current, inspection(current, lineage, {"dead_letters": dead}))
    assert (decision.lineage.backfill is None) == is_planned_again
    assert decision.read_offsets == ({} if is_planned_again else BACKFILL.end)


def recreated(decision: StartDecision) -> set[str]:
    return set(decision.previous.tables) - set(decision.lineage.tables)


def test_only_missing_tables_are_created_again() -> None:
    missing = {
        "append": ModelTable("/shop/pages", exists=False),
        "dead_letters": ModelTable(PATHS["dead_letters"], exists=False),
    }
    state = inspection(job(), recorded(job()), missing)
    assert recreated(decide_start(job(), state)) == set()
    assert recreated(decide_start(job(), state, recreate=["dead_letters"])) == {"dead_letters"}
    assert recreated(decide_start(job(), state, recreate=["dead_letters", "offset_gaps"])) == {
        "dead_letters"
    }
    assert recreated(decide_start(job(), state, recreate=["all"])) == {"append", "dead_letters"}
    assert decide_start(job(), state).missing_outputs == {"append", "dead_letters"}


def test_an_output_that_lacks_the_existing_batches_is_new() -> None:
    both = job(sink=with_archive())
    archive = {"archive": ModelTable("/shop/archive", exists=False)}
    decision = decide_start(both, inspection(both, recorded(job()), archive))
    assert decision.new_outputs == {"archive"}
    assert decision.lineage.outputs == ("archive", "append")
    new = decide_start(both, inspection(both, tables=archive))
    assert new.new_outputs == set()


def test_the_check_of_the_job_names_an_output_that_cannot_be_created_again() -> None:
    missing = {"append": ModelTable("/shop/pages", exists=False)}
    state = inspection(job(), recorded(job()), missing)
    assert check_job(job(), state, decide_start(job(), state, recreate=["append"])) == "shop"
    decision = decide_start(job(), state, recreate=["offset_gaps"])
    with pytest.raises(
        ArgumentError, match=r"^invalid recreate: 'offset_gaps', whose table exists"
    ):
        check_job(job(), state, decision)


def test_the_check_of_the_job_refuses_another_name_and_an_output_that_is_new() -> None:
    renamed = recorded(job(), job="store")
    state = inspection(job(), renamed)
    with pytest.raises(CheckpointError, match="belongs to the job 'store', not to 'shop'"):
        check_job(job(), state, decide_start(job(), state))
    both = job(sink=with_archive())
    archive = {"archive": ModelTable("/shop/archive", exists=False)}
    state = inspection(both, recorded(job()), archive)
    with pytest.raises(CheckpointError, match=r"output 'archive' is new.*batches up to 4\n"):
        check_job(both, state, decide_start(both, state))
    assert check_job(both, state, decide_start(both, state, recreate=["archive"])) == "shop"
