"""A job's rows of before a replay's start, put into the replay's tables ahead of a switch.

A replay that begins in the middle has no results of before, and the job is to have all of them once
the tables are switched. Each table takes them in one commit, under an application id by which it
takes them once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from ...commit import table
from ...commit.epochs import EpochFiles
from ...commit.identity import Identity, TableMark
from ...commit.layout import Layout
from ...commit.once import untouched
from ...commit.options import CommitOptions
from ...errors import CheckpointError
from ...jvm import delta_state
from ..job import Job
from ..query.comparable import innermost
from ..query.resume import at_or_past
from .before import filled, of_before, since
from .noted import Noted

_REMEDY = (
    "a replay from the start, without --from: delete the folders that end in '.replay', and replay "
    "again."
)


@dataclass(frozen=True)
class _Part:
    """The rows that a step's table of the replay takes, and how that table is laid out."""

    step: str
    path: str
    rows: DataFrame
    layout: Layout


@dataclass(frozen=True)
class _Once(CommitOptions):
    """What the commit of such rows bears: an application id, so that Delta takes it once."""

    app_id: str

    def on(self, writer: DataFrameWriter) -> DataFrameWriter:
        """Return the writer with these options set."""
        return super().on(writer).option("txnAppId", self.app_id).option("txnVersion", "0")


def carry(new: Job, at: Noted, spark: SparkSession) -> None:
    """Put what the job has of before the start into the tables of its replay, once.

    Those are its results that the replay leaves out, and what is in the side tables of records
    before the start. So are records after the start that were late for such results; a later
    result of the replay may hold them as well.

    Raises:
        CheckpointError: for a replay whose results do not fit to those of the job.
        TableError: for a table of the job with columns that the replay's does not have.
    """
    if at.middle is None:
        return
    if at.middle.apart is not None:
        raise CheckpointError(
            f"the replay of {new.name!r} began in the middle, and its results do not fit to those "
            f"of before: {at.middle.apart}.",
            "a replay from the middle with the windows, the joins and the reading of the job.",
            _REMEDY,
        )
    identity = EpochFiles(spark, new.places.checkpoint).read()
    assert identity is not None  # The replay is at its end.
    query = identity.written_as("")
    for part in _parts(new, at, identity, spark):
        told = json.dumps({"tidegate": "carried", "step": part.step, "start": at.start})
        _put(part, _Once(told, _nothing, f"{new.name}/carried/{query}/{part.step}"), spark)


def _parts(new: Job, at: Noted, known: Identity, spark: SparkSession) -> Iterator[_Part]:
    """Return what is to be put where."""
    sink = innermost(new.sink)
    target = _read(at.tables.get(sink.step), spark)
    if target is not None:
        layout: Layout = sink.layout  # type: ignore[attr-defined]
        yield _Part(sink.step, sink.path, of_before(new, at, spark, target), layout)
    for side in (new.places.dead, new.places.gaps):
        rows = _read(at.tables.get(side.step), spark)
        if rows is not None:
            yield _Part(side.step, side.path, rows.where(~_is_after(at, rows)), side.layout)
    for name, side in new.places.late.items():
        rows = _read(at.tables.get(side.step), spark)
        if rows is not None:
            place = new.inputs[name].reading.place
            kept = _late(at, rows, _read(known.tables.get(side.step), spark), place)
            yield _Part(side.step, side.path, kept, side.layout)


def _late(at: Noted, rows: DataFrame, again: DataFrame | None, place: Sequence[str]) -> DataFrame:
    """Return the late rows of before, and those that were late for a result of before.

    again: the rows that were late in the replay too.
    """
    kept = rows.where(~_is_after(at, rows))
    whole = since(at)
    if whole is None:
        return kept
    later = rows.where(_is_after(at, rows) & (F.col("closes") <= F.lit(whole)))
    if again is not None:
        later = later.join(again, list(place), "left_anti")
    return kept.unionByName(later)


def _is_after(at: Noted, rows: DataFrame) -> Column:
    found = at_or_past(at.start, rows.columns)
    return F.lit(False) if found is None else found


def _read(mark: TableMark | None, spark: SparkSession) -> DataFrame | None:
    """Return a table as it was noted; None where there was none."""
    if mark is None:
        return None
    return table.at_version(spark, mark.path, mark.version)


def _put(part: _Part, once: _Once, spark: SparkSession) -> None:
    """Append the rows in one commit, or skip them where the table has them already."""
    if untouched(spark, part.path).done(once.app_id) is not None:
        return
    state = delta_state(spark, part.path)
    rows = part.rows if state.version < 0 else filled(part.rows, state.schema())
    if not rows.isEmpty():
        table.existing(rows, part.path, part.layout, evolve=False, remedy=_REMEDY)
        table.append(rows, part.path, once, part.layout)


def _nothing() -> None:
    """Begin nothing: the number comes with the writer's options."""
