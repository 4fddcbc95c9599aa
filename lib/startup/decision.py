"""What a start finds, and what it does: the lineage that it claims, and where it resumes.

`decide_start` decides and reads nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..checkpoint.lineage import NO_BATCH, CheckpointLineage
from ..checkpoint.offset_log import parse_offset_log
from ..checkpoint.spark_logs import CheckpointLogs
from ..commit.batch import app_id
from ..commit.table_log import TableLog
from ..job.fingerprint import FingerprintDiff
from ..job.job import Job
from ..jvm import TopicState
from ..offsets import Offsets, merge_partitions
from .resume import find_resume_point

ALL_OUTPUTS = "all"
"""The value of `recreate` that re-creates the missing table of every output."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What a start reads before it decides.

    logs: the logs that Spark wrote to the checkpoint.
    lineage: the lineage that the last start recorded; None for a new checkpoint.
    tables: the log of each output's table.
    topic_states: the topics of each input, without inputs whose broker does not answer.
    fingerprint: the fingerprint of the job.
    foreign_files: a file in the folder of each output that has files and no Delta table.
    end_offsets: the end of each partition's log, by input, where its broker answers.
    """

    logs: CheckpointLogs
    lineage: CheckpointLineage | None
    tables: Mapping[str, TableLog]
    topic_states: Mapping[str, Mapping[str, TopicState]]
    fingerprint: Mapping[str, str]
    foreign_files: Mapping[str, str] = field(default_factory=dict)
    end_offsets: Mapping[str, Offsets] = field(default_factory=dict)

    def has_table(self, output: str) -> bool:
        """Return whether the table of an output exists."""
        return self.tables[output].id is not None


@dataclass(frozen=True, kw_only=True)
class StartDecision:
    """What a start does.

    previous: the recorded lineage, without a backfill that is planned again; or a new lineage.
    lineage: the lineage that the start claims: the previous one with the current job.
    query_id: the id of the query in the commits of the checkpoint; None before its first start.
    fingerprint_diff: the difference between the recorded and the current fingerprint.
    recreate: the outputs to re-create, as requested.
    missing_outputs, new_outputs: the outputs that can be re-created: their table is missing, or
        they have none of the existing batches.
    """

    logs: CheckpointLogs
    previous: CheckpointLineage
    lineage: CheckpointLineage
    query_id: str | None
    fingerprint_diff: FingerprintDiff
    recreate: Sequence[str]
    missing_outputs: Collection[str]
    new_outputs: Collection[str]

    @cached_property
    def read_offsets(self) -> Offsets:
        """The end offsets of the checkpoint.

        Before the first batch of the stream these are the offsets of the resume point or the
        backfill.
        """
        if self.logs.last_planned == NO_BATCH:
            if self.lineage.resume_point is not None:
                return self.lineage.resume_point.start
            return {} if self.lineage.backfill is None else self.lineage.backfill.end
        path = f"{self.logs.path}/offsets/{self.logs.last_planned}"
        ends = parse_offset_log(path, self.logs.offsets_contents[self.logs.last_planned])[1]
        return merge_partitions(ends, max)


def decide_start(
    job: Job,
    inspection: Inspection,
    *,
    resume_from_table: bool = False,
    recreate: Sequence[str] = (),
) -> StartDecision:
    """Decide which lineage a start claims.

    A new checkpoint resumes at the last commit of the target with `resume_from_table`. A recorded
    backfill that no table has yet is planned again if the job has changed, because its handover
    depends on how rows are read.

    Raises CheckpointError if the job cannot resume.
    """
    recorded = inspection.lineage
    diff = FingerprintDiff(
        {} if recorded is None else recorded.fingerprint,
        inspection.fingerprint,
        table_count=len(job.sink.tables()),
    )
    previous = recorded or _new_lineage(job, inspection, resume_from_table)
    backfill = previous.backfill
    if (
        diff.descriptions
        and backfill is not None
        and inspection.logs.last_planned == NO_BATCH
        and all(
            last_batch_in_table(log, previous.job, backfill.query, output) == NO_BATCH
            for output, log in inspection.tables.items()
        )
    ):
        previous = replace(previous, backfill=None)
    outputs = durable_sink_paths(job)
    new_outputs = set(outputs) - set(previous.outputs) if previous.has_written_batches else set()
    missing_outputs = {
        output
        for output in previous.tables
        if output in inspection.tables and not inspection.has_table(output)
    }
    recreated = (
        missing_outputs
        if ALL_OUTPUTS in recreate
        else (missing_outputs | new_outputs).intersection(recreate)
    )
    topic_ids = {
        topic: state.id
        for states in inspection.topic_states.values()
        for topic, state in states.items()
    }
    dead_letter_topic = () if job.dead_letter_topic is None else (job.dead_letter_topic.topic,)
    lineage = replace(
        previous,
        tables={
            output: table for output, table in previous.tables.items() if output not in recreated
        },
        outputs=tuple(outputs),
        fingerprint=inspection.fingerprint,
        topic_ids={**previous.topic_ids, **topic_ids},
        dead_letter_topics=tuple(sorted({*dead_letter_topic, *previous.dead_letter_topics})),
    )
    return StartDecision(
        logs=inspection.logs,
        previous=previous,
        lineage=lineage,
        query_id=lineage.commit_query_id(inspection.logs.query or "") or None,
        fingerprint_diff=diff,
        recreate=recreate,
        missing_outputs=missing_outputs,
        new_outputs=new_outputs,
    )


def durable_sink_paths(job: Job) -> dict[str, str]:
    """Return the paths of the sink's tables by output, without tables that the sink rebuilds."""
    rebuildable = job.sink.rebuildable_outputs
    return {output: path for path, output in job.sink.tables() if output not in rebuildable}


def _new_lineage(job: Job, inspection: Inspection, resume_from_table: bool) -> CheckpointLineage:
    """Return the lineage of a new checkpoint, which may resume from a lost one."""
    lineage = CheckpointLineage(job=job.name)
    if not (resume_from_table and any(map(inspection.has_table, inspection.tables))):
        return lineage
    resume_point, topic_ids = find_resume_point(job, inspection.tables)
    existing_outputs = tuple(filter(inspection.has_table, durable_sink_paths(job)))
    return replace(
        lineage, outputs=existing_outputs, resume_point=resume_point, topic_ids=topic_ids
    )


def last_batch_in_table(log: TableLog, job: str, query_id: str, output: str) -> int:
    """Return the last batch of a query's output in a table; -1 if there is none."""
    last_batch = log.last_batch(app_id(job, query_id, output))
    return NO_BATCH if last_batch is None else last_batch
