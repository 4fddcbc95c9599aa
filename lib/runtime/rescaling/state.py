"""What is to be done to put the state of a checkpoint into other partitions, if it can be done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from ...commit.epochs import EpochFiles, require_no_rescaling
from ...commit.identity import NEVER, Identity
from ...commit.logs import Logs, read_logs
from ...commit.noted_logs import require_logs
from ...errors import ArgumentError, CheckpointError
from ..locations import whole
from ..process.presets import STATE
from ..query.partitions import partitions, settings

_SESSIONS = "sessionWindowStateStoreSaveExec"
KINDS = {
    "stateStoreSave": "aggregation",
    _SESSIONS: "session windows",
    "symmetricHashJoin": "join of two streams",
    "dedupe": "duplicates",
    "dedupeWithinWatermark": "duplicates within the watermark",
    "applyInPandasWithState": "a function with state, such as sequences",
}
"""The operators whose state Spark writes anew, and what each is called."""

_ROCKSDB = "RocksDBStateStoreProvider"
_ANEW = (
    "let the log give the state anew: tidegate replay JOB with the setting that is wanted, then "
    "tidegate replay JOB --switch. Nothing was written."
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be done to a checkpoint; nothing where `before` is `after`, or there is no state.

    identity: what the checkpoint has noted.
    before, after: in how many partitions the state is, and is to be; before is None without state.
    operators: what keeps state, by its number.
    batch: as which batch Spark writes the state anew, by the checkpoint's own count.
    """

    checkpoint: str
    identity: Identity
    before: int | None
    after: int
    operators: Mapping[int, str]
    batch: int

    @property
    def needed(self) -> bool:
        """Whether there is something to do."""
        return self.before is not None and self.before != self.after

    @property
    def resumes(self) -> bool:
        """Whether it was begun before."""
        return self.identity.rescaling is not None

    def __str__(self) -> str:
        name = self.identity.job
        if self.before is None:
            return (
                f"{name}: Spark keeps no state for this job, so that there is nothing to rescale: "
                f"spark.sql.shuffle.partitions={self.after} counts from its next start on."
            )
        if not self.needed:
            return f"{name}: the state is in {self.after} partitions already; nothing to do."
        kinds = ", ".join(f"{KINDS[kind]} ({at})" for at, kind in self.operators.items())
        begun = "goes on: " if self.resumes else ""
        return (
            f"{name}: {begun}the state of {kinds} from {self.before} to {self.after} partitions, "
            f"as batch {self.batch} of {self.checkpoint}, which reads no record and writes to no "
            "table."
        )


def planned(spark: SparkSession, checkpoint: str, to: int) -> Plan:
    """Look at a checkpoint, and return what is to be done; nothing is written.

    Raises:
        ArgumentError: for a number below 1.
        CheckpointError: for a checkpoint whose job has not ended, or of which a batch is begun and
            not finished; that is damaged; or whose state Spark cannot write anew.
    """
    if to < 1:
        raise ArgumentError(f"--to is {to}.", "a number of partitions, 1 or more.")
    path = whole(checkpoint)
    files = EpochFiles(spark, path)
    noted = files.read()
    if noted is None:
        raise CheckpointError(
            f"{path} has no identity file: it is no checkpoint of tidegate, or none of a job that "
            "has run since there are such files.",
            "the folder of output.checkpoint, or of Job(checkpoint=...).",
            "start the job once, and let it end.",
        )
    begun = noted.rescaling
    if begun is not None and begun.after != to:
        require_no_rescaling(noted, path)
    if begun is None and (not noted.ended or files.newest() != noted.epoch):
        raise CheckpointError(
            f"{path} has not ended: its driver runs, or was killed.",
            "a job that has ended.",
            "stop the job; one that was killed is started once more, and ends.",
        )
    logs = read_logs(spark, path)
    before = logs if begun is None else _without(logs, begun.batch)
    require_logs(replace(noted, rescaling=None), before)
    _require_finished(noted, before)
    return plan_of(before, noted, to)


def plan_of(logs: Logs, noted: Identity, to: int) -> Plan:
    """Return what is to be done to a checkpoint of these logs, and refuse what cannot be done."""
    found = Plan(
        checkpoint=logs.path,
        identity=noted,
        before=partitions(logs),
        after=to,
        operators=_operators(logs),
        batch=noted.batch + 1,
    )
    if found.needed:
        _require_possible(found, logs)
    return found


def _without(logs: Logs, batch: int) -> Logs:
    """Return the logs as they were before a batch."""
    return replace(
        logs,
        planned=[at for at in logs.planned if at < batch],
        committed=[at for at in logs.committed if at < batch],
        offsets={at: content for at, content in logs.offsets.items() if at < batch},
        commits={at: content for at, content in logs.commits.items() if at < batch},
    )


def _require_finished(noted: Identity, logs: Logs) -> None:
    if noted.batch == NEVER or not logs.newest == logs.last == noted.batch:
        raise CheckpointError(
            f"{logs.path}: batch {logs.newest} is begun, and {max(logs.last, 0)} is the last that "
            "is finished."
            if noted.batch > NEVER
            else f"{logs.path} has no finished batch.",
            "a checkpoint whose batches are all finished.",
            "start the job once more, and let it end.",
        )


def _operators(logs: Logs) -> dict[int, str]:
    """Return the operators that keep state in Spark, by their numbers."""
    return {at: str(told["operatorInfo"]["operatorName"]) for at, told in _metadata(logs).items()}


def _metadata(logs: Logs) -> dict[int, Any]:
    """Return what Spark has noted of each operator that keeps state."""
    found = {}
    for name, content in sorted(logs.files.items()):
        if name.endswith("/_metadata/metadata"):
            _, _, line = content.partition(b"\n")
            found[int(name.split("/")[1])] = json.loads(line)
    return found


def _require_possible(plan: Plan, logs: Logs) -> None:
    """Refuse state that Spark does not write anew, or not rightly."""
    provider = str(settings(logs).get(STATE, ""))
    if not provider.endswith(_ROCKSDB):
        raise CheckpointError(
            f"{plan.checkpoint} keeps its state by {provider or 'a provider that is not noted'}.",
            f"state in RocksDB ({_ROCKSDB}): Spark writes no other anew.",
            _ANEW,
        )
    unknown = [kind for kind in plan.operators.values() if kind not in KINDS]
    if unknown or not plan.operators:
        raise CheckpointError(
            f"{plan.checkpoint} keeps state of {', '.join(unknown) or 'an operator without name'}.",
            f"state of {', '.join(KINDS)}.",
            _ANEW,
        )
    for operator, told in _metadata(logs).items():
        if _is_without_key(logs.files.get(f"state/{operator}/0/_metadata/schema", b""), told):
            raise CheckpointError(
                f"{plan.checkpoint}: operator {operator} has no key.",
                "state that a key spreads over the partitions: any other is in one, whatever the "
                "setting, and would be lost in a second.",
                "leave it as it is: more partitions change nothing for it. Nothing was written.",
            )


def _is_without_key(schema: bytes, told: Any) -> bool:
    """Return whether an operator's state is of no key, and so in one partition.

    The first schema in the file is that of the keys, as JSON; that of sessions has their start
    besides.
    """
    sessions = told["operatorInfo"]["operatorName"] == _SESSIONS
    prefixed = all(store["numColsPrefixKey"] for store in told["stateStoreInfo"])
    _, _, fields = schema.partition(b'"fields":[')
    return (sessions and not prefixed) or fields.startswith(b"]")
