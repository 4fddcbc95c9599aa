"""Rescaling: repartition the state of a checkpoint while its job is stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from ..checkpoint.lineage import NO_BATCH, CheckpointLineage, Rescaling
from ..checkpoint.lineage_files import LineageFiles, require_no_rescaling
from ..checkpoint.offset_log import parse_offset_log
from ..checkpoint.spark_logs import (
    CheckpointLogs,
    HadoopCheckpoint,
    hash_content,
    next_watermark,
    read_logs,
    require_recorded_logs,
)
from ..errors import ArgumentError, CheckpointError
from ..jvm import delete_folder, list_names, local_folders, repartition_state, root_cause_text
from ..offsets import Offsets
from ..paths import local_path, normalize_path
from ..spark.job_session import in_job_session
from ..spark.presets import STATE_STORE_PROVIDER
from ..spark.session import checkpoint_by_rename
from ..spark.spark_errors import explain_disk_errors, raise_disk_error
from ..startup.start_checks import recorded_state_settings, state_partitions
from ..versions import require_spark
from .offline_lease import OfflineLease, require_ended
from .state_stores import STATE_ERRORS, is_escaped_twice, readable_checkpoint

_SESSION_OPERATOR = "sessionWindowStateStoreSaveExec"
_STATE_OPERATORS = {
    "stateStoreSave": "aggregation",
    _SESSION_OPERATOR: "session windows",
    "symmetricHashJoin": "join of two streams",
    "dedupe": "duplicates",
    "dedupeWithinWatermark": "duplicates within the watermark",
    "applyInPandasWithState": "a function with state, such as sequences",
}
"""The operators whose state Spark can repartition, and their descriptions."""

_ROCKSDB_PROVIDER = "RocksDBStateStoreProvider"
_REPLAY_REMEDY = (
    "rebuild the state from the log: tidegate replay JOB with the target setting, then "
    "tidegate replay JOB --swap. Nothing was written"
)


@dataclass(frozen=True, kw_only=True)
class RescalePlan:
    """The plan of a rescale; empty without state, or if the number of partitions does not change.

    Attributes:
        lineage: the recorded lineage of the checkpoint.
        current_partitions: None without state.
        operators: the stateful operators by number.
        batch: the batch of the checkpoint as which Spark writes the repartitioned state.
    """

    checkpoint: str
    lineage: CheckpointLineage
    current_partitions: int | None
    target_partitions: int
    operators: Mapping[int, str]
    batch: int

    @property
    def is_needed(self) -> bool:
        """Whether the state has to be repartitioned."""
        return self.current_partitions not in (None, self.target_partitions)

    @property
    def is_resumed(self) -> bool:
        """Whether an earlier rescale was interrupted."""
        return self.lineage.rescaling is not None

    def __str__(self) -> str:
        name = self.lineage.job
        if self.current_partitions is None:
            return (
                f"{name}: nothing to do; the job has no state in Spark, and "
                f"spark.sql.shuffle.partitions={self.target_partitions} applies from its next start"
            )
        if not self.is_needed:
            return f"{name}: nothing to do; the state has {self.target_partitions} partitions"
        kinds = ", ".join(f"{_STATE_OPERATORS[kind]} ({at})" for at, kind in self.operators.items())
        verb = "resume rescaling" if self.is_resumed else "rescale"
        return (
            f"{name}: {verb} the state of {kinds} from {self.current_partitions} to "
            f"{self.target_partitions} partitions, as batch {self.batch} of {self.checkpoint}, "
            "which reads no records and writes no table"
        )


def plan_rescale(spark: SparkSession, checkpoint: str, target_partitions: int) -> RescalePlan:
    """Return the plan of a rescale; nothing is written.

    Raises:
        ArgumentError: for a number of partitions below 1.
        CheckpointError: for a checkpoint whose job has not ended, that has an unfinished batch,
            that is damaged, or whose state Spark cannot repartition.
        SetupError: for a Spark older than 4.2.
    """
    require_spark("4.2", "rescale")
    if target_partitions < 1:
        raise ArgumentError(f"invalid --to: {target_partitions}", "1 partition or more")
    path = normalize_path(checkpoint)
    files = LineageFiles(spark, path)
    lineage = files.read()
    if lineage is None:
        raise CheckpointError(
            f"{path} is not a checkpoint of tidegate",
            "it has no lineage file",
            "name the folder of output.checkpoint or Job(checkpoint=...); if the job has not run, "
            "start it once and let it end",
        )
    rescaling = lineage.rescaling
    if rescaling is not None and rescaling.partitions_after != target_partitions:
        require_no_rescaling(lineage, path)
    if rescaling is None:
        require_ended(files, lineage)
    logs = read_logs(HadoopCheckpoint(spark, path))
    logs_before = logs if rescaling is None else _logs_before(logs, rescaling.batch)
    require_recorded_logs(replace(lineage, rescaling=None), logs_before)
    _require_finished(lineage, logs_before)
    return plan_for_logs(logs_before, lineage, target_partitions)


def plan_for_logs(
    logs: CheckpointLogs, lineage: CheckpointLineage, target_partitions: int
) -> RescalePlan:
    """Return the plan for the logs of a checkpoint; raise CheckpointError if it is impossible."""
    plan = RescalePlan(
        checkpoint=logs.path,
        lineage=lineage,
        current_partitions=state_partitions(logs),
        target_partitions=target_partitions,
        operators={
            number: _operator_name(metadata)
            for number, metadata in _operator_metadata(logs).items()
        },
        batch=lineage.last_batch + 1,
    )
    if plan.is_needed:
        _require_rescalable(plan, logs)
    return plan


def _logs_before(logs: CheckpointLogs, batch: int) -> CheckpointLogs:
    """Return the logs without a batch and its successors."""
    return replace(
        logs,
        planned_batches=[at for at in logs.planned_batches if at < batch],
        committed_batches=[at for at in logs.committed_batches if at < batch],
        offsets_contents={
            at: content for at, content in logs.offsets_contents.items() if at < batch
        },
        commit_contents={at: content for at, content in logs.commit_contents.items() if at < batch},
    )


def _require_finished(lineage: CheckpointLineage, logs: CheckpointLogs) -> None:
    if (
        lineage.last_batch == NO_BATCH
        or not logs.last_planned == logs.last_committed == lineage.last_batch
    ):
        number = "no finished" if lineage.last_batch == NO_BATCH else "an unfinished"
        raise CheckpointError(
            f"{logs.path} has {number} batch",
            f"the last planned batch is {logs.last_planned}, the last committed one is "
            f"{logs.last_committed}",
            "start the job once more and let it end",
        )


def _operator_metadata(logs: CheckpointLogs) -> dict[int, Any]:
    return {
        int(name.split("/")[1]): json.loads(content.partition(b"\n")[2])
        for name, content in sorted(logs.static_files.items())
        if name.endswith("/_metadata/metadata")
    }


def _require_rescalable(plan: RescalePlan, logs: CheckpointLogs) -> None:
    """Raise CheckpointError for state that Spark cannot repartition, or not correctly."""

    def not_rescalable(cause: str, remedy: str = _REPLAY_REMEDY) -> CheckpointError:
        return CheckpointError(f"cannot rescale {plan.checkpoint}", cause, remedy)

    if local_path(plan.checkpoint) is None and is_escaped_twice(plan.checkpoint):
        raise not_rescalable(
            "Spark finds no state below a remote path with a space or another character that is "
            "escaped in a URI"
        )
    provider = str(recorded_state_settings(logs).get(STATE_STORE_PROVIDER, ""))
    if not provider.endswith(_ROCKSDB_PROVIDER):
        raise not_rescalable(
            f"its state store is {provider or 'unknown'}; Spark repartitions only "
            f"{_ROCKSDB_PROVIDER}"
        )
    unknown = [kind for kind in plan.operators.values() if kind not in _STATE_OPERATORS]
    if unknown or not plan.operators:
        raise not_rescalable(
            f"it has state of {', '.join(unknown) or 'an operator without name'}; Spark "
            f"repartitions only {', '.join(_STATE_OPERATORS)}"
        )
    for operator, metadata in _operator_metadata(logs).items():
        schema = logs.static_files.get(f"state/{operator}/0/_metadata/schema", b"")
        if _is_without_key(schema, metadata):
            raise not_rescalable(
                f"operator {operator} has no key: its state is in one partition and would be lost",
                "do not change the number of partitions; it has no effect. Nothing was written",
            )


def _is_without_key(schema: bytes, metadata: Any) -> bool:
    """Return whether the state of an operator has no key, and so is in a single partition.

    The first schema in the file is the key schema, as JSON. For sessions it also contains their
    start.
    """
    sessions = _operator_name(metadata) == _SESSION_OPERATOR
    has_prefix_key = all(store["numColsPrefixKey"] for store in metadata["stateStoreInfo"])
    _, _, fields = schema.partition(b'"fields":[')
    return (sessions and not has_prefix_key) or fields.startswith(b"]")


def _operator_name(metadata: Any) -> str:
    return str(metadata["operatorInfo"]["operatorName"])


@in_job_session
def rescale(spark: SparkSession, plan: RescalePlan) -> None:
    """Repartition the state of a checkpoint without changing it.

    Spark writes the state as one more batch with the offsets and the watermark of the last one.
    The lineage records the rescale before it starts; until it is finished, no job starts on the
    checkpoint. After a kill, call it again.

    Raises:
        FencedError: if a driver was started meanwhile.
        CheckpointError: if Spark cannot write the state, or has written another batch.
        SetupError: for a full or read-only disk.
    """
    if not plan.is_needed:
        return
    with explain_disk_errors([plan.checkpoint, *local_folders(spark)]):
        files = LineageFiles(spark, plan.checkpoint)
        lease = _claim_for_rescaling(files, plan)
        checkpoint = HadoopCheckpoint(spark, plan.checkpoint)
        if plan.batch not in read_logs(checkpoint).committed_batches:
            _repartition(spark, plan)
        logs = read_logs(checkpoint)
        _require_rescaled_batch(plan, logs)
        _delete_surplus_partitions(spark, plan)
        lease.require_not_fenced()
        files.write(_finished_lineage(lease.lineage, plan, logs))
        files.delete_old_files(lease.lineage.epoch)


def _repartition(spark: SparkSession, plan: RescalePlan) -> None:
    try:
        with (
            readable_checkpoint(plan.checkpoint) as location,
            checkpoint_by_rename(spark, location),
        ):
            repartition_state(spark, location, plan.target_partitions)
    except STATE_ERRORS as error:
        raise_disk_error(error)
        raise CheckpointError(
            f"Spark could not repartition the state of {plan.checkpoint}",
            root_cause_text(error),
            "remove the cause (the state must be readable), then run tidegate rescale "
            f"{plan.checkpoint} --to {plan.target_partitions} again; or restore the complete "
            "checkpoint from a copy",
        ) from error


def _claim_for_rescaling(files: LineageFiles, plan: RescalePlan) -> OfflineLease:
    assert plan.current_partitions is not None
    recorded_lineage = plan.lineage
    # After an interrupted rescale, refused starts may have claimed epochs.
    epoch = (files.newest_epoch() if plan.is_resumed else recorded_lineage.epoch) + 1
    rescaling = Rescaling(
        batch=plan.batch,
        partitions_before=plan.current_partitions,
        partitions_after=plan.target_partitions,
    )
    lineage = replace(recorded_lineage, epoch=epoch, released=False, rescaling=rescaling)
    return OfflineLease.acquire(files, lineage)


def _require_rescaled_batch(plan: RescalePlan, logs: CheckpointLogs) -> None:
    last_batch, new_batch = plan.batch - 1, plan.batch
    is_valid = (
        logs.last_planned == logs.last_committed == new_batch
        and state_partitions(logs) == plan.target_partitions
        and _offsets_and_watermark(logs, last_batch) == _offsets_and_watermark(logs, new_batch)
    )
    if not is_valid:
        raise CheckpointError(
            f"batch {new_batch} of {logs.path} is not batch {last_batch} with "
            f"{plan.target_partitions} partitions",
            "another version of Spark has written it, or another driver",
            "restore the complete checkpoint from a copy",
        )


def _offsets_and_watermark(logs: CheckpointLogs, batch: int) -> tuple[list[Offsets], int | None]:
    _, ends = parse_offset_log(f"{logs.path}/offsets/{batch}", logs.offsets_contents[batch])
    return ends, next_watermark(f"{logs.path}/commits/{batch}", logs.commit_contents[batch])


def _delete_surplus_partitions(spark: SparkSession, plan: RescalePlan) -> None:
    """Delete the folders of removed partitions, which Spark would not clean up."""
    for operator in plan.operators:
        folder = f"{plan.checkpoint}/state/{operator}"
        numbers = (int(name) for name in list_names(spark, folder) if name.isdecimal())
        for number in sorted(numbers, reverse=True):
            if number >= plan.target_partitions:
                delete_folder(spark, f"{folder}/{number}")


def _finished_lineage(
    lineage: CheckpointLineage, plan: RescalePlan, logs: CheckpointLogs
) -> CheckpointLineage:
    new_batch = plan.batch
    finished = lineage.with_batch(
        new_batch,
        hash_content(logs.offsets_contents[new_batch]),
        {},
        query=lineage.query or logs.query or "",
        max_event_time=None,
    )
    finished = finished.with_commit(new_batch, hash_content(logs.commit_contents[new_batch]))
    return replace(finished, rescaling=None, released=True)
