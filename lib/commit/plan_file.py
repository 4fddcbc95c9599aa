"""The files in which Spark plans a batch: what each source of the query reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import names_in, read_bytes
from ..offsets import Offsets


def last_planned(spark: SparkSession, checkpoint: str) -> list[Offsets]:
    """Return up to where each source of the query reads by the newest plan of a checkpoint.

    Empty for a checkpoint that has none yet, and for a source that is no Kafka topic. A source that
    the query uses twice is there twice.

    Raises:
        CheckpointError: for a plan that is not what Spark writes.
    """
    folder = f"{checkpoint}/offsets"
    try:
        numbers = [int(name) for name in names_in(spark, folder) if name.isdecimal()]
    except OSError as error:
        raise _broken(folder, f"cannot be read: {error}") from error
    if not numbers:
        return []
    path = f"{folder}/{max(numbers)}"
    return parsed(path, read_file(spark, path))[1]


def first_offsets(spark: SparkSession, checkpoint: str) -> Offsets:
    """Return the offsets at which a checkpoint began to read.

    Where two sources of the query read one partition, the smaller counts.

    Raises:
        CheckpointError: for a file that is missing, or not what Spark writes.
    """
    found: Offsets = {}
    for index, ends in enumerate(last_planned(spark, checkpoint)):
        # A source without ends is no Kafka topic, or has read nothing.
        for topic, parts in (initial_offsets(spark, checkpoint, index) if ends else {}).items():
            first = found.setdefault(topic, {})
            for part, at in parts.items():
                first[part] = min(first.get(part, at), at)
    return found


def read_plan(
    spark: SparkSession, checkpoint: str, number: int
) -> tuple[dict[str, Any], list[Offsets]]:
    """Return the metadata and each source's ends of a batch's plan.

    Raises:
        CheckpointError: for a file that is missing, or not what Spark writes.
    """
    path = f"{checkpoint}/offsets/{number}"
    return parsed(path, read_file(spark, path))


def initial_offsets(spark: SparkSession, checkpoint: str, index: int) -> Offsets:
    """Return the offsets that a source of a checkpoint began with.

    Raises:
        CheckpointError: for a file that is missing, or not what Spark writes.
    """
    path = f"{checkpoint}/sources/{index}/0"
    # Kafka's file begins with a zero byte, a leftover of Spark 2.1, and then a line with the
    # version.
    _, _, offsets = read_file(spark, path).removeprefix(b"\0").partition(b"\n")
    return _offsets(path, offsets.decode())


def parsed(path: str, content: bytes) -> tuple[dict[str, Any], list[Offsets]]:
    """Return the metadata and each source's ends out of a file of the log of offsets.

    Raises:
        CheckpointError: for a file that is not what Spark writes.
    """
    version, *lines = content.decode(errors="replace").split("\n")
    if version != "v1" or len(lines) < 2:
        raise _broken(path, f"begins with {version[:20]!r} and has {len(lines)} more lines")
    try:
        meta = json.loads(lines[0])
    except ValueError as error:
        raise _broken(path, "has metadata that is no JSON") from error
    return meta, [_offsets(path, line) for line in lines[1:]]


def _offsets(path: str, line: str) -> Offsets:
    """Return one source's Kafka offsets; empty where it has none yet ("-") or is no Kafka topic."""
    if line.strip() == "-":
        return {}
    try:
        return by_partition(json.loads(line))
    except (AttributeError, TypeError):
        return {}
    except ValueError as error:
        raise _broken(path, f"holds offsets that cannot be read: {line[:80]!r}") from error


def by_partition(found: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return offsets as JSON has them, where a partition's number is text."""
    offsets: Offsets = {}
    for topic, partitions in found.items():
        offsets[topic] = {int(partition): int(at) for partition, at in partitions.items()}
    return offsets


def read_file(spark: SparkSession, path: str) -> bytes:
    """Return a file of a checkpoint.

    Raises:
        CheckpointError: for a file that is missing, or cannot be read.
    """
    try:
        content = read_bytes(spark, path)
    except OSError as error:
        raise _broken(path, f"cannot be read: {error}") from error
    if content is None:
        raise _broken(path, "is missing")
    return content


def _broken(path: str, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path} {what}.",
        "the offset log as Spark 4.2 writes it (version v1).",
        "restore the checkpoint as a whole, or start anew with a new checkpoint and new tables.",
    )
