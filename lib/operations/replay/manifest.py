"""The manifest of a replay: the state of the job at its start, written once to its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from ...checkpoint.lineage import NO_BATCH, RECORDED_TABLE_FORM, RecordedTable
from ...checkpoint.lineage_files import LINEAGE_FOLDER, LineageFiles
from ...checkpoint.persisted_json import (
    OFFSETS,
    PLAIN,
    FormatVersion,
    HashedFile,
    JsonForm,
    mapping_of,
)
from ...commit.batch import BatchPlan
from ...errors import CheckpointError
from ...job.job import Job
from ...jvm import AtomicFiles
from ...offsets import Offsets, iterate_partitions
from ..compare import read_complete_range, read_job_batch

_FILE = "replay.json"


@dataclass(frozen=True, kw_only=True)
class ReplayManifest:
    """The state of a job at the start of its replay, which determines the range of the replay.

    Attributes:
        start, end: the offsets that the replay reads, end exclusive: what the job had read by its
            last complete batch.
        batch: the number of that batch in the job's checkpoint.
        watermark_ms: the watermark of that batch, in milliseconds since 1970.
        tables: by output, each table after that batch.
        topics: by name, Kafka's id of each topic that the job had read.
    """

    start: Offsets
    end: Offsets
    batch: int
    watermark_ms: int
    tables: Mapping[str, RecordedTable]
    topics: Mapping[str, str]


MANIFEST_FILE = HashedFile(
    FormatVersion("tidegate replay", 1),
    JsonForm(
        ReplayManifest,
        {
            "start": ("start_offsets", OFFSETS),
            "end": ("end_offsets", OFFSETS),
            "batch": "batch",
            "watermark_ms": "watermark_ms",
            "tables": ("tables", mapping_of(RECORDED_TABLE_FORM.codec)),
            "topics": ("topic_ids", mapping_of(PLAIN)),
        },
    ),
    remedy="delete the replay's tables and its checkpoint, and replay again.",
)


def load_or_create_manifest(job: Job, checkpoint: str, spark: SparkSession) -> ReplayManifest:
    """Return the manifest in a replay's checkpoint; the first call creates it.

    Raises:
        CheckpointError: for a job without a complete batch, and for a checkpoint that is not a
            replay's.
    """
    files = AtomicFiles(spark, f"{checkpoint}/{LINEAGE_FOLDER}")
    path = f"{checkpoint}/{LINEAGE_FOLDER}/{_FILE}"
    content = files.read(_FILE)
    if content is not None:
        return MANIFEST_FILE.from_json(content, path)
    if LineageFiles(spark, checkpoint).newest_epoch() > 0:
        raise CheckpointError(
            f"{checkpoint} is not the checkpoint of a replay",
            f"{path} is missing",
            "move it away, with its tables",
        )
    manifest = _create_manifest(job, spark)
    files.write(_FILE, MANIFEST_FILE.to_json(manifest).encode(), replace=False)
    return manifest


def final_replay_batch(job: Job, manifest: ReplayManifest, spark: SparkSession) -> BatchPlan:
    """Return the last complete batch of a replay.

    Raises:
        CheckpointError: for a replay that has not reached its end, or has passed it.
    """
    checkpoint = job.locations.checkpoint
    lineage = LineageFiles(spark, checkpoint).read()
    number = NO_BATCH if lineage is None else lineage.last_batch
    last_batch = None if number == NO_BATCH else read_job_batch(job, spark, number)
    replay_ends = {} if last_batch is None else last_batch.end
    for topic, part, end in iterate_partitions(manifest.end):
        position = replay_ends.get(topic, {}).get(part)
        if position != end:
            raise CheckpointError(
                f"the replay {checkpoint} is not at its end",
                f"it is at {position} of {topic}-{part}, and the replay ends at {end}",
                "resume it: tidegate replay JOB; after a swap it runs as the job, and is not "
                "a replay any more",
            )
    assert last_batch is not None  # A replay starts only for a job that has read a topic.
    return last_batch


def _create_manifest(job: Job, spark: SparkSession) -> ReplayManifest:
    """Return the manifest of a job as it is now; the job may run meanwhile."""
    checkpoint = job.locations.checkpoint
    lineage = LineageFiles(spark, checkpoint).read()
    problem = f"cannot replay {job.name!r}"
    if lineage is None or lineage.last_batch == NO_BATCH:
        raise CheckpointError(
            problem,
            f"{checkpoint} has no complete batch to compare a replay with",
            "run the job first; or correct its paths",
        )
    if lineage.job != job.name:
        raise CheckpointError(
            problem,
            f"{checkpoint} belongs to the job {lineage.job!r}",
            f"use the same name: name={lineage.job!r}",
        )
    if lineage.resume_point is not None:
        raise CheckpointError(
            problem,
            f"{checkpoint} resumed from tables after an earlier checkpoint was lost: its tables "
            "contain rows that it has not read",
            "replay a job whose checkpoint has read all rows of its tables",
        )
    plan = read_complete_range(job, spark, lineage)
    return ReplayManifest(
        start=plan.start,
        end=plan.end,
        batch=lineage.last_batch,
        watermark_ms=round(plan.watermark.timestamp() * 1000),
        tables=lineage.tables,
        topics=lineage.topic_ids,
    )
