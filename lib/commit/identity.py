"""What a checkpoint belongs to: job, query, tables, topics and plan, in a small file beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

from ..errors import CheckpointError
from ..offsets import EventTimes
from .hashed import fields_of, text_of
from .origins import Backlog, Resumed, backlog, resumed
from .plan_file import by_partition

NEVER = -1
"""The number of the last whole batch before there is one."""
_KIND = "tidegate identity/1"
_KEPT = 2
_Noted = TypeVar("_Noted")


@dataclass(frozen=True, kw_only=True)
class TableMark:
    """A table as a batch left it: Delta's id, the version, and a hash of that version's commit."""

    path: str
    id: str
    version: int
    commit: str


@dataclass(frozen=True, kw_only=True)
class Rescaling:
    """A change of the number of the state's partitions that has begun, and is not finished.

    batch: as which Spark writes the state anew, by the checkpoint's own count.
    before, after: in how many partitions the state was, and is to be.
    """

    batch: int
    before: int
    after: int

    def finish(self, checkpoint: str) -> str:
        """Return the command that finishes it."""
        return f"tidegate rescale {checkpoint} --to {self.after}"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a checkpoint belongs to, as its last whole batch left it.

    job, query: the job's name, and Spark's id of the query; None before the first start.
    epoch: the number of the start that wrote this; a later start has a greater one.
    batch: the last batch whose tables are all written, by the checkpoint's own count; -1 before.
    offsets, commits: SHA-256 of the newest files of the checkpoint's logs, by batch.
    files: SHA-256 of the checkpoint's files that stay as they were first written, by path in it.
    tables: by step, every table as it was left.
    steps: the sink's steps, each of which gets every batch from here on; None where an older
        version noted none.
    topics: by name, Kafka's id of each topic. streams: by input, the number of its streams.
    dead_topics: the topics that dead letters may have been sent to, by this start or earlier ones.
    plan: what the query is, part by part, in readable text.
    latest: the newest event time that was read, in microseconds since 1970.
    newest: where rows are late by the log, that of each partition after the newest batches, by
        batch.
    resumed: where a lost checkpoint ended; None for one that began by itself.
    backlog: what was read as one batch, which is batch 0 of the tables; None for a stream alone.
    rescaling: what has begun to change the number of the state's partitions; None for nothing.
    ended: whether the driver has said that it writes no more.
    """

    job: str
    query: str | None = None
    epoch: int = 0
    batch: int = NEVER
    offsets: Mapping[int, str] = field(default_factory=dict)
    commits: Mapping[int, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, TableMark] = field(default_factory=dict)
    steps: tuple[str, ...] | None = None
    topics: Mapping[str, str] = field(default_factory=dict)
    streams: Mapping[str, int] = field(default_factory=dict)
    dead_topics: tuple[str, ...] = ()
    plan: Mapping[str, str] = field(default_factory=dict)
    latest: int | None = None
    newest: Mapping[int, EventTimes] = field(default_factory=dict)
    resumed: Resumed | None = None
    backlog: Backlog | None = None
    rescaling: Rescaling | None = None
    ended: bool = False

    @property
    def base(self) -> int:
        """What is added to a batch's number in the checkpoint, for its number in the tables."""
        if self.resumed is not None:
            return self.resumed.base
        return 0 if self.backlog is None else 1

    @property
    def finished(self) -> range:
        """The batches that are in all of their tables, by their numbers there."""
        return range(self.base, self.base + self.batch + 1)

    @property
    def written(self) -> bool:
        """Whether a batch is in its tables: the stream's, the backlog's, a lost checkpoint's."""
        return self.batch > NEVER or bool(self.tables) or self.resumed is not None

    @property
    def whole(self) -> int | None:
        """Up to which instant results are left out, in microseconds since 1970; None for none."""
        found = self.resumed or self.backlog
        return None if found is None else found.whole

    def written_as(self, query: str) -> str:
        """Return the query by which commits are told."""
        found = self.resumed or self.backlog
        return query if found is None else found.query

    def after(
        self,
        number: int,
        offsets: str,
        tables: Mapping[str, TableMark],
        *,
        query: str,
        latest: int | None,
        topics: Mapping[str, str] | None = None,
        newest: EventTimes | None = None,
    ) -> Identity:
        """Return the identity once a batch is in all of its tables."""
        times = [time for time in (self.latest, latest) if time is not None]
        reached = {} if newest is None else {number: newest}
        return replace(
            self,
            query=query,
            batch=number,
            offsets=_newest({**self.offsets, number: offsets}),
            tables={**self.tables, **tables},
            topics={**self.topics, **(topics or {})},
            latest=max(times, default=None),
            newest=_newest({**self.newest, **reached}),
        )

    def taken_up(self, own: Identity) -> Identity:
        """Return what a driver before this one has noted, as noted by this one."""
        return replace(
            self, epoch=own.epoch, plan=own.plan, steps=own.steps, streams=own.streams, ended=False
        )

    def committed(self, number: int, commit: str) -> Identity:
        """Return the identity with the hash of a batch's file in the log of commits."""
        return replace(self, commits=_newest({**self.commits, number: commit}))

    def text(self) -> str:
        """Return the file's content: JSON that bears a hash of itself."""
        return text_of(_KIND, asdict(self))

    @classmethod
    def parse(cls, content: bytes, path: str) -> Identity:
        """Return the identity that a file holds.

        Raises:
            CheckpointError: for a file that is not whole.
        """
        found = fields_of(_KIND, content)
        if found is None:
            raise CheckpointError(
                f"{path} is damaged: its content does not have the hash that it bears.",
                "the file as the last batch wrote it.",
                "restore the checkpoint from a copy; or, with a new checkpoint, "
                "--resume-from-table. Nothing was written.",
            )
        return cls(
            **{
                **found,
                "offsets": _by_number(found["offsets"]),
                "commits": _by_number(found["commits"]),
                "tables": {step: TableMark(**mark) for step, mark in found["tables"].items()},
                "steps": _steps(found.get("steps")),
                "dead_topics": tuple(found.get("dead_topics", ())),
                "newest": _by_batch(found.get("newest", {})),
                "resumed": resumed(found["resumed"]),
                "backlog": backlog(found.get("backlog")),
                "rescaling": _rescaling(found.get("rescaling")),
            }
        )


def plan_hash(plan: Mapping[str, str]) -> str:
    """Return a short hash of a plan, which stamps bear."""
    text = json.dumps(dict(plan), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _newest(noted: Mapping[int, _Noted]) -> dict[int, _Noted]:
    return {number: noted[number] for number in sorted(noted)[-_KEPT:]}


def _by_number(hashes: Mapping[str, str]) -> dict[int, str]:
    return {int(number): text for number, text in hashes.items()}


def _by_batch(noted: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[int, EventTimes]:
    return {int(number): by_partition(times) for number, times in noted.items()}


def _steps(found: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if found is None else tuple(found)


def _rescaling(found: Mapping[str, int] | None) -> Rescaling | None:
    return None if found is None else Rescaling(**found)
