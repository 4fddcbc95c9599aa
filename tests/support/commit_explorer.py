"""A model of Spark's loop: a topic, a checkpoint, tables, and drivers that stop at any point.

Only the loop is a model; the decisions are those of the library, in the guards of a driver."""

from __future__ import annotations

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.checkpoint.lineage import CheckpointLineage
from tidegate.commit.batch import Stamp
from tidegate.commit.protocol import CommitHook
from tidegate.errors import CheckpointError, ConflictError, SourceError

OUTPUTS = ("dead", "late", "append")
PARTS = ("checkpoint", *OUTPUTS)
TOPIC = "t"
SIZE = 3
"""The maximum number of records in a batch."""


@dataclass(frozen=True)
class Config:
    """What a user can change between two runs: the name of the job, the schema and the target."""

    job: str = "j"
    schema: int = 0
    target: str = "append"

    def table(self, output: str) -> str:
        """Return the table of an output."""
        return self.target if output == "append" else output


@dataclass
class Checkpoint:
    """The files of a checkpoint: Spark's logs, and the lineage by epoch."""

    query: str
    offsets: dict[int, bytes] = field(default_factory=dict)
    commits: dict[int, bytes] = field(default_factory=dict)
    lineages: dict[int, CheckpointLineage | None] = field(default_factory=dict)

    @property
    def next(self) -> int:
        """The number of the next batch, planned or not."""
        return max(self.commits, default=-1) + 1

    def end_offset(self, number: int) -> int:
        """Return the end offset of a batch."""
        if number < 0:
            return 0
        return int(json.loads(self.offsets[number].split(b"\n")[2])[TOPIC]["0"])

    def plan(self, number: int, end: int, time: str) -> None:
        """Write the offsets of a batch; with the time no two plans are equal."""
        watermark = _next_watermark(self.commits.get(number - 1))
        meta = json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": time})
        self.offsets[number] = f'v1\n{meta}\n{{"{TOPIC}":{{"0":{end}}}}}'.encode()

    def commit(self, number: int, watermark: int) -> None:
        """Write the commit of a batch, with the watermark of the next one."""
        self.commits[number] = f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'.encode()


@dataclass(frozen=True)
class Commit:
    """One version of a table: rows with a stamp, a restored version, or a fence.

    name: makes each commit unique, as its time does in Delta.
    """

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
            previous = versions[-1] if versions else []
            restored = commit.restores
            versions.append([*previous, *commit.rows] if restored is None else versions[restored])
        return versions[-1]


@dataclass
class World:
    """Everything that outlives a driver.

    meanwhile: runs between the checks of the next commit and the commit.
    outdated: the outputs that a driver wrote to existing tables after a later one's claim.
    """

    topic: int = 1
    records: int = 0
    checkpoint: Checkpoint | None = None
    tables: dict[str, Table] = field(default_factory=dict)
    name_count: int = 0
    meanwhile: Callable[[], None] | None = None
    answers_lost: int = 0
    outdated: list[str] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        """The newest claimed epoch."""
        return 0 if self.checkpoint is None else max(self.checkpoint.lineages, default=0)

    def new_name(self, prefix: str) -> str:
        """Return a unique name."""
        self.name_count += 1
        return f"{prefix}{self.name_count}"

    def rows(self) -> dict[str, Counter[str]]:
        """Return the rows of each table."""
        return {name: Counter(table.rows()) for name, table in self.tables.items()}

    def back_up(self, part: str) -> object:
        """Return a copy of a part; None for a missing one."""
        return copy.deepcopy(self.checkpoint if part == "checkpoint" else self.tables.get(part))

    def restore(self, part: str, backup: object) -> None:
        """Replace a part by a backup."""
        restored = copy.deepcopy(backup)
        if part == "checkpoint":
            self.checkpoint = restored if isinstance(restored, Checkpoint) else None
        elif isinstance(restored, Table):
            self.tables[part] = restored
        else:
            self.tables.pop(part, None)


@dataclass
class Log:
    """The log of a table for one driver, with the rows that it writes."""

    world: World
    path: str
    rows: tuple[str, ...] = ()
    keeps_transactions: bool = True

    @property
    def table(self) -> Table | None:
        """The current table."""
        return self.world.tables.get(self.path)

    @property
    def id(self) -> str | None:
        return None if self.table is None else self.table.id

    @property
    def version(self) -> int:
        return -1 if self.table is None else len(self.table.commits) - 1

    def commit_hash(self, version: int) -> str | None:
        return None if self.table is None else self.table.commits[version].name

    def restores_after(self, after_version: int) -> dict[int, int | None]:
        commits = [] if self.table is None else self.table.commits
        later = list(enumerate(commits))[after_version + 1 :]
        return {version: each.restores for version, each in later if each.restores is not None}

    def stamps_after(self, app_id: str, after_version: int) -> list[Stamp]:
        commits = [] if self.table is None else self.table.commits[after_version + 1 :]
        stamps = [each.stamp for each in commits if each.stamp is not None]
        return [each for each in stamps if each.app_id == app_id]

    def writer_app_ids(self) -> list[str]:
        return [] if self.table is None else list(self.table.transactions)

    def last_batch(self, app_id: str) -> int | None:
        return None if self.table is None else self.table.transactions.get(app_id)

    def find_stamp(self, app_id: str, batch: int) -> Stamp | None:
        stamps = (each.stamp for each in self._effective_commits() if each.stamp)
        return next((each for each in stamps if (each.app_id, each.batch) == (app_id, batch)), None)

    def _effective_commits(self) -> Iterator[Commit]:
        """Return the commits whose rows the table has, newest first."""
        version = self.version
        while self.table is not None and version >= 0:
            commit = self.table.commits[version]
            yield commit
            version = version - 1 if commit.restores is None else commit.restores

    def fence(self, app_id: str) -> None:
        """Make a commit that conflicts with every open transaction of an application id."""
        if self.table is not None:
            self.table.commits.append(Commit(self.world.new_name("commit"), fences=app_id))

    def commit(self, stamp: Stamp, before_commit: CommitHook | None = None) -> None:
        version = self.version
        if before_commit is not None:
            before_commit()
        meanwhile, self.world.meanwhile = self.world.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        new_commits = [] if self.table is None else self.table.commits[version + 1 :]
        if any(each.fences == stamp.app_id for each in new_commits):
            raise ConflictError("a fence")
        self._append(stamp)
        if self.world.answers_lost:
            self.world.answers_lost -= 1
            raise ConflictError("lost answer")

    def _append(self, stamp: Stamp) -> None:
        table = self.world.tables.get(self.path)
        if table is None:
            table = self.world.tables[self.path] = Table(self.world.new_name("table"))
        if self.keeps_transactions:
            if table.transactions.get(stamp.app_id, -1) >= stamp.batch:
                return
            table.transactions[stamp.app_id] = stamp.batch
        if table.commits and (stamp.epoch or 0) < self.world.epoch:
            self.world.outdated.append(stamp.output)
        table.commits.append(Commit(self.world.new_name("commit"), stamp, self.rows))


@dataclass(frozen=True)
class ModelPlan:
    """The plan of a batch that a driver has read from the checkpoint."""

    number: int
    start: int
    end: int
    watermark: int
    hash: str


class Guards(Protocol):
    """The library's part around Spark's loop."""

    def on_start(self, run: Run) -> None:
        """Refuse a checkpoint and tables that do not belong together."""

    def on_first_batch(self, run: Run, plan: ModelPlan) -> None:
        """Refuse a first batch that does not fit its tables."""

    def write(self, run: Run, log: Log, stamp: Stamp) -> None:
        """Write an output of a batch exactly once."""

    def on_batch_end(self, run: Run, plan: ModelPlan) -> None:
        """Record a batch that is in all of its tables."""

    def on_spark_commit(self, run: Run) -> None:
        """Record the commit of Spark."""


@dataclass
class Run:
    """One driver: its memory, which dies with it.

    skips_written_batches: whether its sink makes no commit if the last table has the batch.
    """

    world: World
    config: Config
    guards: Guards
    skips_written_batches: bool = False
    query: str = ""
    id: str = ""
    epoch: int = 0

    def events(self) -> Iterator[str]:
        """Run until the topic is drained; pause after each event that other drivers can see."""
        world = self.world
        if world.checkpoint is None:
            world.checkpoint = Checkpoint(world.new_name("query"))
        self.query = world.checkpoint.query
        self.id = world.new_name("run")
        self.guards.on_start(self)
        yield "started"
        is_first = True
        while True:
            plan = self._next_plan()
            if plan is None:
                return
            yield "planned"
            if is_first:
                self.guards.on_first_batch(self, plan)
                is_first = False
                yield "checked"
            for output, rows in self._rows_to_write(plan).items():
                log = Log(world, self.config.table(output), rows)
                self.guards.write(self, log, self.stamp(plan, output, len(rows)))
                yield f"{output} written"
            self.guards.on_batch_end(self, plan)
            yield "recorded"
            self._commit(plan)
            yield "committed"
            self.guards.on_spark_commit(self)
            yield "commit recorded"

    def stamp(self, plan: ModelPlan, output: str, row_count: int = 0) -> Stamp:
        """Return the stamp of an output."""
        return Stamp(
            job=self.config.job,
            query=self.query,
            run=self.id,
            batch=plan.number,
            output=output,
            offsets_hash=plan.hash,
            end={TOPIC: {0: plan.end}},
            row_counts={"out": row_count},
        )

    def checkpoint(self) -> Checkpoint:
        """Return the checkpoint, unless it was deleted."""
        if self.world.checkpoint is None:
            raise CheckpointError("the checkpoint was deleted")
        return self.world.checkpoint

    def _next_plan(self) -> ModelPlan | None:
        checkpoint = self.checkpoint()
        number = checkpoint.next
        if number > 0 and number - 1 not in checkpoint.offsets:
            raise CheckpointError("Spark lacks the offsets of a committed batch")
        if number not in checkpoint.offsets:
            start = checkpoint.end_offset(number - 1)
            if start > self.world.records:
                raise SourceError("the topic ends before the checkpoint")
            if start == self.world.records:
                return None
            time = self.world.new_name("time")
            checkpoint.plan(number, min(start + SIZE, self.world.records), time)
        return self._read_plan(number)

    def _read_plan(self, number: int) -> ModelPlan:
        checkpoint = self.checkpoint()
        content = checkpoint.offsets[number]
        return ModelPlan(
            number,
            start=checkpoint.end_offset(number - 1),
            end=checkpoint.end_offset(number),
            watermark=json.loads(content.split(b"\n")[1])["batchWatermarkMs"],
            hash=hashlib.sha256(content).hexdigest(),
        )

    def _rows_to_write(self, plan: ModelPlan) -> dict[str, tuple[str, ...]]:
        """Return the rows that the sink writes, by output; an output without rows is left out."""
        rows_by_output = {output: rows for output in OUTPUTS if (rows := self._rows(plan, output))}
        last_output = list(rows_by_output)[-1]
        log = Log(self.world, self.config.table(last_output))
        last_batch = log.last_batch(self.stamp(plan, last_output).app_id)
        is_written = last_batch is not None and last_batch >= plan.number
        return {} if self.skips_written_batches and is_written else rows_by_output

    def _rows(self, plan: ModelPlan, output: str) -> tuple[str, ...]:
        if plan.end > self.world.records:
            raise SourceError("the topic ends before the batch")
        return tuple(
            f"{self.world.topic}.{number}"
            for number in range(plan.start, plan.end)
            if self._output_of(plan, number) == output
        )

    def _output_of(self, plan: ModelPlan, number: int) -> str:
        """Return the output of a record; a record before the watermark is late."""
        if number < plan.watermark:
            return "late"
        return "dead" if (number + self.config.schema) % 4 == 0 else "append"

    def _commit(self, plan: ModelPlan) -> None:
        checkpoint = self.checkpoint()
        if plan.number in checkpoint.commits:
            raise CheckpointError("another query has committed the batch")
        checkpoint.commit(plan.number, plan.end)


def _next_watermark(commit: bytes | None) -> int:
    return 0 if commit is None else int(json.loads(commit.split(b"\n")[1])["nextBatchWatermarkMs"])
