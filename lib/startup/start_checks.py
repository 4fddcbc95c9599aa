"""Checks of a start: the checkpoint and the job, the inputs, and the tables.

A job must not omit a partition that its checkpoint has read. Spark would lose its offset and, if
the job names the partition again, read it from the start. Spark itself refuses only after it has
planned a batch without the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..checkpoint.lineage import NO_BATCH, CheckpointLineage, hash_fingerprint
from ..checkpoint.offset_log import parse_offset_log
from ..checkpoint.spark_logs import CheckpointLogs, hash_content, require_recorded_logs
from ..commit.batch import UNIX_EPOCH, Stamp, app_id
from ..commit.ownership import (
    require_own_checkpoint,
    require_recorded,
    require_single_writer,
    require_unchanged,
    require_unread_topics,
    writer_jobs,
)
from ..commit.protocol import require_table_not_ahead
from ..commit.table_log import TableLog
from ..errors import ArgumentError, CheckpointError, TableError
from ..input_frames import ROWS
from ..job.dataflow import build_query
from ..job.job import OFFSET_GAPS_SCHEMA, Job
from ..offsets import Offsets
from ..sources import Input
from ..sources.event_time_column import EVENT_TIME
from ..sources.input import OBSERVATION
from ..sources.side_output_rows import LatenessTest
from ..sources.topics import reads_topic, require_not_truncated, require_same_topics
from ..spark.presets import SHUFFLE_PARTITIONS, STATE_STORE_PROVIDER
from ..spark.spark_errors import translate_error
from .decision import (
    ALL_OUTPUTS,
    Inspection,
    StartDecision,
    durable_sink_paths,
    last_batch_in_table,
)
from .environment import table_paths
from .resume import NEW_CHECKPOINT_HINT, describe_resume_point


def check_checkpoint(job: Job, inspection: Inspection, decision: StartDecision) -> str:
    """Refuse a checkpoint that is being rescaled, or whose logs were changed."""
    lineage = inspection.lineage
    if lineage is not None:
        require_recorded_logs(lineage, inspection.logs)
        return f"batch {lineage.last_batch}, epoch {lineage.epoch}"
    resume_point = decision.lineage.resume_point
    return "new" if resume_point is None else f"new; {describe_resume_point(job, resume_point)}"


def check_job(job: Job, inspection: Inspection, decision: StartDecision) -> str:
    """Refuse a checkpoint of another job or with other outputs, and an invalid `recreate`."""
    if inspection.lineage is not None:
        _require_same_job(inspection.lineage, job)
    _require_no_new_outputs(job, decision)
    _require_valid_recreate(decision)
    return job.name


def check_fingerprint(job: Job, inspection: Inspection, decision: StartDecision) -> str:
    """Refuse a change of the job that the checkpoint does not allow."""
    lineage = inspection.lineage
    recorded_fingerprint = {} if lineage is None else lineage.fingerprint
    require_no_omitted_partitions(job.inputs, decision.read_offsets, recorded_fingerprint)
    if lineage is None or (
        inspection.logs.last_planned == NO_BATCH and decision.previous.backfill is None
    ):
        return hash_fingerprint(inspection.fingerprint)
    number = _next_batch_number(lineage, inspection.tables, job.sink.output)

    def outputs_with_batch() -> list[str]:
        query_id = decision.query_id
        return [
            output
            for output, log in inspection.tables.items()
            if query_id is not None
            and last_batch_in_table(log, job.name, query_id, output) >= number
        ]

    return decision.fingerprint_diff.require_allowed(number, outputs_with_batch)


def _require_same_job(lineage: CheckpointLineage, job: Job) -> None:
    if lineage.job != job.name:
        raise CheckpointError(
            f"the checkpoint belongs to the job {lineage.job!r}, not to {job.name!r}",
            f"the commits of {job.locations.checkpoint} are identified by the name of the job. "
            "Nothing was written.",
            f"name={lineage.job!r}; or use a new checkpoint and new tables.",
        )
    outputs = table_paths(job)
    removed_outputs = [
        f"{output!r} ({recorded.path})"
        for output, recorded in lineage.tables.items()
        if output not in outputs
    ]
    if removed_outputs:
        raise CheckpointError(
            f"the job no longer writes the outputs {', '.join(removed_outputs)} of its checkpoint",
            f"the job writes {', '.join(map(repr, outputs))}. Nothing was written.",
            "restore the previous sink; or use a new checkpoint and new tables.",
        )


def _require_no_new_outputs(job: Job, decision: StartDecision) -> None:
    unrequested = sorted(set(decision.new_outputs) - set(decision.recreate))
    if unrequested:
        output = unrequested[0]
        lineage = decision.previous
        raise CheckpointError(
            f"the output {output!r} is new: {durable_sink_paths(job)[output]} would lack the "
            f"batches up to {lineage.committed_batches.stop - 1}",
            f"the checkpoint has written {', '.join(map(repr, lineage.outputs))} only. Nothing was "
            "written.",
            f"run with --recreate {output} to start it with the next batch; or use a new "
            "checkpoint and new tables, which get all records of the topic.",
        )


def _require_valid_recreate(decision: StartDecision) -> None:
    if ALL_OUTPUTS in decision.recreate:
        return
    missing = sorted(decision.missing_outputs)
    for output in decision.recreate:
        if output not in missing and output not in decision.new_outputs:
            state = "exists" if output in decision.previous.tables else "was never written"
            raise ArgumentError(
                f"invalid recreate: {output!r}, whose table {state}",
                "outputs whose table is missing; "
                + (f"these are {', '.join(missing)}" if missing else "there are none"),
                "move the folder of the table away to start it again, empty",
            )


def require_no_omitted_partitions(
    inputs: Mapping[str, Input], read_offsets: Offsets, recorded_fingerprint: Mapping[str, str]
) -> None:
    """Refuse inputs that omit a partition of the checkpoint, or read it in another input.

    read_offsets: the end offsets of the checkpoint.
    recorded_fingerprint: the fingerprint that the checkpoint has recorded.

    Raises CheckpointError.
    """
    omitted = [
        f"{topic}-{part}"
        for topic, parts in read_offsets.items()
        for part in sorted(parts)
        if not any(reads_topic(job_input.source, topic, part) for job_input in inputs.values())
    ]
    if omitted:
        raise CheckpointError(
            f"no input reads {', '.join(omitted)}, which the checkpoint has read",
            "inputs can add topics and partitions, but not omit them. Nothing was written.",
            f"add the topics and partitions to the inputs; or {NEW_CHECKPOINT_HINT}",
        )
    for name, job_input in inputs.items():
        recorded_topics = recorded_fingerprint.get(f"{name}.topics", "")
        # The fingerprint has each topic's name in quotes, which a name cannot contain.
        input_topics = [topic for topic in read_offsets if f"'{topic}'" in recorded_topics]
        moved_topics = [topic for topic in input_topics if not reads_topic(job_input.source, topic)]
        if moved_topics:
            raise CheckpointError(
                f"another input reads {', '.join(moved_topics)}, which the input {name!r} has read",
                "a topic must stay in its input. Nothing was written.",
                f"move the topics back to their inputs; or {NEW_CHECKPOINT_HINT}",
            )


def recorded_state_settings(logs: CheckpointLogs) -> dict[str, Any]:
    """Return the Spark settings of the state that the last batch of a checkpoint recorded."""
    if logs.last_committed not in logs.offsets_contents:
        return {}
    meta, _ = parse_offset_log(
        f"{logs.path}/offsets/{logs.last_committed}", logs.offsets_contents[logs.last_committed]
    )
    return dict(meta.get("conf") or {})


def state_partitions(logs: CheckpointLogs) -> int | None:
    """Return the number of state partitions of a checkpoint; None if it has no state."""
    partition_text = recorded_state_settings(logs).get(SHUFFLE_PARTITIONS)
    has_state = any(name.startswith("state/") for name in logs.static_files)
    return int(partition_text) if has_state and partition_text is not None else None


def state_setting_differences(spark: SparkSession, logs: CheckpointLogs) -> list[str]:
    """Return warnings about state settings of a checkpoint that differ from those of the session.

    Spark uses the settings of the checkpoint, without a warning.
    """
    checkpoint_partitions = state_partitions(logs)
    if checkpoint_partitions is None:
        return []
    session_partitions = int(spark.conf.get(SHUFFLE_PARTITIONS, "0") or 0)
    differences = []
    if checkpoint_partitions != session_partitions:
        differences.append(
            f"the state has {checkpoint_partitions} partitions; {SHUFFLE_PARTITIONS} = "
            f"{session_partitions} does not change them. Run tidegate rescale {logs.path} "
            f"--to {session_partitions}"
        )
    checkpoint_provider = recorded_state_settings(logs).get(STATE_STORE_PROVIDER)
    session_provider = spark.conf.get(STATE_STORE_PROVIDER, None)
    if checkpoint_provider and session_provider and checkpoint_provider != session_provider:
        differences.append(
            f"the state store is {checkpoint_provider.rpartition('.')[2]}; "
            f"{session_provider.rpartition('.')[2]} requires a new checkpoint, for example by a "
            "replay"
        )
    return differences


def check_topics(job: Job, inspection: Inspection, decision: StartDecision, name: str) -> str:
    """Refuse topics that were deleted, re-created or truncated; return the current ones as text."""
    source = job.inputs[name].source
    states = inspection.topic_states.get(name)
    if states is None:
        return f"not checked: {source.bootstrap_servers} does not answer"
    expected_topics = set(states) | set(source.topic_names)
    if source.pattern and source.on_data_loss == "stop":
        expected_topics |= {topic for topic in decision.read_offsets if reads_topic(source, topic)}
    recorded_ids = decision.previous.topic_ids
    require_same_topics(
        {topic: recorded_ids[topic] for topic in recorded_ids if topic in expected_topics}, states
    )
    require_not_truncated(decision.read_offsets, inspection.end_offsets.get(name, {}))
    return ", ".join(f"{topic} ({state.partitions})" for topic, state in states.items())


def missing_topic_warnings(job: Job, inspection: Inspection, decision: StartDecision) -> list[str]:
    """Return warnings about a pattern without topics, and about topics that no longer exist.

    Only topics that match a pattern, with on_data_loss="record", can be missing here; other
    missing topics are an error. Records of a missing topic that were not read cannot be counted.
    """
    existing_topics = {topic for states in inspection.topic_states.values() for topic in states}
    answered_sources = [job.inputs[name].source for name in inspection.topic_states]
    without_topics = [
        f"no topic matches the pattern {job.inputs[name].source.pattern!r}; nothing is read"
        for name, states in inspection.topic_states.items()
        if job.inputs[name].source.pattern and not states
    ]
    return without_topics + [
        f"the topic {topic} no longer exists; its unread records are lost"
        for topic in decision.read_offsets
        if topic not in existing_topics
        and any(reads_topic(source, topic) for source in answered_sources)
    ]


def check_table(job: Job, inspection: Inspection, decision: StartDecision, output: str) -> str:
    """Refuse a table that does not match the checkpoint, and a folder with files of others.

    A checkpoint that was started before can have left files of an interrupted batch in the folder.
    """
    log = inspection.tables[output]
    is_rebuildable = output in job.sink.rebuildable_outputs
    query_id = decision.query_id
    recorded = None if is_rebuildable else decision.lineage.tables.get(output)
    if recorded is not None:
        require_unchanged(output, recorded, log)
    elif log.id is None:
        file = inspection.foreign_files.get(output)
        if file is not None and (inspection.lineage is None or output in decision.new_outputs):
            raise TableError(
                f"invalid table {log.path} of output {output!r}: not a Delta table, and not empty",
                f"a Delta table of this job, or an empty or missing folder; found {file!r}",
                "another path; or CONVERT TO DELTA for a folder of Parquet files that another "
                "program wrote, or move the files away",
            )
        return f"{log.path}: not created yet"
    else:
        require_own_checkpoint(output, job.name, query_id, log)
        for commit in _commits_of_other_jobs(job, inspection, decision, output):
            require_unread_topics(
                output, log.path, commit, hash_fingerprint(inspection.fingerprint)
            )
        if inspection.lineage is not None and query_id is not None and not is_rebuildable:
            last_batch = last_batch_in_table(log, job.name, query_id, output)
            require_recorded(output, log.path, last_batch, inspection.lineage.committed_batches)
    if query_id is not None:
        _require_not_ahead(job, inspection, decision, query_id, output)
    if recorded is not None:
        _require_no_foreign_batches(decision.previous, inspection.tables, job.sink.output, output)
    return f"{log.path}: version {log.version}"


def _commits_of_other_jobs(
    job: Job, inspection: Inspection, decision: StartDecision, output: str
) -> Iterator[Stamp]:
    """Yield the last commit of each other job that has read the topics of a new checkpoint.

    Only tables of the sink count; jobs can share side tables. A job that does not start with the
    first records, or whose brokers do not answer, has none.
    """
    if decision.query_id is not None or output not in durable_sink_paths(job):
        return
    topic_ids = {
        topic: state.id
        for name, states in inspection.topic_states.items()
        if job.inputs[name].source.start == "earliest"
        for topic, state in states.items()
    }
    log = inspection.tables[output]
    for other in sorted(writer_jobs(output, log.writer_app_ids()) - {job.name}):
        commit = log.last_stamp(other, output)
        read_topics = {} if commit is None else commit.topic_ids or {}
        if commit is not None and any(
            read_topics.get(topic) == topic_id and any(commit.end.get(topic, {}).values())
            for topic, topic_id in topic_ids.items()
        ):
            yield commit


def _require_not_ahead(
    job: Job, inspection: Inspection, decision: StartDecision, query_id: str, output: str
) -> None:
    """Refuse a table that is ahead of the checkpoint, or has other offsets for its next batch."""
    number = inspection.logs.last_committed + 1
    planned_offsets = inspection.logs.offsets_contents.get(number)
    stamp = Stamp(
        job=job.name,
        query=query_id,
        run="",
        batch=decision.lineage.batch_number_offset + number,
        output=output,
        offsets_hash="(not planned yet)"
        if planned_offsets is None
        else hash_content(planned_offsets),
        end={},
        row_counts={},
    )
    require_table_not_ahead(inspection.tables[output], stamp)


def _require_no_foreign_batches(
    lineage: CheckpointLineage, tables: Mapping[str, TableLog], target_output: str, output: str
) -> None:
    """Refuse a table with commits after its recorded version that are not of the next batch."""
    own_app_id = app_id(lineage.job, lineage.commit_query_id(lineage.query or ""), output)
    stamps = tables[output].stamps_after(own_app_id, lineage.tables[output].version)
    require_single_writer(
        tables[output].path, stamps, batch=_next_batch_number(lineage, tables, target_output)
    )


def _next_batch_number(
    lineage: CheckpointLineage, tables: Mapping[str, TableLog], target_output: str
) -> int:
    """Return the batch after the last complete one, by its number in the tables."""
    if lineage.backfill is not None:
        # A backfill is batch 0, and complete once the target has it.
        query_id = lineage.backfill.query
        target = tables[target_output]
        if last_batch_in_table(target, lineage.job, query_id, target_output) == NO_BATCH:
            return 0
    return lineage.committed_batches.stop


def schema_checks(
    job: Job, spark: SparkSession, has_table: Callable[[str], bool]
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the schema checks of dead letters, offset gaps, late rows and the target, by name.

    A check reads no records. The check of the target covers all tables of the sink.

    has_table: whether the table of an output exists.

    Raises TableError, by a check, for a table with other columns, types or another layout.
    """
    locations = job.locations

    def check_dead_letters() -> None:
        for job_input in job.inputs.values():
            side_rows = job_input.side_outputs(spark, {}, {})
            locations.dead_letters.check_schema(side_rows.dead_letters())

    def check_offset_gaps() -> None:
        locations.offset_gaps.check_schema(spark.createDataFrame([], OFFSET_GAPS_SCHEMA))

    def check_late_rows(name: str) -> None:
        late_at = None if job.transform is None else job.transform.late_at(F.col(EVENT_TIME))
        if late_at is not None:
            lateness_test = LatenessTest(late_at, UNIX_EPOCH)
            side_rows = job.inputs[name].side_outputs(spark, {}, {}, lateness_test)
            locations.late_rows[name].check_schema(side_rows.late_rows())

    checks: list[tuple[str, Callable[[], str | None]]] = [
        ("dead_letters", check_dead_letters),
        ("offset_gaps", check_offset_gaps),
    ]
    if job.transform is not None:
        checks += [
            (table.output, partial(check_late_rows, name))
            for name, table in locations.late_rows.items()
        ]
    checks.append((job.sink.output, partial(_check_target, job, spark)))

    def run(output: str, check: Callable[[], str | None]) -> str:
        return check() or "the same as the job's" if has_table(output) else "not created yet"

    for output, check in checks:
        yield f"columns {output}", partial(run, output, check)


def _check_target(job: Job, spark: SparkSession) -> str | None:
    def sink_frames() -> Mapping[str, DataFrame]:
        # These streams are never started.
        inputs = {
            name: job_input.stream(spark, f"{OBSERVATION} {index}")
            for index, (name, job_input) in enumerate(job.inputs.items())
        }
        return inputs if job.transform is None else {ROWS: build_query(job, inputs)}

    if job.each_batch is not None or job.emit == "changes" or job.merges_windows:
        return "not checked: defined by each batch"
    try:
        is_checked = job.sink.check_schema(sink_frames)
    except PySparkException as error:
        raise translate_error(error) from error
    return None if is_checked else "not checked: defined by the sink"
