"""The files in which Spark plans a batch: what each source of the query reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import numbers_in, read_bytes
from ..offsets import Offsets

_KAFKAS = b"\0"


def last_planned(spark: SparkSession, checkpoint: str) -> list[Offsets]:
    """Return up to where each source of the query reads by the newest plan of a checkpoint.

    Empty for a checkpoint that has none yet, and for a source that is no Kafka topic. A source that
    the query uses twice is there twice.

    Raises:
        CheckpointError: for a plan that is not what Spark writes.
    """
    folder = f"{checkpoint}/offsets"
    numbers = _numbers(spark, folder)
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
        begun = initial_offsets(spark, checkpoint, index, ends) if ends else {}
        for topic, parts in begun.items():
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


def initial_offsets(spark: SparkSession, checkpoint: str, index: int, ends: Offsets) -> Offsets:
    """Return the offsets that a source of a plan began with.

    index, ends: the source's place in the plan, and what it reads there.

    Spark has a file for each source, and in a plan a place for each time that the query uses one:
    two for a join of a stream with itself. So what stands under the place's number may be of
    another source, or not be there; then the file is told by its partitions.

    Raises:
        CheckpointError: for a file that is missing, or not what Spark writes.
    """
    folder = f"{checkpoint}/sources"
    there = _numbers(spark, folder)
    for number in [index, *(other for other in there if other != index)]:
        path = f"{folder}/{number}/0"
        content = _content(spark, path) or b""
        # Kafka's file begins with a zero byte, a leftover of Spark 2.1, and then a line with the
        # version.
        if content.startswith(_KAFKAS):
            _, _, offsets = content.removeprefix(_KAFKAS).partition(b"\n")
            found = _offsets(path, offsets.decode())
            if _places(found) & _places(ends):
                return found
    raise _broken(f"{folder}/{index}/0", "is missing, or is of other partitions")


def _places(offsets: Offsets) -> set[tuple[str, int]]:
    return {(topic, part) for topic, parts in offsets.items() for part in parts}


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
    content = _content(spark, path)
    if content is None:
        raise _broken(path, "is missing")
    return content


def _content(spark: SparkSession, path: str) -> bytes | None:
    """Return a file of a checkpoint; None where it is missing."""
    try:
        return read_bytes(spark, path)
    except OSError as error:
        raise _broken(path, f"cannot be read: {error}") from error


def _numbers(spark: SparkSession, folder: str) -> list[int]:
    """Return the numbers that files or folders of a checkpoint have for names."""
    try:
        return numbers_in(spark, folder)
    except OSError as error:
        raise _broken(folder, f"cannot be read: {error}") from error


def _broken(path: str, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path} {what}.",
        "the offset log as Spark 4.2 writes it (version v1).",
        "restore the checkpoint as a whole, or start anew with a new checkpoint and new tables.",
    )
