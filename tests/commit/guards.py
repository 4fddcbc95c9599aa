"""The library's own checks around a modelled loop, and what may be taken out of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.commit.batch import EPOCH, Batch
from tidegate.commit.fence import claimed
from tidegate.commit.identity import Identity
from tidegate.commit.kept import require_alone, require_kept, require_own
from tidegate.commit.known_tables import KnownTables
from tidegate.commit.ledger import Ledger
from tidegate.commit.logs import READ, Logs, digest
from tidegate.commit.noted_logs import require_logs
from tidegate.commit.protocol import current, once
from tidegate.commit.stamp import Stamp, app_id
from tidegate.errors import CheckpointError
from tidegate.jvm import TopicState
from tidegate.sources.topics import require_same_topics

from .world import STEPS, TOPIC, Log, Planned, Run, World


@dataclass
class Files:
    """The identity files of a modelled checkpoint."""

    world: World
    path: str = "checkpoint"

    @property
    def _files(self) -> dict[int, Identity | None]:
        if self.world.checkpoint is None:
            raise CheckpointError("the checkpoint is gone.")
        return self.world.checkpoint.identities

    def newest(self) -> int:
        return max(self._files, default=0)

    def create(self, epoch: int) -> bool:
        if epoch in self._files:
            return False
        self._files[epoch] = None
        return True

    def write(self, identity: Identity) -> None:
        self._files[identity.epoch] = identity

    def read(self) -> Identity | None:
        written = [self._files[epoch] for epoch in sorted(self._files)]
        return next((each for each in reversed(written) if each is not None), None)

    def tidy(self, epoch: int) -> None:
        return None


class ModelTables(KnownTables):
    """The tables of a run, whose logs are modelled."""

    def _log(self, path: str) -> Any:
        files: Any = self._files
        return Log(files.world, path)


class ModelLedger(Ledger):
    """The ledger of a run, which reads the modelled log of commits."""

    def __init__(self, files: Any, identity: Identity, steps: Mapping[str, str]) -> None:
        super().__init__(files, identity, steps)
        self.tables = ModelTables(files, steps)

    def _lasting(self) -> dict[str, str]:
        return {}

    def _with_commit(self, identity: Identity, number: int) -> Identity:
        files: Any = self.files
        content = files.world.checkpoint.commits.get(number)
        if number < 0 or number in identity.commits or content is None:
            return identity
        return identity.committed(number, digest(content))


@dataclass
class Whole:
    """All of the library's checks, but for those that are named in `without`."""

    without: frozenset[str] = frozenset()
    ledger: ModelLedger = field(init=False)

    def begin(self, run: Run) -> None:
        files: Any = Files(run.world)
        checkpoint = run.files()
        noted = files.read()
        plan = {"schema": str(run.config.plan)}
        steps = {step: run.config.table(step) for step in STEPS}
        if noted is None:
            noted = Identity(job=run.config.job)
            if checkpoint.offsets:
                raise CheckpointError("the identity file is gone.")
        else:
            self._require(run, noted)
        for step, path in steps.items():
            log: Any = Log(run.world, path)
            mark = noted.tables.get(step)
            if mark is not None and "table identity" not in self.without:
                require_kept(step, mark, log)
                found = log.stamps(app_id(noted.job, checkpoint.query, step), mark.version)
                require_alone(path, found, batch=noted.batch + 1)
            elif "owner" not in self.without:
                require_own(step, run.config.job, checkpoint.query, log)
        topics = {TOPIC: str(run.world.topic)}
        identity = replace(noted, query=checkpoint.query, topics=topics, plan=plan)
        run.epoch = claimed(files)
        self.ledger = ModelLedger(files, replace(identity, epoch=run.epoch), steps)
        files.write(self.ledger.identity)
        if "fence" not in self.without:
            for step, path in steps.items():
                Log(run.world, path).fence(app_id(run.config.job, checkpoint.query, step))

    def _require(self, run: Run, noted: Identity) -> None:
        checkpoint = run.files()
        if noted.job != run.config.job and "name" not in self.without:
            raise CheckpointError(f"the checkpoint is of job {noted.job}.")
        if "topic id" not in self.without:
            found = TopicState(id=str(run.world.topic), partitions=1)
            require_same_topics(noted.topics, {TOPIC: found})
        logs = Logs(
            path="checkpoint",
            planned=sorted(checkpoint.offsets),
            committed=sorted(checkpoint.commits),
            offsets={at: checkpoint.offsets[at] for at in sorted(checkpoint.offsets)[-READ:]},
            commits={at: checkpoint.commits[at] for at in sorted(checkpoint.commits)[-READ:]},
            query=checkpoint.query,
        )
        if "offsets hash" in self.without:
            noted = replace(noted, offsets={})
        if "commits hash" in self.without:
            noted = replace(noted, commits={})
        require_logs(noted, logs)

    def first(self, run: Run, batch: Planned) -> None:
        for step in STEPS:
            current(Log(run.world, run.config.table(step)), self._stamp(run, batch, step))

    def write(self, run: Run, log: Log, stamp: Stamp) -> None:
        planned = stamp if "plan hash" in self.without else replace(stamp, plan=self.ledger.plan)
        stamped = replace(planned, epoch=run.epoch)
        once(log, stamped, claim=_Claim(self), pause=lambda seconds: None)

    def end(self, run: Run, batch: Planned) -> None:
        stamp = self._stamp(run, batch, STEPS[-1])
        done = Batch(
            job=stamp.job,
            query_id=stamp.query,
            run_id=stamp.run,
            number=stamp.batch,
            offsets_hash=stamp.offsets,
            start={},
            end=stamp.end,
            watermark=EPOCH,
            plan=stamp.plan,
        )
        self.ledger.finished(done, run.query)

    def committed(self, run: Run) -> None:
        self.ledger.committed()

    def _stamp(self, run: Run, batch: Planned, step: str) -> Stamp:
        plan = None if "plan hash" in self.without else self.ledger.plan
        return replace(run.stamp(batch, step), plan=plan)


@dataclass
class _Claim:
    """The ledger as `once` asks it, without what is taken out."""

    guards: Whole

    def require_newest(self) -> None:
        if "epoch" not in self.guards.without:
            self.guards.ledger.require_newest()

    def require_kept(self, log: Any, stamp: Stamp) -> None:
        if "table identity" not in self.guards.without and "owner" not in self.guards.without:
            self.guards.ledger.require_kept(log, stamp)

    def note(self, log: Any, stamp: Stamp) -> None:
        self.guards.ledger.note(log, stamp)
