"""A Delta table's changes into a sink, version by version: Delta's log is the plan."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from ..columns import names, require_whole
from ..commit import EPOCH, Batch
from ..commit.kept import others
from ..commit.named import path_of
from ..commit.once import untouched
from ..commit.stamp import app_id
from ..commit.table_log import TableLog
from ..errors import ColumnTypeError, ReplayMismatchError
from ..frames import ROWS
from ..sinks import Sink
from ..sources import TableChanges
from ..sources._feed import explained
from ._checks import require_writer

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Followed:
    """What a run of `follow` has done.

    version: the table's version up to which the sink has all changes.
    batches: how many versions were written, and changes: how many changes these had.
    """

    version: int
    batches: int
    changes: int


def follow(
    changes: TableChanges, sink: Sink, spark: SparkSession, *, job: str, since: int = 0
) -> Followed:
    """Write a Delta table's changes to a sink up to its newest version, each version exactly once.

    First come all rows of version `since`, with op = snapshot; then, version by version, what each
    has changed. A version is a batch, and its number the batch's: so what a batch holds is said by
    Delta's log alone, a run that died goes on where the sink's tables stop, and there is no
    checkpoint. A version that changed nothing is passed over. Run it again for what has come since;
    two runs at a time write each version once as well.

    The sink takes changes, as in a job without a transform: `Current`, `History`; `Append`, for a
    changelog table; `Publish` below `Mapped(rows=records)`, for a topic; several in a `FanOut`. One
    that is added to a `FanOut` later begins with `since` too, while the others wait.

    Cost: a Spark job or two for each version and each sink; one look through the table's keys for
    each run that finds something new.

    Args:
        changes: the table, by its path or its name in a catalog, and its key.
        sink: what takes the changes, with tables that no other job and no other source fills.
        spark: the session.
        job: a name, by which the sink's tables know this writer. Keep it.
        since: the version to begin with, on the first run: that at which the change data feed was
            enabled, or a later one. 0 for a table that was made with it.

    Raises:
        ArgumentError, ColumnTypeError: at the call. What `TableChanges` raises.
        ColumnError: for a key that is null or that several rows have. SourceError: for versions
            that are gone. Nothing is written, or nothing from the version on that shows it.
        ReplayMismatchError: for a sink's table that another source has filled, or that is ahead of
            the table.
        And what the sink raises.
    """
    _require(changes, sink, job)
    changes = replace(changes, path=path_of(spark, changes.path))
    state = changes.state(spark)
    require_whole(since, "since", 0, state.version, f"{changes.path} is at {state.version}.")
    plan = _Plan(changes, untouched(spark, changes.path), job)
    done = _done(spark, sink, plan)
    if done is not None and done >= state.version:
        return Followed(version=state.version, batches=0, changes=0)
    changes.require_told(spark, since if done is None else done, state.version)
    written: list[int | None] = []
    if done is None:
        whole = changes.at(spark, since)
        written.append(_write(whole, sink, plan, since, needed=since == state.version))
        done = since
    for version in range(done + 1, state.version + 1):
        rows = changes.told_of(spark, version - 1, version)
        written.append(_write(rows, sink, plan, version, needed=version == state.version))
    numbers = [number for number in written if number is not None]
    return Followed(version=state.version, batches=len(numbers), changes=sum(numbers))


@dataclass(frozen=True)
class _Plan:
    """What each batch holds: a version of the table, as its log has it."""

    changes: TableChanges
    log: TableLog
    job: str

    @property
    def source(self) -> str:
        """The table's id, which stands where other jobs have their query's."""
        return str(self.log.id)

    def batch(self, version: int, rows: int) -> Batch:
        """Return the batch of a version."""
        return Batch(
            job=self.job,
            query_id=self.source,
            run_id=self.source,
            number=version,
            offsets_hash=self.hash(version),
            start={self.source: {0: version}},
            end={self.source: {0: version + 1}},
            watermark=EPOCH,
            rows_in=rows,
        )

    def require_same(self) -> None:
        """Refuse to write what was read of another table, which has taken the source's place."""
        now = untouched(self.log.spark, self.log.path)
        if now.id != self.source:
            raise ReplayMismatchError(
                f"{self.log.path} was the table {self.source}, and is {now.id} since.",
                "a source that stays the same table while it is followed.",
                "a new target for the new table.",
            )

    def hash(self, version: int) -> str:
        """Return a hash of a version's commit, and of what is told of it."""
        of = self.changes
        told_of = [names(of.key, "key"), list(of.columns or ()), of.where]
        plan = [self.source, version, self.log.digest(version), *told_of]
        return hashlib.sha256(json.dumps(plan).encode()).hexdigest()


def _write(rows: DataFrame, sink: Sink, plan: _Plan, version: int, *, needed: bool) -> int | None:
    """Write the changes of a version; return how many there are, None where nothing was written."""
    kept = rows.persist()
    try:
        with explained(plan.changes.path):
            number = kept.count()
        plan.require_same()
        if not number and not needed:
            return None
        sink.write({ROWS: kept}, plan.batch(version, number), rows_out=number)
        _LOG.info("%s: version %d, %d changes", plan.job, version, number)
        return number
    finally:
        kept.unpersist()


def _done(spark: SparkSession, sink: Sink, plan: _Plan) -> int | None:
    """Return the last version that all tables of the sink have; None where one has none."""
    found: list[int | None] = []
    for path, step in sink.tables():
        log = untouched(spark, path)
        last = log.done(app_id(plan.job, plan.source, step)) if log.version >= 0 else None
        if log.version >= 0:
            _require_own(log, step, last, plan)
        found.append(last)
    return None if None in found else min(last for last in found if last is not None)


def _require_own(log: TableLog, step: str, last: int | None, plan: _Plan) -> None:
    """Refuse a table with the changes of another table, or of other versions of this one."""
    theirs = others(step, plan.job, log.writers()) - {plan.source}
    if theirs:
        raise ReplayMismatchError(
            f"{log.path} has the changes of the table {min(theirs)}, and the source's id is "
            f"{plan.source}.",
            "one source for a job and a target: this one was made anew, or is another.",
            "a new target.",
        )
    if last is None:
        return
    stamp = log.stamp(app_id(plan.job, plan.source, step), last)
    # Delta deletes the oldest commits of a log in time, and these cannot be compared then.
    there = plan.log.digest(last) is not None
    other_one = there and stamp is not None and stamp.offsets != plan.hash(last)
    if plan.log.version < last or other_one:
        raise ReplayMismatchError(
            f"{log.path} has version {last} of {plan.changes.path}, which is at version "
            f"{plan.log.version} and has another version {last}, or other columns are told of it.",
            "the source that the target was made of, with the same key, columns and where.",
            "restore the source's newest copy, or begin with a new target.",
        )


def _require(changes: object, sink: object, job: object) -> None:
    if not isinstance(changes, TableChanges):
        raise ColumnTypeError(
            f"changes is {changes!r}.", "a TableChanges.", 'TableChanges("/data/t", key="id")'
        )
    if not hasattr(sink, "write") or not hasattr(sink, "tables"):
        raise ColumnTypeError(f"sink is {sink!r}.", "a sink.", 'Append("/data/t.changes")')
    require_writer(job)
