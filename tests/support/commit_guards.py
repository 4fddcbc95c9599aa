"""The library's own checks around a modelled loop; each mechanism can be left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.commit_explorer import OUTPUTS, TOPIC, Log, ModelPlan, Run, World
from tidegate.checkpoint.lineage import CheckpointLineage
from tidegate.checkpoint.lineage_files import claim_next_epoch
from tidegate.checkpoint.spark_logs import (
    _MAX_FILES_READ,
    CheckpointLogs,
    hash_content,
    require_recorded_logs,
)
from tidegate.commit.batch import UNIX_EPOCH, BatchPlan, BatchStats, Stamp, app_id
from tidegate.commit.driver_lease import DriverLease
from tidegate.commit.ownership import (
    require_own_checkpoint,
    require_single_writer,
    require_unchanged,
)
from tidegate.commit.protocol import commit_exactly_once, require_table_not_ahead
from tidegate.errors import CheckpointError
from tidegate.jvm import TopicState
from tidegate.sources.topics import require_same_topics


@dataclass
class MemoryLineageFiles:
    """The lineage files of a modelled checkpoint."""

    world: World
    path: str = "checkpoint"

    @property
    def _files(self) -> dict[int, CheckpointLineage | None]:
        if self.world.checkpoint is None:
            raise CheckpointError("the checkpoint was deleted")
        return self.world.checkpoint.lineages

    def newest_epoch(self) -> int:
        return max(self._files, default=0)

    def create(self, epoch: int) -> bool:
        if epoch in self._files:
            return False
        self._files[epoch] = None
        return True

    def write(self, lineage: CheckpointLineage) -> None:
        self._files[lineage.epoch] = lineage

    def read(self) -> CheckpointLineage | None:
        written = [self._files[epoch] for epoch in sorted(self._files)]
        return next((each for each in reversed(written) if each is not None), None)

    def delete_old_files(self, epoch: int) -> None:
        return None


class ModelLease(DriverLease):
    """The lease of a run, which reads modelled logs."""

    def _read_log(self, path: str) -> Any:
        files: Any = self.lineage_files
        return Log(files.world, path)

    def _static_file_hashes(self) -> dict[str, str]:
        return {}

    def _with_commit(self, lineage: CheckpointLineage, number: int) -> CheckpointLineage:
        files: Any = self.lineage_files
        content = files.world.checkpoint.commits.get(number)
        if number < 0 or number in lineage.commit_hashes or content is None:
            return lineage
        return lineage.with_commit(number, hash_content(content))


@dataclass
class AllGuards:
    """All checks of the library except the mechanisms that `without` names."""

    without: frozenset[str] = frozenset()
    lease: ModelLease = field(init=False)

    def on_start(self, run: Run) -> None:
        files: Any = MemoryLineageFiles(run.world)
        checkpoint = run.checkpoint()
        lineage = files.read()
        outputs = {output: run.config.table(output) for output in OUTPUTS}
        if lineage is None:
            lineage = CheckpointLineage(job=run.config.job)
            if checkpoint.offsets:
                raise CheckpointError("the lineage file is missing")
        else:
            self._require_recorded(run, lineage)
        for output, path in outputs.items():
            log: Any = Log(run.world, path)
            recorded = lineage.tables.get(output)
            if recorded is not None and "table identity" not in self.without:
                require_unchanged(output, recorded, log)
                own_app_id = app_id(lineage.job, checkpoint.query, output)
                stamps = log.stamps_after(own_app_id, recorded.version)
                require_single_writer(path, stamps, batch=lineage.last_batch + 1)
            elif "owner" not in self.without:
                require_own_checkpoint(output, run.config.job, checkpoint.query, log)
        run.epoch = claim_next_epoch(files)
        claimed_lineage = replace(
            lineage,
            epoch=run.epoch,
            query=checkpoint.query,
            topic_ids={TOPIC: str(run.world.topic)},
            fingerprint={"schema": str(run.config.schema)},
        )
        self.lease = ModelLease(files, claimed_lineage, outputs)
        files.write(claimed_lineage)
        if "fence" not in self.without:
            for output, path in outputs.items():
                Log(run.world, path).fence(app_id(run.config.job, checkpoint.query, output))

    def _require_recorded(self, run: Run, lineage: CheckpointLineage) -> None:
        checkpoint = run.checkpoint()
        if lineage.job != run.config.job and "name" not in self.without:
            raise CheckpointError(f"the checkpoint belongs to job {lineage.job}")
        if "topic id" not in self.without:
            state = TopicState(id=str(run.world.topic), partitions=1)
            require_same_topics(lineage.topic_ids, {TOPIC: state})
        if "offsets hash" in self.without:
            lineage = replace(lineage, offsets_hashes={})
        if "commits hash" in self.without:
            lineage = replace(lineage, commit_hashes={})
        logs = CheckpointLogs(
            path="checkpoint",
            planned_batches=sorted(checkpoint.offsets),
            committed_batches=sorted(checkpoint.commits),
            offsets_contents=_newest_files(checkpoint.offsets),
            commit_contents=_newest_files(checkpoint.commits),
            query=checkpoint.query,
        )
        require_recorded_logs(lineage, logs)

    def on_first_batch(self, run: Run, plan: ModelPlan) -> None:
        for output in OUTPUTS:
            require_table_not_ahead(
                Log(run.world, run.config.table(output)), self._stamp(run, plan, output)
            )

    def write(self, run: Run, log: Log, stamp: Stamp) -> None:
        if "plan hash" not in self.without:
            stamp = replace(stamp, fingerprint_hash=self.lease.fingerprint_hash)
        stamp = replace(stamp, epoch=run.epoch)
        commit_exactly_once(log, stamp, lease=_PartialLease(self), sleep=lambda seconds: None)

    def on_batch_end(self, run: Run, plan: ModelPlan) -> None:
        stamp = self._stamp(run, plan, OUTPUTS[-1])
        batch_plan = BatchPlan(
            job=stamp.job,
            query_id=stamp.query,
            run_id=stamp.run,
            number=stamp.batch,
            offsets_hash=stamp.offsets_hash,
            start={},
            end=stamp.end,
            watermark=UNIX_EPOCH,
        )
        self.lease.record_batch(batch_plan, BatchStats(number=stamp.batch), run.query)

    def on_spark_commit(self, run: Run) -> None:
        self.lease.record_spark_commit()

    def _stamp(self, run: Run, plan: ModelPlan, output: str) -> Stamp:
        fingerprint_hash = None if "plan hash" in self.without else self.lease.fingerprint_hash
        return replace(run.stamp(plan, output), fingerprint_hash=fingerprint_hash)


@dataclass
class _PartialLease:
    """The lease without the checks that the guards leave out."""

    guards: AllGuards

    def require_newest_epoch(self) -> None:
        if "epoch" not in self.guards.without:
            self.guards.lease.require_newest_epoch()

    def require_unchanged(self, log: Any, stamp: Stamp) -> None:
        if "table identity" not in self.guards.without and "owner" not in self.guards.without:
            self.guards.lease.require_unchanged(log, stamp)

    def record_table(self, log: Any, stamp: Stamp) -> None:
        self.guards.lease.record_table(log, stamp)


def _newest_files(files: Mapping[int, bytes]) -> dict[int, bytes]:
    return {number: files[number] for number in sorted(files)[-_MAX_FILES_READ:]}
