"""Where a replay is asked to begin: at offsets, or at a time of the records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from ...commit import EPOCH
from ...commit.plan_file import by_partition
from ...errors import ArgumentError, SourceError
from ...offsets import Offsets, of_topics, offset_of
from ...sources.topics import client
from ..job import Job
from ..query.cut import own

Start = datetime | Mapping[str, Mapping[int, int]]
"""An aware datetime, or {topic: {partition: offset}}."""
_ALLOWED = (
    "a time as 2026-03-02T09:00:00Z, offsets as clicks:0:1500 for each partition, or "
    '{"clicks": {"0": 1500}}.'
)


def parsed(texts: Sequence[str]) -> Start | None:
    """Return where a replay begins, as a command line has it; None where it does not say.

    Raises:
        ArgumentError: for texts that say no time and no offsets.

    >>> parsed(["clicks:0:1500", "clicks:1:7"])
    {'clicks': {0: 1500, 1: 7}}
    >>> parsed(["2026-03-02T09:00:00Z"])
    datetime.datetime(2026, 3, 2, 9, 0, tzinfo=datetime.timezone.utc)
    """
    if not texts:
        return None
    if len(texts) == 1:
        (text,) = texts
        time = _time(text)
        if time is not None:
            return _aware(time)
        if text.lstrip().startswith("{"):
            return _from_json(text)
    found: Offsets = {}
    for text in texts:
        topic, part, at = _place(text)
        if part in found.setdefault(topic, {}):
            raise ArgumentError(f"from names {topic}:{part} twice.", "each partition once.")
        found[topic][part] = at
    return found


def told(start: Start) -> str:
    """Return where a replay begins as one text, the same for the same place."""
    if isinstance(start, datetime):
        return _aware(start).astimezone(UTC).isoformat()
    return json.dumps({topic: {part: parts[part] for part in sorted(parts)}
                       for topic, parts in sorted(start.items())})  # fmt: skip


def offsets_of(
    job: Job, spark: SparkSession, start: Start, *, first: Offsets, end: Offsets
) -> Offsets:
    """Return the offsets at which a replay begins.

    first, end: what the job has read. A partition that is not named begins where the job began.

    Raises:
        ArgumentError: for a partition or an offset that the job has not read, and for a time after
            all that it has read.
        SourceError: where the broker does not answer.
    """
    if isinstance(start, datetime):
        return _since(job, spark, _aware(start), first, end)
    for topic, parts in start.items():
        for part, at in parts.items():
            stop = end.get(topic, {}).get(part)
            if stop is None:
                read = ", ".join(f"{name}:{each}" for name in end for each in sorted(end[name]))
                raise ArgumentError(
                    f"from names {topic}:{part}, of which {job.name!r} has read nothing.",
                    f"{read}.",
                )
            begun = offset_of(first, topic, part)
            if not begun <= at <= stop:
                raise ArgumentError(
                    f"from is {topic}:{part}:{at}, and {job.name!r} has read {begun} to {stop} of "
                    "it.",
                    "offsets that the job has read.",
                )
    return {
        topic: {
            part: start.get(topic, {}).get(part, offset_of(first, topic, part)) for part in parts
        }
        for topic, parts in end.items()
    }


def _since(job: Job, spark: SparkSession, start: datetime, first: Offsets, end: Offsets) -> Offsets:
    found: Offsets = {}
    for given in job.inputs.values():
        source = given.reading.source
        ends = own(given.reading, end)
        try:
            with client(spark, source) as asked:
                since = asked.since(ends, (start - EPOCH) // timedelta(milliseconds=1))
        except OSError as error:
            raise SourceError(f"{error}.", "a broker that tells the offsets of a time.") from error
        for topic, parts in ends.items():
            here = since.get(topic, {})
            found[topic] = {
                part: min(stop, max(here.get(part, stop), offset_of(first, topic, part)))
                for part, stop in parts.items()
            }
    if found == of_topics(end, found):
        raise ArgumentError(
            f"from is {start.isoformat()}, and {job.name!r} has read no record of that time or "
            "after it.",
            "a time within what the job has read, by its records' timestamps.",
        )
    return found


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _aware(start: datetime) -> datetime:
    if start.utcoffset() is None:
        raise ArgumentError(
            f"from is {start.isoformat()}, which has no time zone.",
            _ALLOWED,
            f"{start.isoformat()}Z",
        )
    return start


def _from_json(text: str) -> Offsets:
    try:
        found = by_partition(json.loads(text))
    except (ValueError, TypeError, AttributeError) as error:
        raise _unread(text) from error
    return found


def _place(text: str) -> tuple[str, int, int]:
    topic, *numbers = text.rsplit(":", 2)
    if not topic or len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise _unread(text)
    part, at = map(int, numbers)
    return topic, part, at


def _unread(text: str) -> ArgumentError:
    return ArgumentError(f"from is {text!r}.", _ALLOWED)
