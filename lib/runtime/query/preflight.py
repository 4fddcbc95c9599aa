"""Checkpoint, tables and configuration held against one another, before a query starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

from pyspark.sql import SparkSession

from ...commit.epochs import EpochFiles
from ...commit.identity import NEVER, Identity, plan_hash
from ...commit.kept import require_kept, require_noted, require_own
from ...commit.logs import Logs
from ...commit.noted_logs import read_at_one_moment, require_logs
from ...commit.once import untouched
from ...commit.table_log import TableLog
from ...jvm import TopicState
from ...offsets import Offsets
from ...sinks.sink import remade
from ..job import Job
from ..replaying.journal import require_no_switch
from .adopted import adopted
from .ahead import require_not_ahead
from .begun import having, is_unwritten, last_of, next_batch, require_none_beside
from .brokers import asked
from .fitting import fits
from .left_out import read_so_far, require_read_on
from .places import steps
from .plan import plan_of
from .replanned import Replanned
from .resume import resumed, told
from .same_job import added, begun_anew, require_none_added, require_same_job
from .topic_checks import dead_topics, gone, require_topics

Check = tuple[str, Callable[[], str]]
"""The name of a check, and the check: it tells what was found, or raises the library's error."""


class Preflight:
    """The checks of one start, which only look; `identity` is what the start then claims.

    resume: whether a new checkpoint may go on where that of the tables ended.
    recreate: the steps whose table is gone and may begin anew, or "all" of those that are gone;
        and the sink's new steps that may begin with the next batch.
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
        self.plan = plan_of(job)
        self.steps = steps(job)
        self._resume = resume
        self._recreate = recreate

    def checks(self) -> Iterator[Check]:
        """Return all checks in their order."""
        yield "checkpoint", self._checkpoint
        yield "job", self._job
        for step, path in self.steps.items():
            yield f"table {step}", partial(self._table, step, path)
        for name in self.job.inputs:
            yield f"topics {name}", partial(self._topics, name)
        yield "plan", self._plan
        yield from fits(self.job, self.spark, self._there)

    def require(self) -> Identity:
        """Do all checks, and return the identity that the start claims.

        Raises:
            CheckpointError, ReplayMismatchError, TableError: for the first that fails.
        """
        for _, check in self.checks():
            check()
        return self.identity

    @cached_property
    def _read(self) -> tuple[Logs, Identity | None]:
        return read_at_one_moment(self.files)

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
    def tables(self) -> dict[str, TableLog]:
        """The log of each step's table, looked at."""
        return {step: untouched(self.spark, path) for step, path in self.steps.items()}

    @cached_property
    def before(self) -> Identity:
        """What was noted; or what the tables' commits say, for want of an identity file."""
        noted = self.noted or (self._new() if self.begins else self._adopted)
        return replace(noted, backlog=None) if self._is_planned_anew(noted) else noted

    def _is_planned_anew(self, noted: Identity) -> bool:
        """Return whether a backlog that was noted is planned by what the job is now.

        Where its batch ends and the stream begins follows from how rows are read. So a backlog of
        which no table has anything is planned anew once that has changed.
        """
        if self.logs.newest > NEVER or not self.replanned.told:
            return False
        return is_unwritten(noted, self.tables)

    @cached_property
    def identity(self) -> Identity:
        """What a start claims: what was there before, with the plan of now."""
        noted = self.before
        there = {step: self._there(step) for step in self.steps}
        new = added(noted, self._own)
        anew = begun_anew(noted, there, self._recreate, new)
        kept = {step: mark for step, mark in noted.tables.items() if step not in anew}
        ids = {topic: each.id for states in self.topics.values() for topic, each in states.items()}
        return replace(
            noted,
            tables=kept,
            steps=tuple(self._own),
            plan=self.plan,
            topics={**noted.topics, **ids},
            dead_topics=dead_topics(self.job.dead_topic, noted.dead_topics),
        )

    @cached_property
    def _own(self) -> dict[str, str]:
        """The paths of the sink's tables by step, but of those that it makes of its others."""
        made = remade(self.job.sink)
        return {step: path for path, step in self.job.sink.tables() if step not in made}

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
        there = tuple(filter(self._there, self._own))
        return Identity(job=self.job.name, steps=there, resumed=found, topics=topics)

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
        return require_topics(source, found, self.before.topics, self._read_up_to)

    @property
    def gone(self) -> list[str]:
        """What is told of topics that the checkpoint has read, and that are gone."""
        return gone(self.job.inputs, self.topics, self._read_up_to)

    @cached_property
    def _read_up_to(self) -> Offsets:
        return read_so_far(self.logs, self.identity)

    @cached_property
    def topics(self) -> dict[str, dict[str, TopicState]]:
        """What the brokers say of each input's topics; nothing where a broker is silent."""
        return asked(self.job.inputs, self.spark)

    def _job(self) -> str:
        if self.noted is not None:
            checkpoint = self.job.places.checkpoint
            require_same_job(self.noted, self.job.name, checkpoint, self.steps)
        require_none_added(self.before, self._own, self._recreate)
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
        if self.query is not None:
            base = self.identity.base
            require_not_ahead(self.job.name, self.query, base, self.logs, step, log)
        if mark is not None and step not in remade(self.job.sink):
            require_none_beside(self.before, self.tables, self.job.sink.step, step)
        return f"{path}: version {log.version}"

    def _require_noted(self, step: str, log: TableLog) -> None:
        noted = self.noted
        if noted is not None and self.query is not None and step not in remade(self.job.sink):
            require_noted(step, log.path, self._last(step, log), noted.finished)

    def _plan(self) -> str:
        noted = self.noted
        known = {} if noted is None else noted.plan
        require_read_on(self.job.inputs, self._read_up_to, known)
        if noted is None or (self.logs.newest == NEVER and self.before.backlog is None):
            return plan_hash(self.plan)
        number = next_batch(noted, self.tables, self.job.sink.step)
        have = partial(having, self.tables, self.job.name, self.query, number)
        return self.replanned.require(number, have)

    @cached_property
    def replanned(self) -> Replanned:
        """What of the plan has changed since the last start."""
        before = {} if self.noted is None else self.noted.plan
        return Replanned(before, self.plan, tables=len(self.job.sink.tables()))

    def _last(self, step: str, log: TableLog) -> int:
        return last_of(log, self.job.name, self.query or "", step)

    def _there(self, step: str) -> bool:
        return self.tables[step].id is not None
