"""A batch counted once more, where tasks of it may have run twice, or not all of it was read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from ...commit import Batch
from ...jvm import lost_executors
from ...offsets import EventTimes
from ..job import Job
from .accounting import Again
from .by_log import by_log


class Recount:
    """How the batches of a job are counted once more, one after another."""

    def __init__(self, job: Job, spark: SparkSession) -> None:
        self._job = job
        self._spark = spark
        self._lost = dict.fromkeys(job.inputs, lost_executors(spark))

    def of(self, name: str, batch: Batch, newest: EventTimes | None) -> Again:
        """Return how a batch of one input is counted once more.

        newest: of an input whose rows are late by the log, what was newest where the batch begins.
        """
        return Again(partial(self._counted, name, batch, newest), partial(self._has_lost, name))

    def _counted(self, name: str, batch: Batch, newest: EventTimes | None) -> Mapping[str, Any]:
        reading = self._job.inputs[name].reading
        late = by_log(self._job).get(name)
        return reading.counted(self._spark, batch.start, batch.end, by_log=late, newest=newest)

    def _has_lost(self, name: str) -> bool:
        """Return whether executors were lost since it was asked last of an input."""
        before, self._lost[name] = self._lost[name], lost_executors(self._spark)
        return self._lost[name] > before
