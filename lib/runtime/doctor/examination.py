"""All checks of the doctor, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from pyspark.sql import SparkSession

from ..job import Job
from ..locations import local
from ..query.brokers import answers
from ..query.names import Names
from ..query.preflight import Check, Preflight
from . import installed, places, retention
from .findings import Finding, findings_of


def examine(
    job: Job, spark: SparkSession, *, resume_from_table: bool = False, recreate: Sequence[str] = ()
) -> list[Finding]:
    """Do every check of a start, and some of what may stop the job later.

    Nothing is started, written or claimed. Each check is done, also after one that has failed: a
    finding with an `error` is what a start would be refused for, one whose text is a `Concern`
    refuses none.

    The arguments are those of `run`.
    """
    preflight = Preflight(job, spark, resume=resume_from_table, recreate=recreate)
    return findings_of([*_around(job, spark), *preflight.checks(), *_ahead(preflight)])


def _around(job: Job, spark: SparkSession) -> Iterator[Check]:
    """Return the checks of what a job stands on."""
    yield "versions", partial(installed.versions, spark)
    yield "jars", partial(installed.spark_jars, spark)
    yield "disk", partial(places.room, job)


def _ahead(preflight: Preflight) -> Iterator[Check]:
    """Return the checks of what may stop the job later."""
    yield "catalog", Names(preflight.job, preflight.spark).require
    for step, path in preflight.steps.items():
        yield f"properties {step}", partial(places.properties, preflight.spark, path)
    for name, given in preflight.job.inputs.items():
        if answers(given.reading.source.servers):
            yield f"retention {name}", partial(retention.head_room, preflight, name)
    yield "state", partial(places.state, preflight)
    yield "last start", partial(places.last_start, preflight)
    folder = local(preflight.job.places.checkpoint)
    if folder is not None:
        yield "check sums", partial(places.check_sums, folder, preflight)
