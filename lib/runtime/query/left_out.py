"""Topics and partitions of which a checkpoint has read, and which its job does not read on.

Spark forgets where such a partition ended, so that it would be read from its start when it is named
again. And it plans the batch that leaves it out before it refuses that.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...commit.identity import NEVER, Identity
from ...commit.logs import Logs
from ...commit.plan_file import parsed
from ...errors import CheckpointError
from ...offsets import Offsets
from ...sources.topics import reads
from ..job import Input

_BEGIN = "begin anew with a new checkpoint and new tables. Nothing was written."


def read_so_far(logs: Logs, identity: Identity) -> Offsets:
    """Return up to where a checkpoint has read, or is to go on by what came before its stream."""
    if logs.newest == NEVER:
        if identity.resumed is not None:
            return identity.resumed.start
        return {} if identity.backlog is None else identity.backlog.end
    path = f"{logs.path}/offsets/{logs.newest}"
    found: Offsets = {}
    for ends in parsed(path, logs.offsets[logs.newest])[1]:
        for topic, parts in ends.items():
            found.setdefault(topic, {}).update(parts)
    return found


def require_read_on(inputs: Mapping[str, Input], read: Offsets, before: Mapping[str, str]) -> None:
    """Refuse inputs that leave out what a checkpoint has read, or read it in another's place.

    read: up to where it has read. before: the plan that it noted.

    Raises CheckpointError.
    """
    left = [
        f"{topic}-{part}"
        for topic, parts in read.items()
        for part in sorted(parts)
        if not any(reads(given.reading.source, topic, part) for given in inputs.values())
    ]
    if left:
        raise CheckpointError(
            f"the checkpoint has read of {', '.join(left)}, which no input names.",
            "inputs with all topics and partitions that the checkpoint has read, and more.",
            f"name them again; or {_BEGIN}",
        )
    for name, given in inputs.items():
        known = before.get(f"{name}.topics", "")
        # A plan tells of a topic by its name in quotes, which no name holds.
        mine = [topic for topic in read if f"'{topic}'" in known]
        moved = [topic for topic in mine if not reads(given.reading.source, topic)]
        if moved:
            raise CheckpointError(
                f"the input {name!r} has read {', '.join(moved)}, which another input names now.",
                "each topic in the input that has read it.",
                f"the topics in the inputs that they were in; or {_BEGIN}",
            )
