"""Spark's loop without Spark: a topic, a checkpoint, tables, and drivers that stop at any step.

Only the loop is a model: what decides is the library's own, in the guards of a driver."""

from __future__ import annotations

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.commit.identity import Identity
from tidegate.commit.protocol import Look
from tidegate.commit.stamp import Stamp
from tidegate.errors import CheckpointError, ConflictError, SourceError

STEPS = ("dead", "late", "append")
PARTS = ("checkpoint", *STEPS)
TOPIC = "t"
SIZE = 3
"""The most records of a batch."""


@dataclass(frozen=True)
class Config:
    """What a person may change between two runs: the job's name, how rows are read, the target."""

    job: str = "j"
    plan: int = 0
    target: str = "append"

    def table(self, step: str) -> str:
        """Return the table of a step."""
        return self.target if step == "append" else step


@dataclass
class Checkpoint:
    """The files of a checkpoint: the logs as Spark writes them, and the identity by epochs."""

    query: str
    offsets: dict[int, bytes] = field(default_factory=dict)
    commits: dict[int, bytes] = field(default_factory=dict)
    identities: dict[int, Identity | None] = field(default_factory=dict)

    @property
    def next(self) -> int:
        """The number of the batch that comes next, whether it is planned or not."""
        return max(self.commits, default=-1) + 1

    def last(self, number: int) -> int:
        """Return where a batch ends."""
        if number < 0:
            return 0
        return int(json.loads(self.offsets[number].split(b"\n")[2])[TOPIC]["0"])

    def plan(self, number: int, last: int, name: str) -> None:
        """Write a batch's offsets; no two plans are one text, since Spark writes the time too."""
        mark = _next_mark(self.commits.get(number - 1))
        meta = json.dumps({"batchWatermarkMs": mark, "batchTimestampMs": name})
        self.offsets[number] = f'v1\n{meta}\n{{"{TOPIC}":{{"0":{last}}}}}'.encode()

    def commit(self, number: int, mark: int) -> None:
        """Write that a batch is done, with the watermark of the next."""
        self.commits[number] = f'v1\n{{"nextBatchWatermarkMs":{mark}}}'.encode()


@dataclass(frozen=True)
class Commit:
    """One version of a table: rows with a stamp, the version that it puts back, or a fence.

    No two commits are one text: `name` is in place of their times."""

    name: str
    stamp: Stamp | None = None
    rows: tuple[str, ...] = ()
    restores: int | None = None
    fences: str | None = None


@dataclass
class Table:
    """A Delta table's log: stamps, rows and transaction numbers commit together."""

    id: str
    commits: list[Commit] = field(default_factory=list)
    transactions: dict[str, int] = field(default_factory=dict)

    def rows(self) -> list[str]:
        """Return the rows of the newest version."""
        versions: list[list[str]] = []
        for commit in self.commits:
            before = versions[-1] if versions else []
            back = commit.restores
            versions.append([*before, *commit.rows] if back is None else versions[back])
        return versions[-1]


@dataclass
class World:
    """All that outlives a driver. `meanwhile` happens between a commit's look and the commit.

    outdated: the steps that a driver wrote after a later one's claim, where the table was there.
    """

    topic: int = 1
    records: int = 0
    checkpoint: Checkpoint | None = None
    tables: dict[str, Table] = field(default_factory=dict)
    made: int = 0
    meanwhile: Callable[[], None] | None = None
    answers_lost: int = 0
    outdated: list[str] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        """The newest epoch that was claimed."""
        return 0 if self.checkpoint is None else max(self.checkpoint.identities, default=0)

    def name(self, kind: str) -> str:
        """Return an id that nothing else has."""
        self.made += 1
        return f"{kind}{self.made}"

    def rows(self) -> dict[str, Counter[str]]:
        """Return the rows of each table."""
        return {name: Counter(table.rows()) for name, table in self.tables.items()}

    def copy_of(self, part: str) -> object:
        """Return a part as a backup has it; None where it is not there."""
        return copy.deepcopy(self.checkpoint if part == "checkpoint" else self.tables.get(part))

    def put(self, part: str, backup: object) -> None:
        """Put a backup in the place of a part."""
        restored = copy.deepcopy(backup)
        if part == "checkpoint":
            self.checkpoint = restored if isinstance(restored, Checkpoint) else None
        elif isinstance(restored, Table):
            self.tables[part] = restored
        else:
            self.tables.pop(part, None)


@dataclass
class Log:
    """A table's log as one driver sees it, with the rows that it would write."""

    world: World
    path: str
    rows: tuple[str, ...] = ()
    keeps_transactions: bool = True

    @property
    def table(self) -> Table | None:
        """The table, as it is now."""
        return self.world.tables.get(self.path)

    @property
    def id(self) -> str | None:
        return None if self.table is None else self.table.id

    @property
    def version(self) -> int:
        return -1 if self.table is None else len(self.table.commits) - 1

    def digest(self, version: int) -> str | None:
        return None if self.table is None else self.table.commits[version].name

    def restores(self, since: int) -> dict[int, int | None]:
        commits = [] if self.table is None else self.table.commits
        later = list(enumerate(commits))[since + 1 :]
        return {at: each.restores for at, each in later if each.restores is not None}

    def stamps(self, app_id: str, since: int) -> list[Stamp]:
        commits = [] if self.table is None else self.table.commits[since + 1 :]
        found = [each.stamp for each in commits if each.stamp is not None]
        return [each for each in found if each.app_id == app_id]

    def writers(self) -> list[str]:
        return [] if self.table is None else list(self.table.transactions)

    def done(self, app_id: str) -> int | None:
        return None if self.table is None else self.table.transactions.get(app_id)

    def stamp(self, app_id: str, number: int) -> Stamp | None:
        found = [each.stamp for each in self._commits() if each.stamp]
        ours = [each for each in found if (each.app_id, each.batch) == (app_id, number)]
        return ours[0] if ours else None

    def _commits(self) -> Iterator[Commit]:
        """Return the commits whose rows the table has, the newest first."""
        version = self.version
        while self.table is not None and version >= 0:
            commit = self.table.commits[version]
            yield commit
            version = version - 1 if commit.restores is None else commit.restores

    def fence(self, app_id: str) -> None:
        """Make a commit that every transaction of an application id meets."""
        if self.table is not None:
            self.table.commits.append(Commit(self.world.name("commit"), fences=app_id))

    def commit(self, stamp: Stamp, look: Look | None = None) -> None:
        begun = self.version
        if look is not None:
            look()
        happens, self.world.meanwhile = self.world.meanwhile, None
        if happens is not None:
            happens()
        since = [] if self.table is None else self.table.commits[begun + 1 :]
        if any(each.fences == stamp.app_id for each in since):
            raise ConflictError("a fence")
        self._put(stamp)
        if self.world.answers_lost:
            self.world.answers_lost -= 1
            raise ConflictError("ourselves")

    def _put(self, stamp: Stamp) -> None:
        table = self.world.tables.get(self.path)
        if table is None:
            table = self.world.tables[self.path] = Table(self.world.name("table"))
        if self.keeps_transactions:
            if table.transactions.get(stamp.app_id, -1) >= stamp.batch:
                return
            table.transactions[stamp.app_id] = stamp.batch
        if table.commits and (stamp.epoch or 0) < self.world.epoch:
            self.world.outdated.append(stamp.step)
        table.commits.append(Commit(self.world.name("commit"), stamp, self.rows))


@dataclass(frozen=True)
class Planned:
    """A batch as its driver read it from the checkpoint."""

    number: int
    first: int
    last: int
    mark: int
    hash: str


class Guards(Protocol):
    """What the library does around Spark's loop."""

    def begin(self, run: Run) -> None:
        """Refuse a start whose parts do not belong together."""

    def first(self, run: Run, batch: Planned) -> None:
        """Refuse a run's first batch where its tables do not fit."""

    def write(self, run: Run, log: Log, stamp: Stamp) -> None:
        """Write a step of a batch once."""

    def end(self, run: Run, batch: Planned) -> None:
        """Note what belongs together after a batch."""

    def committed(self, run: Run) -> None:
        """Note what Spark has written after a batch."""


@dataclass
class Run:
    """One driver: its memory, which dies with it.

    leaves: whether its sink asks for none of its tables where the last one has the batch."""

    world: World
    config: Config
    guards: Guards
    leaves: bool = False
    query: str = ""
    id: str = ""
    epoch: int = 0

    def steps(self) -> Iterator[str]:
        """Run until the topic is drained, and stop after each thing that others can see."""
        world = self.world
        if world.checkpoint is None:
            world.checkpoint = Checkpoint(world.name("query"))
        self.query = world.checkpoint.query
        self.id = world.name("run")
        self.guards.begin(self)
        yield "begun"
        begun = False
        while True:
            batch = self._planned()
            if batch is None:
                return
            yield "planned"
            if not begun:
                self.guards.first(self, batch)
                begun = True
                yield "looked at"
            for step, rows in self._unwritten(batch).items():
                log = Log(world, self.config.table(step), rows)
                self.guards.write(self, log, self.stamp(batch, step, len(rows)))
                yield f"{step} written"
            self.guards.end(self, batch)
            yield "noted"
            self._commit(batch)
            yield "committed"
            self.guards.committed(self)
            yield "seen"

    def _unwritten(self, batch: Planned) -> dict[str, tuple[str, ...]]:
        """Return the rows of each step that the sink writes; a step without rows is none."""
        every = {step: rows for step in STEPS if (rows := self._rows(batch, step))}
        last = list(every)[-1]
        done = Log(self.world, self.config.table(last)).done(self.stamp(batch, last).app_id)
        return {} if self.leaves and done is not None and done >= batch.number else every

    def stamp(self, batch: Planned, step: str, rows: int = 0) -> Stamp:
        """Return the stamp of a step."""
        return Stamp(
            job=self.config.job, query=self.query, run=self.id, batch=batch.number, step=step,
            offsets=batch.hash, end={TOPIC: {0: batch.last}}, rows={"out": rows},
        )  # fmt: skip

    def files(self) -> Checkpoint:
        """Return the checkpoint, which another may have taken away."""
        if self.world.checkpoint is None:
            raise CheckpointError("the checkpoint is gone.")
        return self.world.checkpoint

    def _planned(self) -> Planned | None:
        files = self.files()
        number = files.next
        if number > 0 and number - 1 not in files.offsets:
            raise CheckpointError("Spark misses the offsets of a batch with a commit.")
        if number not in files.offsets:
            first = files.last(number - 1)
            if first > self.world.records:
                raise SourceError("the topic ends before the checkpoint.")
            if first == self.world.records:
                return None
            files.plan(number, min(first + SIZE, self.world.records), self.world.name("at"))
        return self._read(number)

    def _read(self, number: int) -> Planned:
        files = self.files()
        content = files.offsets[number]
        mark = json.loads(content.split(b"\n")[1])["batchWatermarkMs"]
        hash = hashlib.sha256(content).hexdigest()
        return Planned(number, files.last(number - 1), files.last(number), mark, hash)

    def _rows(self, batch: Planned, step: str) -> tuple[str, ...]:
        if batch.last > self.world.records:
            raise SourceError("the topic ends before the batch.")
        return tuple(
            f"{self.world.topic}.{number}"
            for number in range(batch.first, batch.last)
            if self._step(batch, number) == step
        )

    def _step(self, batch: Planned, number: int) -> str:
        """Tell where a record belongs: one that is before the watermark is late."""
        if number < batch.mark:
            return "late"
        return "dead" if (number + self.config.plan) % 4 == 0 else "append"

    def _commit(self, batch: Planned) -> None:
        files = self.files()
        if batch.number in files.commits:
            raise CheckpointError("another query has committed the batch.")
        files.commit(batch.number, batch.last)


def _next_mark(commit: bytes | None) -> int:
    return 0 if commit is None else int(json.loads(commit.split(b"\n")[1])["nextBatchWatermarkMs"])
