"""How long the broker still keeps what a job has not read yet."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta

from ...commit.plan_file import parsed
from ...errors import SourceError
from ...jvm import KafkaClient, Kept
from ...offsets import Offsets
from ...sources.topics import client
from ..query.preflight import Preflight
from .findings import Concern

_STEPS = 10
"""How often the time of the oldest unread record is halved: to a thousandth of the retention."""
_NEAR = 0.1
"""The share of the retention below which what is left of it is a concern."""


def head_room(preflight: Preflight, name: str) -> str:
    """Tell how many records wait unread, and when the broker may delete the first of them.

    Time is told where a topic keeps records for a time; a limit by size has none.
    Raises SourceError where records are gone that were not read.
    """
    source = preflight.job.inputs[name].reading.source
    topics = preflight.topics.get(name, {})
    read = {topic: parts for topic, parts in _read(preflight).items() if topic in topics}
    if not read:
        return "nothing was read yet"
    try:
        with client(preflight.spark, source) as asked:
            return left_of(asked, read)
    except OSError as error:
        return Concern(f"not checked: {error}")


def left_of(asked: KafkaClient, read: Offsets) -> str:
    """Tell what a broker still keeps of what was not read yet."""
    first = asked.earliest(read)
    last = asked.latest(read)
    _require_there(read, first)
    waits = sum(
        max(last[topic][part] - at, 0)
        for topic, parts in read.items()
        for part, at in parts.items()
    )
    told = f"{waits:,} offsets unread, {_nearest(read, first)}"
    return _in_time(asked, read, last, asked.kept(list(read)), told)


def _in_time(
    asked: KafkaClient, read: Offsets, last: Offsets, limits: Mapping[str, Kept], told: str
) -> str:
    near = False
    for topic, kept in limits.items():
        if kept.bytes is not None:
            told = f"{told}; {topic} keeps {kept.bytes:,} bytes a partition, which no time tells"
        if kept.milliseconds is None:
            continue
        keeps = timedelta(milliseconds=kept.milliseconds)
        left = _left(asked, {topic: read[topic]}, {topic: last[topic]}, kept.milliseconds)
        if left is None:
            told = f"{told}; {topic} keeps records for {keeps}, and all are read"
            continue
        near = near or left < kept.milliseconds * _NEAR
        rest = timedelta(seconds=left // 1000)
        told = f"{told}; {topic} keeps records for {keeps}: the oldest unread one for {rest} more"
    return Concern(f"{told}: let the job read, or raise the retention") if near else told


def _left(asked: KafkaClient, read: Offsets, last: Offsets, kept: int) -> int | None:
    """Return for how many milliseconds the broker keeps all that is unread; None where none is."""
    now = int(time.time() * 1000)
    if not _unread_before(asked, read, last, None):
        return None
    low = now - kept
    high = now
    if _unread_before(asked, read, last, low):
        return 0
    for _ in range(_STEPS):
        middle = (low + high) // 2
        if _unread_before(asked, read, last, middle):
            high = middle
        else:
            low = middle
    return low - (now - kept)


def _unread_before(asked: KafkaClient, read: Offsets, last: Offsets, at: int | None) -> bool:
    """Return whether a record from before an instant is unread; at any time for None."""
    found = last if at is None else asked.since(read, at)
    return any(
        min(found[topic].get(part, last[topic][part]), last[topic][part]) > position
        for topic, parts in read.items()
        for part, position in parts.items()
    )


def _require_there(read: Offsets, first: Offsets) -> None:
    lost = [
        f"{topic}-{part} from {at} to {first[topic][part]}"
        for topic, parts in read.items()
        for part, at in parts.items()
        if first[topic][part] > at
    ]
    if lost:
        raise SourceError(
            f"the topic's retention has deleted records that were not read: {'; '.join(lost)}.",
            "records that are read before they are deleted.",
            "on_data_loss = 'record' goes on without them; or read the topic into new tables.",
        )


def _nearest(read: Offsets, first: Offsets) -> str:
    left = {
        f"{topic}-{part}": at - first[topic][part]
        for topic, parts in read.items()
        for part, at in parts.items()
    }
    place = min(left, key=lambda name: left[name])
    return f"{left[place]:,} that were read are deleted before them in {place}"


def _read(preflight: Preflight) -> Offsets:
    """Return the offsets up to which the last whole batch has read."""
    logs = preflight.logs
    if logs.last not in logs.offsets:
        return {}
    path = f"{logs.path}/offsets/{logs.last}"
    found: Offsets = {}
    for source in parsed(path, logs.offsets[logs.last])[1]:
        for topic, parts in source.items():
            found[topic] = {**found.get(topic, {}), **parts}
    return found
