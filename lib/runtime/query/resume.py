"""A lost checkpoint: where a new one can go on, told by what the tables' commits bear."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_

from delta.tables import DeltaTable
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from ...commit.once import untouched
from ...commit.options import CommitOptions
from ...commit.origins import Resumed
from ...commit.stamp import Stamp, app_id
from ...commit.table_log import TableLog
from ...errors import CheckpointError, SourceError
from ...offsets import Offsets
from ...sources import KafkaSource
from ...sources.topics import topic_states
from ...transform import Stateless
from ..job import Input, Job

_EARLIEST = -2
_PLACE = ("topic", "partition", "offset")
_NEW = "begin with a new checkpoint and new tables. Nothing was written."


def resumed(job: Job, tables: Mapping[str, TableLog]) -> tuple[Resumed, Mapping[str, str]]:
    """Return where a new checkpoint goes on, by the last commit in the target of the job's sink.

    The tables' batches are counted on, under the query that has written them: to the tables it is
    the same query. The ids of the topics that the offsets are of come with it; none of a commit of
    before these were stamped.

    Raises:
        CheckpointError: where the tables do not tell it, or a batch is not in all of them.
    """
    target = tables[job.sink.step]
    last = target.last_stamp(job.name, job.sink.step)
    if last is None:
        raise CheckpointError(
            f"{target.path} has no commit of {job.name!r}, step {job.sink.step!r}, in its log.",
            "a table that the lost checkpoint has written, with the commits of its log.",
            _NEW,
        )
    _require_whole(job, tables, last)
    ids = {step: app_id(job.name, last.query, step) for step in tables}
    numbers = [tables[step].done(ids[step]) for step in tables]
    found = Resumed(
        query=last.query,
        base=max(number for number in numbers if number is not None) + 1,
        start=last.end,
        whole=_whole(job, last),
        newest=last.newest,
    )
    return found, last.topics or {}


def _require_whole(job: Job, tables: Mapping[str, TableLog], last: Stamp) -> None:
    """Refuse several tables of a sink of which one is a batch ahead, or may lack one."""
    steps = [step for _, step in job.sink.tables()]
    before = steps.index(job.sink.step)
    for at, step in enumerate(steps):
        found = tables[step].last_stamp(job.name, step)
        number = None if found is None or found.query != last.query else found.batch
        # A table that is written before the target may have had no row of the last batch.
        behind = at < before and (number is None or number <= last.batch)
        if number != last.batch and not behind:
            raise CheckpointError(
                f"{tables[step].path} has batch {number}, and {tables[job.sink.step].path} has "
                f"batch {last.batch}: the tables of the sink do not end with one batch.",
                "tables that all hold the last batch.",
                f"restore them to one batch, if their log has it; or {_NEW}",
            )


def _whole(job: Job, last: Stamp) -> int | None:
    """Return up to which instant results would lack rows; None where no state was lost."""
    transform = job.transform
    if transform is None or isinstance(transform, Stateless) or job.emission == "updates":
        return None
    if last.latest is None or transform.reach is None or transform.result_time is None:
        raise CheckpointError(
            f"the state of {type(transform).__name__} is lost with the checkpoint, and nothing "
            "tells which results need rows of before.",
            "a transform that keeps no state, or one that says its reach and the time of its "
            "results; and commits that bear the newest event time.",
            _NEW,
        )
    return last.latest + transform.reach // timedelta(microseconds=1)


def told(found: Resumed) -> str:
    """Say where a job goes on, and what is missing."""
    base = f"goes on with batch {found.base} at the offsets {json.dumps(found.start)}"
    if found.whole is None:
        return f"{base}; no state was lost"
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=found.whole)
    return (
        f"{base}; the state is lost: results up to {at.isoformat()} that were not written yet "
        "lack rows and are left out, later ones are whole"
    )


def starting_at(job: Job, spark: SparkSession, start: Offsets) -> Job:
    """Return the job with inputs that begin at these offsets."""
    inputs = {name: _at(spark, given, start) for name, given in job.inputs.items()}
    return replace(job, inputs=inputs)


def _at(spark: SparkSession, given: Input, start: Offsets) -> Input:
    source = given.reading.source
    begins = {
        topic: {part: start.get(topic, {}).get(part, _EARLIEST) for part in parts}
        for topic, parts in _partitions(spark, source).items()
    }
    reading = replace(given.reading, source=replace(source, start=begins))
    return replace(given, reading=reading)


def _partitions(spark: SparkSession, source: KafkaSource) -> Mapping[str, Sequence[int]]:
    """Return all partitions that a source reads now: Spark wants each of them named."""
    if source.partitions:
        return source.partitions
    try:
        found = topic_states(spark, source)
    except OSError as error:
        raise SourceError(f"{error}.", "a broker that answers, to go on at offsets.") from error
    return {topic: range(state.partitions) for topic, state in found.items()}


def put_back(job: Job, spark: SparkSession, found: Resumed) -> None:
    """Delete what the side tables have at the offsets that are read again, or past them.

    Done before the first batch; a second time it finds nothing.

    Raises CheckpointError for such rows in a table that other jobs write to as well.
    """
    beside = [job.places.gaps, job.places.dead, *job.places.late.values()]
    for path, step in ((table.path, table.step) for table in beside):
        if not DeltaTable.isDeltaTable(spark, path):
            continue
        table = DeltaTable.forPath(spark, path)
        again = at_or_past(found.start, table.toDF().columns)
        if again is not None and not table.toDF().where(again).isEmpty():
            _require_own_rows(job, untouched(spark, path), step)
            told = json.dumps({"tidegate": "resumed", "step": step, "start": found.start})
            with CommitOptions.noted(spark, told):
                table.delete(again)


def _require_own_rows(job: Job, table: TableLog, step: str) -> None:
    """Refuse a table in which nothing tells whose a row is."""
    writers = {each.split("/")[0] for each in table.writers() if each.endswith(f"/{step}")}
    others = sorted(writers - {job.name})
    if others:
        raise CheckpointError(
            f"{table.path} has rows of step {step!r} at the offsets that are read again, and the "
            f"jobs {', '.join(others)} write to it too: nothing tells whose they are.",
            "a table of the job's own, for what it sets aside.",
            f"delete the rows of {job.name!r} among them by hand; or give it another table, which "
            "gets them again. No row was deleted.",
        )


def at_or_past(start: Offsets, columns: Sequence[str]) -> Column | None:
    """Return whether a row of a side table is at these offsets or past them."""
    place = ("topic", "partition", "start_offset") if "start_offset" in columns else _PLACE
    topic, partition, offset = (
        F.col(f"kafka_{name}" if f"kafka_{name}" in columns else name) for name in place
    )
    past = [
        (topic == F.lit(name)) & (partition == F.lit(part)) & (offset >= F.lit(at))
        for name, parts in start.items()
        for part, at in parts.items()
    ]
    return reduce(or_, past) if past else None
