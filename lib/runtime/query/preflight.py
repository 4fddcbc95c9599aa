"""Checkpoint, tables and configuration held against one another, before a query starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial

from pyspark.sql import SparkSession

from ...commit.delta_log import DeltaCommitLog
from ...commit.epochs import EpochFiles
from ...commit.identity import NEVER, Identity, plan_hash
from ...commit.kept import require_kept, require_noted, require_own
from ...commit.logs import Logs, digest, read_logs, require_logs
from ...commit.once import untouched
from ...commit.protocol import current
from ...commit.stamp import Stamp, app_id
from ...errors import ArgumentError, CheckpointError, ReplayMismatchError
from ...jvm import TopicState
from ...sinks.sink import remade
from ...sources.topics import require_same_topics, topic_states
from ..job import Job
from ..replaying.journal import require_no_switch
from . import plan as plans
from .adopted import adopted, renamed
from .brokers import answers
from .places import steps
from .resume import resumed, told

_READS = 5
ALL = "all"
Check = tuple[str, Callable[[], str]]
"""The name of a check, and the check: it tells what was found, or raises the library's error."""


class Preflight:
    """The checks of one start, which only look; `identity` is what the start then claims.

    resume: whether a new checkpoint may go on where that of the tables ended.
    recreate: the steps whose table is gone and may begin anew, or "all" of those that are gone.
    """

    def __init__(
        self,
        job: Job,
        spark: SparkSession,
        *,
        resume: bool = False,
        recreate: Sequence[str] = (),
    ) -> None:
        self.job = job
        self.spark = spark
        self.files = EpochFiles(spark, job.places.checkpoint)
        self.plan = plans.plan_of(job)
        self.steps = steps(job)
        self._resume = resume
        self._recreate = recreate

    def checks(self) -> Iterator[Check]:
        """Return all checks, in their order."""
        yield "checkpoint", self._checkpoint
        yield "job", self._job
        for step, path in self.steps.items():
            yield f"table {step}", partial(self._table, step, path)
        for name in self.job.inputs:
            yield f"topics {name}", partial(self._topics, name)
        yield "plan", self._plan

    def require(self) -> Identity:
        """Do all checks, and return the identity that the start claims.

        Raises:
            CheckpointError, ReplayMismatchError, LostCheckpointError: for the first that fails.
        """
        for _, check in self.checks():
            check()
        return self.identity

    @cached_property
    def _read(self) -> tuple[Logs, Identity | None]:
        """Read logs and identity as they were at one moment, also of a job that runs."""
        noted = self.files.read()
        for _ in range(_READS):
            logs = read_logs(self.spark, self.job.places.checkpoint)
            again = self.files.read()
            if again == noted:
                break
            noted = again
        return logs, noted

    @property
    def logs(self) -> Logs:
        """The checkpoint's own logs."""
        return self._read[0]

    @property
    def noted(self) -> Identity | None:
        """The identity that the last start left; None for a checkpoint without one."""
        return self._read[1]

    @property
    def begins(self) -> bool:
        """Whether the checkpoint is a new one."""
        return self.noted is None and self.logs.newest == NEVER

    @cached_property
    def tables(self) -> dict[str, DeltaCommitLog]:
        """The log of each step's table, looked at."""
        return {step: untouched(self.spark, path) for step, path in self.steps.items()}

    @cached_property
    def before(self) -> Identity:
        """What was noted; or what the tables' commits say, for want of an identity file."""
        return self.noted or (self._new() if self.begins else self._adopted)

    @cached_property
    def identity(self) -> Identity:
        """What a start claims: what was there before, with the plan of now."""
        noted = self.before
        gone = self._begun_anew(noted)
        kept = {step: mark for step, mark in noted.tables.items() if step not in gone}
        ids = {topic: each.id for states in self.topics.values() for topic, each in states.items()}
        return replace(noted, tables=kept, plan=self.plan, topics={**noted.topics, **ids})

    @property
    def query(self) -> str | None:
        """The query by which the checkpoint's commits are told; None before its first start."""
        return self.identity.written_as(self.logs.query or "") or None

    def _new(self) -> Identity:
        """Return the identity of a new checkpoint, which may go on where a lost one ended."""
        goes_on = self._resume and any(map(self._there, self.steps))
        if not goes_on:
            return Identity(job=self.job.name)
        found, topics = resumed(self.job, self.tables)
        return Identity(job=self.job.name, resumed=found, topics=topics)

    @cached_property
    def _adopted(self) -> Identity:
        wanted = [step for _, step in self.job.sink.tables()]
        return adopted(self.job.name, self.files, self.logs, self.tables, wanted)

    def _checkpoint(self) -> str:
        require_no_switch(self.job)
        noted = self.noted
        if noted is not None:
            require_logs(noted, self.logs)
            return f"batch {noted.batch}, epoch {noted.epoch}, as its identity file says"
        if self.begins:
            found = self.identity.resumed
            return "new" if found is None else f"new; {told(found)}"
        return f"batch {self._adopted.batch}, without an identity file: of before there was one"

    def _topics(self, name: str) -> str:
        source = self.job.inputs[name].reading.source
        found = self.topics.get(name)
        if found is None:
            return f"{source.servers} does not answer: not checked"
        noted = self.before.topics
        wanted = set(found) | (set(noted) & set(source.named))
        require_same_topics({topic: noted[topic] for topic in noted if topic in wanted}, found)
        return ", ".join(f"{topic} ({state.partitions})" for topic, state in found.items())

    @cached_property
    def topics(self) -> dict[str, dict[str, TopicState]]:
        """What the brokers say of each input's topics; nothing where a broker is silent."""
        found = {}
        for name, given in self.job.inputs.items():
            source = given.reading.source
            # Kafka's own client would ask for ten seconds, and the query asks again by itself.
            if answers(source.servers):
                with suppress(OSError):
                    found[name] = topic_states(self.spark, source)
        return found

    def _job(self) -> str:
        noted = self.noted
        if noted is not None and noted.job != self.job.name:
            raise renamed(noted.job, self.job.name, self.job.places.checkpoint)
        known = [] if noted is None else [step for step in noted.tables if step not in self.steps]
        if known and noted is not None:
            lost = ", ".join(f"{step!r} ({noted.tables[step].path})" for step in known)
            raise CheckpointError(
                f"this checkpoint has written the steps {lost}, which the job no longer has; it "
                f"writes {', '.join(map(repr, self.steps))}.",
                "the steps that the checkpoint began with; others may be added.",
                "the sink as it was; for another one a new checkpoint and new tables. Nothing was "
                "written.",
            )
        return self.job.name

    def _table(self, step: str, path: str) -> str:
        log = self.tables[step]
        mark = self.identity.tables.get(step)
        if mark is not None and step not in remade(self.job.sink):
            require_kept(step, mark, log)
        elif log.id is None:
            return f"{path}: not there yet"
        else:
            require_own(step, self.job.name, self.query, log)
            self._require_noted(step, log)
        self._require_not_ahead(step, log)
        return f"{path}: version {log.version}"

    def _require_noted(self, step: str, log: DeltaCommitLog) -> None:
        noted = self.noted
        if noted is not None and self.query is not None and step not in remade(self.job.sink):
            require_noted(step, log.path, self._last(step, log), noted.finished)

    def _require_not_ahead(self, step: str, log: DeltaCommitLog) -> None:
        """Refuse a table that is ahead of the checkpoint, or has other offsets of its batch."""
        if self.query is None:
            return
        number = self.logs.last + 1
        planned = self.logs.offsets.get(number)
        stamp = Stamp(
            job=self.job.name,
            query=self.query,
            run="",
            batch=self.identity.base + number,
            step=step,
            offsets="(not planned yet)" if planned is None else digest(planned),
            end={},
            rows={},
        )
        current(log, stamp)

    def _plan(self) -> str:
        noted = self.noted
        nothing = noted is None or (self.logs.newest == NEVER and noted.backlog is None)
        if noted is None or not noted.plan or nothing:
            return f"{plan_hash(self.plan)}"
        changed = plans.changes(noted.plan, self.plan)
        pairs = {part: (noted.plan.get(part), self.plan.get(part)) for part in changed}
        bound = {part: pair for part, pair in pairs.items() if plans.bound(part, *pair)}
        if bound:
            what = "; ".join(plans.told(part, *pair) for part, pair in bound.items())
            raise CheckpointError(
                f"{what}; the checkpoint's state is of what was before.",
                f"the {' and the '.join(bound)} that the checkpoint began with.",
                "the configuration as it was; for another one a new checkpoint and new tables. "
                "Nothing was written.",
            )
        self._require_whole_batch(noted, changed)
        safe = [f"{plans.told(part, *pair)}: {plans.safe(part)}" for part, pair in pairs.items()]
        return f"changed, and safe: {'; '.join(safe)}" if safe else "unchanged"

    def changed(self) -> list[str]:
        """Tell each part of the plan that has changed since the last start."""
        noted = self.noted
        if noted is None or not noted.plan:
            return []
        return [
            plans.told(part, noted.plan.get(part), self.plan.get(part))
            for part in plans.changes(noted.plan, self.plan)
        ]

    def _require_whole_batch(self, noted: Identity, changed: Sequence[str]) -> None:
        """Refuse another plan for a batch that is in some of its tables already."""
        # What a sole table is written with changes no row that is in the tables beside it.
        counts = [part for part in changed if part != "sink" or len(self.job.sink.tables()) > 1]
        if not counts or self.query is None:
            return
        number = noted.base + noted.batch + 1
        begun = [step for step, log in self.tables.items() if self._last(step, log) >= number]
        if begun:
            parts = "; ".join(
                plans.told(part, noted.plan.get(part), self.plan.get(part)) for part in counts
            )
            raise ReplayMismatchError(
                f"batch {number} is in {', '.join(begun)} already, and was to be finished with "
                f"another plan: {parts}.",
                "one plan for all tables of a batch: else a record may be in two of them.",
                "finish the batch with the configuration that began it, then change it; or, with a "
                "new checkpoint, --resume-from-table. Nothing was written.",
            )

    def _last(self, step: str, log: DeltaCommitLog) -> int:
        last = log.done(app_id(self.job.name, self.query or "", step))
        return NEVER if last is None else last

    def _begun_anew(self, noted: Identity) -> set[str]:
        """Return the steps whose table may be made anew."""
        gone = {step for step in noted.tables if step in self.steps and not self._there(step)}
        if ALL in self._recreate:
            return gone
        for step in self._recreate:
            if step not in gone:
                there = "is there" if step in noted.tables else "was never written"
                raise ArgumentError(
                    f"recreate names {step!r}, whose table {there}.",
                    f"steps whose table is gone: {', '.join(sorted(gone)) or 'none is'}.",
                    "move the table's folder away, where it is to begin anew.",
                )
        return set(self._recreate)

    def _there(self, step: str) -> bool:
        return self.tables[step].id is not None
