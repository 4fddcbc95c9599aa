"""A checkpoint's own logs, held against what is noted of them: a changed byte must not pass."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ..errors import CheckpointError
from ..offsets import Offsets
from .epochs import EpochFiles, require_no_rescaling
from .identity import Identity
from .logs import RESTORE, Logs, digest, read_logs
from .plan_file import parsed

_READS = 5


def read_at_one_moment(files: EpochFiles) -> tuple[Logs, Identity | None]:
    """Return a checkpoint's logs and what is noted of them at one moment, also of a job that runs.

    Raises CheckpointError.
    """
    noted = files.read()
    for _ in range(_READS):
        logs = read_logs(files.spark, files.path)
        again = files.read()
        if again == noted:
            break
        noted = again
    return logs, noted


def require_logs(identity: Identity, logs: Logs) -> None:
    """Refuse logs that are not those which the last batches noted.

    Raises:
        CheckpointError: which names the file, what was expected and what was found.
    """
    require_no_rescaling(identity, logs.path)
    _require_in_step(identity, logs)
    _require_noted("offsets", identity.offsets, logs.offsets, logs.path)
    _require_noted("commits", identity.commits, logs.commits, logs.path)
    _require_lasting(identity, logs)
    _require_plan(identity.batch + 1, logs)
    if identity.query is not None and logs.query != identity.query:
        raise CheckpointError(
            f"{logs.path}/metadata has the query {logs.query}; noted is {identity.query}.",
            "the file that Spark wrote at the first start.",
            RESTORE,
        )


def _require_lasting(identity: Identity, logs: Logs) -> None:
    for name, expected in identity.files.items():
        if name not in logs.files:
            raise _missing(f"{logs.path}/{name}", max(identity.batch, 0))
        if digest(logs.files[name]) != expected:
            raise CheckpointError(
                f"{logs.path}/{name} was changed since it was noted.",
                "the file as Spark wrote it.",
                RESTORE,
            )


def _require_in_step(identity: Identity, logs: Logs) -> None:
    """Refuse logs that lack the last batch, or have one that the identity does not know."""
    batch = identity.batch
    for name, newest, most in (("commits", logs.last, batch), ("offsets", logs.newest, batch + 1)):
        if newest > most:
            raise CheckpointError(
                f"{logs.path}/{name}/{newest} is there, and the identity file knows no batch after "
                f"{batch}: it is older than the logs beside it.",
                f"at most {name}/{most}.",
                RESTORE,
            )
    missing = f"offsets/{batch}" if logs.newest < batch else f"commits/{batch - 1}"
    if logs.newest < batch or logs.last < batch - 1:
        raise _missing(f"{logs.path}/{missing}", batch)
    if logs.newest > batch > logs.last:
        raise _missing(f"{logs.path}/commits/{batch}", batch)


def _require_noted(
    name: str, noted: Mapping[int, str], found: Mapping[int, bytes], path: str
) -> None:
    for number, expected in noted.items():
        if number not in found:
            raise _missing(f"{path}/{name}/{number}", max(noted))
        there = digest(found[number])
        if there != expected:
            raise CheckpointError(
                f"{path}/{name}/{number} was changed: its SHA-256 is {there[:16]}..., and with "
                f"batch {max(noted)} {expected[:16]}... was noted.",
                "the file as Spark wrote it.",
                RESTORE,
            )


def _require_plan(number: int, logs: Logs) -> None:
    """Refuse a plan that does not follow from the batch before; nothing of it is noted yet."""
    if number not in logs.offsets:
        return
    path = f"{logs.path}/offsets/{number}"
    meta, ends = parsed(path, logs.offsets[number])
    before: Sequence[Offsets] = []
    expected: int | None = 0
    said = "a first batch has"
    if number > 0:
        said = f"the commit of batch {number - 1} says"
        _, before = parsed(f"{logs.path}/offsets/{number - 1}", logs.offsets[number - 1])
        expected = next_watermark(f"{logs.path}/commits/{number - 1}", logs.commits[number - 1])
    watermark = int(meta.get("batchWatermarkMs", 0))
    if expected is not None and watermark != expected:
        raise CheckpointError(
            f"{path} has the watermark {watermark} ms, and {said} {expected} ms: one of the files "
            "was changed.",
            "the same watermark in both.",
            RESTORE,
        )
    for was, end in zip(before, ends, strict=False):
        for topic, partitions in was.items():
            for partition, at in partitions.items():
                found = end.get(topic, {}).get(partition)
                if found is None or found < at:
                    raise CheckpointError(
                        f"{path} ends at {found} in {topic}-{partition}, and batch {number - 1} "
                        f"ended at {at}.",
                        "offsets that never go back.",
                        RESTORE,
                    )


def next_watermark(path: str, commit: bytes) -> int | None:
    """Return the watermark of the next batch, out of a file of the log of commits.

    Raises:
        CheckpointError: for a file that is not what Spark writes.
    """
    _, _, line = commit.partition(b"\n")
    try:
        found = json.loads(line).get("nextBatchWatermarkMs")
        return None if found is None else int(found)
    except (ValueError, TypeError, AttributeError) as error:
        told = f"{path} cannot be read: {commit[:80]!r}."
        raise CheckpointError(
            told, "the log of commits as Spark 4.2 writes it.", RESTORE
        ) from error


def _missing(path: str, batch: int) -> CheckpointError:
    return CheckpointError(
        f"{path} is missing; the identity file was written with batch {batch}, after it.",
        "all files that the last batch left.",
        RESTORE,
    )
