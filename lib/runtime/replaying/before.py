"""Which of a job's rows are of before a replay's start, in the middle of what the job had read."""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructType

from ...columns import quoted
from ...commit import EPOCH
from ...commit.table import at_version
from ...errors import ColumnTypeError
from ..job import Job
from .noted import Noted


def since(at: Noted) -> datetime | None:
    """Return the instant after which results are whole; None where all are."""
    whole = None if at.middle is None else at.middle.whole
    return None if whole is None else EPOCH + timedelta(microseconds=whole)


def of_before(job: Job, at: Noted, spark: SparkSession, target: DataFrame) -> DataFrame:
    """Return the rows of a job's target that a replay has not made anew.

    target: the job's, as it was when the replay began.
    """
    if at.middle is not None and at.middle.version is not None:
        return _at_version(job, at, spark, at.middle.version)
    condition = _is_before(job, at)
    return target.limit(0) if condition is None else target.where(condition)


def of_after(job: Job, at: Noted, spark: SparkSession, target: DataFrame) -> DataFrame:
    """Return the other rows of a job's target."""
    if at.middle is not None and at.middle.version is not None:
        maps = [each.name for each in target.schema if isinstance(each.dataType, MapType)]
        if maps:
            raise ColumnTypeError(
                f"{', '.join(maps)} of {job.sink.path} is a map, and rows of before the replay's "
                "start are told from those after it by their values.",
                "types whose values can be compared.",
                "a replay from the start, without --from.",
            )
        older = _at_version(job, at, spark, at.middle.version)
        return target.exceptAll(filled(older, target.schema))
    condition = _is_before(job, at)
    return target if condition is None else target.where(~condition)


def filled(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return rows with the columns of a schema first, null where the rows have none."""
    named = [
        quoted(each.name)
        if each.name in rows.columns
        else F.lit(None).cast(each.dataType).alias(each.name)
        for each in schema
    ]
    more = [quoted(name) for name in rows.columns if name not in schema.fieldNames()]
    return rows.select(*named, *more)


def _is_before(job: Job, at: Noted) -> Column | None:
    instant = since(at)
    time = None if job.transform is None else job.transform.result_time
    if instant is None or time is None:
        return None
    return F.coalesce(time <= F.lit(instant), F.lit(True))


def _at_version(job: Job, at: Noted, spark: SparkSession, version: int) -> DataFrame:
    return at_version(spark, at.tables[job.sink.step].path, version)
