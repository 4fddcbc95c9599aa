"""Where a backlog ends and the stream begins: the instant, and the offsets of each partition.

The instant divides the results: those before it are the batch's, all others the stream's. It is
at or before the watermark of a stream that had read the same, so that no row within the lateness
is late for it; and it is an instant at which rows become late, such as the end of a window or of
a slice. So each row that comes later and is not late by then changes none of the batch's results.
"""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...durations import microseconds
from ...offsets import Offsets, offset_of
from ...sources import Reading
from ...sources.reached import newest as newest_of
from ...transform import Transform
from ...windows import Windowed
from ..job import Input, Job

_TAIL = 10_000
"""How many of a partition's last offsets are read at most to learn its newest event time."""
_TAILS = 200_000
"""How many are read of all partitions together, but for those of _SHORTEST."""
_SHORTEST = 1_000
_LOOKS = 64
_FARTHEST = 52


def watermark(job: Job, spark: SparkSession, start: Offsets, end: Offsets) -> int | None:
    """Return the least of the partitions' newest event times less the lateness, in microseconds.

    None where a stream that had read as much might have no watermark yet. The newest event of a
    partition is looked for at its end: one that is older makes the batch's part smaller, and
    changes no answer.
    """
    marks = []
    for given in job.inputs.values():
        ends = own(given.reading, end)
        each = _TAILS // max(1, _partitions(given, end))
        begin = _tail(start, ends, min(_TAIL, max(_SHORTEST, each)))
        rows = given.reading.timed(spark, begin, ends)
        found = newest_of(rows, given.reading.place)
        newest = [time for parts in found.values() for time in parts.values()]
        lateness = microseconds(given.reading.lateness, "lateness", least=0)
        if not newest or (given.watermarks != 1 and len(newest) < _partitions(given, end)):
            return None
        marks.append(min(newest) - lateness)
    return min(marks)


def boundary(spark: SparkSession, transform: Transform, at: int) -> int | None:
    """Return the last instant up to another at which rows become late, in microseconds."""
    window = transform.window if isinstance(transform, Windowed) else transform
    back = {1 << power for power in range(_FARTHEST)}
    if transform.reach is not None:
        reach = transform.reach // timedelta(microseconds=1)
        back |= {max(1, reach * look // _LOOKS) for look in range(1, 2 * _LOOKS)}
    instants = spark.createDataFrame([(at - each,) for each in sorted(back)], "at bigint")
    late = window.late_at(F.timestamp_micros("at"))
    assert late is not None  # Refused where the job was made.
    found = instants.select(F.unix_micros(late).alias("late")).where(F.col("late") <= F.lit(at))
    row = found.agg(F.max("late")).head()
    return None if row is None else row[0]


def own(reading: Reading, offsets: Offsets) -> Offsets:
    """Return the offsets of the topics that are read."""
    source = reading.source
    return {
        topic: parts for topic, parts in offsets.items() if source.pattern or topic in source.named
    }


def _tail(start: Offsets, end: Offsets, length: int) -> Offsets:
    return {
        topic: {
            part: max(offset_of(start, topic, part), stop - length) for part, stop in parts.items()
        }
        for topic, parts in end.items()
    }


def _partitions(given: Input, end: Offsets) -> int:
    return sum(len(parts) for parts in own(given.reading, end).values())
