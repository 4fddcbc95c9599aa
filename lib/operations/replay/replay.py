"""Replay: run a job over its log again, into separate tables."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

from pyspark.sql import SparkSession

from ...checkpoint.lineage import NO_BATCH
from ...checkpoint.lineage_files import LineageFiles
from ...checkpoint.offset_log import initial_offsets, parse_offset_log, read_offset_log
from ...engine.backfill_planning import input_offsets
from ...engine.offset_gaps import find_offset_gaps, format_gaps
from ...engine.runner import run
from ...errors import ArgumentError, CheckpointError, SourceError
from ...job.fingerprint import FingerprintDiff, job_fingerprint
from ...job.job import Job, require_job
from ...jvm import AtomicFiles, read_bytes
from ...offsets import Offsets, map_partitions, partition_offset
from ...process.shutdown import Stop, StopRequestedError
from ...sinks import Sink
from ...sources.topics import fetch_topic_states, open_kafka_client, require_same_topics
from ...spark.job_session import in_job_session
from ...spark.spark_errors import explain_disk_errors
from ...startup.environment import table_paths, written_paths
from ...startup.resume import with_start_offsets
from ...startup.swap_journal import REPLAY_SUFFIX, replay_paths
from ...telemetry.stats import Summary
from .comparison import ReplayComparison, compare_tables
from .manifest import ReplayManifest, load_or_create_manifest

_LOG = logging.getLogger(__name__)
_NO_OFFSETS: Offsets = {}


def as_replay_job(job: Job) -> Job:
    """Return the job with separate paths for its tables and its checkpoint.

    These are the job's paths with the suffix ".replay"; a path inside of a table stays inside. The
    job ends at the end of its input, serves no metrics, writes no report, sends no dead letters,
    registers no table in a catalog, and runs no backfill.

    Raises:
        ArgumentError: for a job that sends rows to a topic, a webhook or a store, that contains a
            path which cannot be replaced, or that has an idle timeout.
    """
    for name, job_input in job.inputs.items():
        if job_input.idle_timeout is not None:
            raise ArgumentError(
                f"cannot replay {job.name!r}: its input {name!r} has an idle timeout",
                "inputs without idle_timeout, since a replay has no clock",
                "remove idle_timeout, also from the job that resumes from the replay's checkpoint",
            )
    destinations = sorted(set(_send_destinations(job.sink)))
    if destinations:
        raise ArgumentError(
            f"cannot replay {job.name!r}: it would send rows to {' and '.join(destinations)} again",
            "a job that writes only tables",
            "the same job without that sink",
        )
    new_paths = replay_paths(job)
    late_paths = {name: new_paths[table.path] for name, table in job.locations.late_rows.items()}
    replay_job = replace(
        job,
        sink=_with_new_paths(job.sink, new_paths),
        checkpoint=new_paths[job.locations.checkpoint],
        dead_letter_topic=None,
        dead_letters=new_paths[job.locations.dead_letters.path],
        offset_gaps=new_paths[job.locations.offset_gaps.path],
        catalog=None,
        late_rows=late_paths if len(job.inputs) > 1 else next(iter(late_paths.values())),
        every=None,
        backfill_threshold=None,
        metrics_port=None,
        report=None,
    )
    _require_all_paths_moved(job, replay_job, new_paths)
    return replay_job


def _with_new_paths(value: Any, new_paths: Mapping[str, str]) -> Any:
    """Return a value with its paths replaced; the same object if it has none."""
    rewrite = partial(_with_new_paths, new_paths=new_paths)
    if isinstance(value, str):
        return new_paths.get(value, value)
    if isinstance(value, Mapping):
        rewritten_items = {key: rewrite(each) for key, each in value.items()}
        return value if rewritten_items == value else rewritten_items
    if isinstance(value, list | tuple):
        rewritten_list = type(value)(map(rewrite, value))
        return value if rewritten_list == value else rewritten_list
    if isinstance(value, partial):
        keywords = {key: rewrite(each) for key, each in value.keywords.items()}
        rebuilt = partial(value.func, *map(rewrite, value.args), **keywords)
        is_unchanged = rebuilt.args == value.args and rebuilt.keywords == value.keywords
        return value if is_unchanged else rebuilt
    if is_dataclass(value) and not isinstance(value, type):
        current = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        rewritten = {name: rewrite(each) for name, each in current.items()}
        changed = {name: each for name, each in rewritten.items() if each is not current[name]}
        return replace(value, **changed) if changed else value
    return value


def _send_destinations(value: Any) -> Iterator[str]:
    """Return the destinations other than tables to which the sinks of a value send rows."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _send_destinations(each)
        return
    if isinstance(value, Sink):
        if value.external:
            yield value.destination
        if not is_dataclass(value):
            yield from _send_destinations(value.inner_sinks)
    if is_dataclass(value) and not isinstance(value, type):
        yield from _send_destinations([getattr(value, each.name) for each in fields(value)])


def _require_all_paths_moved(job: Job, replay_job: Job, new_paths: Mapping[str, str]) -> None:
    """Require that the replay neither writes nor reads a table of the job."""
    expected = {step: new_paths[path] for step, path in table_paths(job).items()}
    unmoved = {
        step: path for step, path in table_paths(replay_job).items() if path != expected.get(step)
    }
    for part, text in job_fingerprint(replay_job).items():
        remaining_paths = [path for path in new_paths if repr(path) in text]
        if remaining_paths:
            unmoved[part] = ", ".join(remaining_paths)
    if unmoved:
        details = "; ".join(f"{part} names {path}" for part, path in unmoved.items())
        raise ArgumentError(
            f"cannot replay {job.name!r}: {details}, which cannot be replaced",
            "paths as fields of the sink, or as arguments of a functools.partial",
            "partial(function, path=...) instead of a closure over the path",
        )


@in_job_session
def replay(job: Job, spark: SparkSession, *, ignore: Sequence[str] = ()) -> ReplayComparison | None:
    """Run a changed job over the same records, and compare the results with the job's tables.

    The job has the name, the checkpoint and the tables of the job that ran. The replay writes
    separate tables and a separate checkpoint, under the same paths with the suffix ".replay". It
    reads what the job had read when the replay started: from its first record to the end of its
    last complete batch. The job is not changed, and may run meanwhile. A replay that was killed, or
    stopped by SIGTERM, resumes when it is called again; a finished one compares again.

    ignore: columns that are not compared, such as estimates.

    Returns the comparison, or None if the replay was stopped before its end.

    Raises:
        ArgumentError: for a job with paths that cannot be replaced, or with an idle timeout.
        CheckpointError: for a job that has not run, and for a replay that was started with another
            plan.
        SourceError: if the topics have deleted records that the job has read.
        ColumnTypeError: for tables that cannot be compared.
        TidegateError: as a run raises.

    >>> comparison = replay(changed_job, spark, ignore=["users"])              # doctest: +SKIP
    >>> comparison.differences.is_empty                                        # doctest: +SKIP
    True
    """
    require_job(job)
    replay_job = as_replay_job(job)
    with explain_disk_errors(written_paths(replay_job, spark)):
        manifest = load_or_create_manifest(job, replay_job.locations.checkpoint, spark)
        lineage = LineageFiles(spark, replay_job.locations.checkpoint).read()
        if lineage is not None:
            _require_same_plan(replay_job, lineage.fingerprint)
        if lineage is None or lineage.last_batch == NO_BATCH:
            _require_records_retained(job, spark, manifest)
        started_job = with_start_offsets(replay_job, spark, manifest.start)
        if _run_to_end(started_job, spark, manifest).stopped:
            return None
        return compare_tables(job, replay_job, manifest, spark, ignore=ignore)


def _run_to_end(job: Job, spark: SparkSession, manifest: ReplayManifest) -> Summary:
    """Run a job up to the recorded end, or until a stop is requested.

    A Spark stream from Kafka has no end offsets: with availableNow it reads to the end of the
    topics. A batch whose plan exceeds the end does not run: its plan is truncated, and the query
    starts again.
    """
    checkpoint = job.locations.checkpoint
    while True:
        stop = _StopAtOffsets(spark, checkpoint, manifest.end)
        summary = run(job, spark, stop=stop)
        if stop.first_batch_beyond is None:
            return summary
        if not _truncate_plan(spark, checkpoint, stop.first_batch_beyond, manifest.end):
            summary.stopped = False
            return summary
        message = "%s: batch %s was truncated to the end of the replay: %s"
        _LOG.info(message, job.name, stop.first_batch_beyond, manifest.end)


def _require_same_plan(replay_job: Job, recorded_plan: Mapping[str, str]) -> None:
    changes = FingerprintDiff(recorded_plan, job_fingerprint(replay_job)).descriptions
    if changes:
        raise CheckpointError(
            f"the replay {replay_job.locations.checkpoint} was started with another plan",
            "; ".join(changes),
            "run the job as it was; or for a new replay, delete the folders that end in "
            f"{REPLAY_SUFFIX!r} first",
        )


def _require_records_retained(job: Job, spark: SparkSession, manifest: ReplayManifest) -> None:
    """Require the topics of the job with all records that it has read."""
    for job_input in job.inputs.values():
        start, end = (input_offsets(job_input, each) for each in (manifest.start, manifest.end))
        with open_kafka_client(spark, job_input.source) as kafka:
            topic_states = fetch_topic_states(kafka, job_input.source)
            earliest = kafka.earliest_offsets(end)
        topic_ids = {name: each for name, each in manifest.topics.items() if name in end}
        require_same_topics(topic_ids, topic_states)
        gaps = find_offset_gaps(start, end, earliest)
        if gaps:
            raise SourceError(
                f"cannot replay {job.name!r}: the topic has deleted records that the job has read: "
                f"{format_gaps(gaps)}",
                "a replay reads from the job's first record; its tables would lack these rows",
                "read the retained records with a new checkpoint and new tables",
            )


class _StopAtOffsets(Stop):
    """Stops a run before the first batch that exceeds the end.

    first_batch_beyond: the number of that batch in the checkpoint; None before it.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, end: Offsets) -> None:
        super().__init__()
        self._spark = spark
        self._checkpoint = checkpoint
        self._end = end
        self.first_batch_beyond: int | None = None

    @contextmanager
    def track_batch(self, batch: int) -> Iterator[None]:
        if not self.is_requested:
            _, ends = read_offset_log(self._spark, self._checkpoint, batch)
            if passes_end(ends, self._end):
                self.first_batch_beyond = batch
                self.request()
                raise StopRequestedError
        with super().track_batch(batch):
            yield


def passes_end(ends: Sequence[Offsets], end: Offsets) -> bool:
    """Return whether a plan exceeds the end in a partition."""
    return ends != clamp_offsets(ends, [], end)


def clamp_offsets(
    ends: Sequence[Offsets], starts: Sequence[Offsets], end: Offsets
) -> list[Offsets]:
    """Return the end offsets of a plan, by source, limited to the end.

    starts: the offsets of the sources before the plan; the result is never below them. Partitions
    without an end are not read.

    >>> clamp_offsets([{"t": {0: 9, 1: 3, 2: 5}}], [{"t": {0: 2, 1: 1, 2: 4}}], {"t": {0: 7, 1: 8}})
    [{'t': {0: 7, 1: 3, 2: 4}}]
    """

    def clamp(start: Offsets, topic: str, part: int, stop: int) -> int:
        last = min(stop, partition_offset(end, topic, part))
        return max(partition_offset(start, topic, part), last)

    pairs = zip_longest(ends, starts[: len(ends)], fillvalue=_NO_OFFSETS)
    return [map_partitions(stops, partial(clamp, start)) for stops, start in pairs]


def _truncate_plan(spark: SparkSession, checkpoint: str, batch: int, end: Offsets) -> bool:
    """Truncate the plan of a batch that has not run to the end; return False if it becomes empty.

    A batch without rows remains if it has a newer watermark than the batch before: it writes the
    results that the watermark closes. A kill in between leaves no plan, as before Spark wrote it.

    Raises:
        CheckpointError: for a plan that Spark has not written in this form.
    """
    path = f"{checkpoint}/offsets/{batch}"
    content = read_bytes(spark, path)
    if content is None:
        return True
    meta, ends = parse_offset_log(path, content)
    previous_meta, starts = _previous_plan(spark, checkpoint, batch, ends)
    clamped = clamp_offsets(ends, starts, end)
    watermark_advanced = meta.get("batchWatermarkMs", 0) != previous_meta.get("batchWatermarkMs", 0)
    if clamped == starts and not watermark_advanced:
        return False
    version, metadata_line, *lines = content.decode().split("\n")
    # Lines of sources other than Kafka, or without offsets, stay unchanged.
    lines = [
        json.dumps(offsets, separators=(",", ":")) if offsets else line
        for offsets, line in zip(clamped, lines, strict=True)
    ]
    files = AtomicFiles(spark, f"{checkpoint}/offsets")
    # Not an atomic replacement: Hadoop's checksum file must be deleted with the file.
    files.delete(str(batch))
    truncated = "\n".join([version, metadata_line, *lines]).encode()
    if not files.write(str(batch), truncated, replace=False):
        raise CheckpointError(
            f"cannot truncate the plan {path}",
            "another driver has written it meanwhile",
            "let the other driver end",
        )
    return True


def _previous_plan(
    spark: SparkSession, checkpoint: str, batch: int, ends: Sequence[Offsets]
) -> tuple[dict[str, Any], list[Offsets]]:
    """Return the metadata of the previous plan, and the offsets of each source before this plan."""
    meta, starts = read_offset_log(spark, checkpoint, batch - 1) if batch else ({}, [])
    pairs = zip_longest(ends, starts[: len(ends)], fillvalue=_NO_OFFSETS)
    return meta, [
        initial_offsets(spark, checkpoint, index, stops) if stops and not start else start
        for index, (stops, start) in enumerate(pairs)
    ]
