"""The columns that a job will write, held against those of its tables before a query starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...commit.batch import EPOCH
from ...frames import ROWS
from ...sinks.sink import require_fits
from ...sources.aside import Behind
from ...sources.event_time import EVENT_TIME
from ...sources.reading import OBSERVATION
from ..job import Input, Job
from ..process.failures import plain
from .frames import streaming
from .gaps import COLUMNS


def fits(
    job: Job, spark: SparkSession, there: Callable[[str], bool]
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Return the checks of columns, by names: of dead letters, gaps, late rows and the target.

    A check reads no record. That of the target looks at all tables of its sink.

    there: whether a step has its table.

    Raises:
        TableError: by a check, for a table of other columns, types or layout.
    """

    def known(step: str, look: Callable[[], str]) -> tuple[str, Callable[[], str]]:
        return f"columns {step}", lambda: look() if there(step) else "not there yet"

    yield known("dead", partial(_dead, job, spark))
    yield known("gaps", partial(_gaps, job, spark))
    if job.transform is not None:
        for name, given in job.inputs.items():
            yield known(job.places.late[name].step, partial(_late, job, spark, name, given))
    yield known(job.sink.step, partial(_target, job, spark))


def _dead(job: Job, spark: SparkSession) -> str:
    for given in job.inputs.values():
        job.places.dead.require_fits(given.reading.aside(spark, {}, {}).dead())
    return "as they will be written"


def _gaps(job: Job, spark: SparkSession) -> str:
    job.places.gaps.require_fits(spark.createDataFrame([], COLUMNS))
    return "as they will be written"


def _late(job: Job, spark: SparkSession, name: str, given: Input) -> str:
    late_at = None if job.transform is None else job.transform.late_at(F.col(EVENT_TIME))
    if late_at is not None:
        aside = given.reading.aside(spark, {}, {}, Behind(late_at, EPOCH))
        job.places.late[name].require_fits(aside.late())
    return "as they will be written"


def _target(job: Job, spark: SparkSession) -> str:
    if job.each_batch is not None or job.emission == "updates" or job.merges:
        return "known when a batch is made: not checked"
    try:
        looked_at = require_fits(job.sink, partial(_rows, job, spark))
    except PySparkException as error:
        raise plain(error) from error
    return "as they will be written" if looked_at else "known to the sink alone: not checked"


def _rows(job: Job, spark: SparkSession) -> Mapping[str, DataFrame]:
    """Return what the sink will get, as streams that are never started."""
    inputs = {
        name: given.reading.stream(spark, f"{OBSERVATION} {index}")
        for index, (name, given) in enumerate(job.inputs.items())
    }
    return inputs if job.transform is None else {ROWS: streaming(job, inputs)}
