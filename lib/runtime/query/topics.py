"""Topics that are not there, said by name."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ...errors import SourceError
from ...sources.topics import client
from ..job import Job

_SHOWN = 20


def missing_topic(job: Job, spark: SparkSession) -> SourceError | None:
    """Return the error that names the topics that a job reads and the broker does not have.

    None where all are there, or the broker does not answer.
    """
    for given in job.inputs.values():
        source = given.reading.source
        try:
            with client(spark, source) as asked:
                there = asked.names()
        except OSError:
            continue
        missing = [] if source.pattern else [name for name in source.named if name not in there]
        if missing:
            return SourceError(
                f"there is no topic {', '.join(missing)} at {source.servers}.",
                f"one of its topics: {', '.join(there[:_SHOWN]) or 'it has none'}"
                f"{', ...' if len(there) > _SHOWN else '.'}",
                "create the topic, or check the input's topics.",
            )
    return None
