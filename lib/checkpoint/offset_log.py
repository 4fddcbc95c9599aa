"""Spark's offset log, which plans the offsets of each batch by source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import list_numbers, read_bytes
from ..offsets import Offsets, iterate_partitions, merge_partitions

_KAFKA_PREFIX = b"\0"


def last_planned_ends(spark: SparkSession, checkpoint: str) -> list[Offsets]:
    """Return the end offsets of each source in the newest plan of a checkpoint.

    The list is empty without a plan, and a source other than Kafka has no offsets. A source that
    the query uses twice occurs twice.

    Raises CheckpointError for a plan that Spark has not written.
    """
    with _raising_checkpoint_errors(f"{checkpoint}/offsets"):
        numbers = list_numbers(spark, f"{checkpoint}/offsets")
    return read_offset_log(spark, checkpoint, numbers[-1])[1] if numbers else []


def query_watermark(spark: SparkSession, checkpoint: str) -> int | None:
    """Return the watermark after the last committed batch, in microseconds since 1970.

    None before the first watermark, and without a committed batch.

    Raises CheckpointError for a commit that Spark has not written.
    """
    with _raising_checkpoint_errors(f"{checkpoint}/commits"):
        numbers = list_numbers(spark, f"{checkpoint}/commits")
    if not numbers:
        return None
    path = f"{checkpoint}/commits/{numbers[-1]}"
    _, _, content = read_checkpoint_file(spark, path).partition(b"\n")
    try:
        milliseconds = json.loads(content).get("nextBatchWatermarkMs")
    except (AttributeError, ValueError) as error:
        raise _offset_log_error(path, "has no watermark") from error
    return milliseconds * 1_000 if milliseconds else None


def first_offsets(spark: SparkSession, checkpoint: str) -> Offsets:
    """Return the initial offsets of a checkpoint.

    If two sources of the query read one partition, the smaller offset counts.

    Raises CheckpointError for a missing file, or one that Spark has not written.
    """
    # A source without end offsets is not a Kafka topic, or has read nothing.
    return merge_partitions(
        [
            initial_offsets(spark, checkpoint, index, ends)
            for index, ends in enumerate(last_planned_ends(spark, checkpoint))
            if ends
        ],
        min,
    )


def read_offset_log(
    spark: SparkSession, checkpoint: str, number: int
) -> tuple[dict[str, Any], list[Offsets]]:
    """Return the metadata of a batch's plan and the end offsets of each source.

    Raises CheckpointError for a missing file, or one that Spark has not written.
    """
    path = f"{checkpoint}/offsets/{number}"
    return parse_offset_log(path, read_checkpoint_file(spark, path))


def initial_offsets(spark: SparkSession, checkpoint: str, index: int, ends: Offsets) -> Offsets:
    """Return the initial offsets of a source of a plan.

    index, ends: the index of the source in the plan, and its end offsets there.

    Spark stores one file per source, but a plan lists a source once for each use, for example twice
    for a self join. So the file of that index can belong to another source or be missing; then the
    partitions identify the file.

    Raises CheckpointError for a missing file, or one that Spark has not written.
    """
    folder = f"{checkpoint}/sources"
    with _raising_checkpoint_errors(folder):
        source_numbers = list_numbers(spark, folder)
    for number in [index, *(other for other in source_numbers if other != index)]:
        path = f"{folder}/{number}/0"
        with _raising_checkpoint_errors(path):
            content = read_bytes(spark, path) or b""
        # The file of a Kafka source starts with a zero byte (since Spark 2.1) and a version line.
        if content.startswith(_KAFKA_PREFIX):
            _, _, offsets_json = content.removeprefix(_KAFKA_PREFIX).partition(b"\n")
            source_offsets = _parse_offsets(path, offsets_json.decode())
            if _partitions(source_offsets) & _partitions(ends):
                return source_offsets
    raise _offset_log_error(f"{folder}/{index}/0", "is missing or has other partitions")


def _partitions(offsets: Offsets) -> set[tuple[str, int]]:
    return {(topic, part) for topic, part, _ in iterate_partitions(offsets)}


def parse_offset_log(path: str, content: bytes) -> tuple[dict[str, Any], list[Offsets]]:
    """Return the metadata and the end offsets of each source from a file of the offset log.

    Raises CheckpointError for a file that Spark has not written.
    """
    version, *lines = content.decode(errors="replace").split("\n")
    if version != "v1" or len(lines) < 2:
        raise _offset_log_error(
            path, f"starts with {version[:20]!r} and has {len(lines)} more lines"
        )
    try:
        meta = json.loads(lines[0])
    except ValueError as error:
        raise _offset_log_error(path, "has metadata that is not JSON") from error
    return meta, [_parse_offsets(path, line) for line in lines[1:]]


def _parse_offsets(path: str, line: str) -> Offsets:
    """Return the Kafka offsets of a source; none for "-" and for a source other than Kafka."""
    if line.strip() == "-":
        return {}
    try:
        return offsets_from_json(json.loads(line))
    except (AttributeError, TypeError):
        return {}
    except ValueError as error:
        raise _offset_log_error(path, f"has offsets that cannot be read: {line[:80]!r}") from error


def offsets_from_json(topics: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return offsets from JSON, which spells the number of a partition as text."""
    return {
        topic: {int(partition): int(offset) for partition, offset in partitions.items()}
        for topic, partitions in topics.items()
    }


def read_checkpoint_file(spark: SparkSession, path: str) -> bytes:
    """Return the content of a file of a checkpoint.

    Raises CheckpointError for a file that is missing or cannot be read.
    """
    with _raising_checkpoint_errors(path):
        content = read_bytes(spark, path)
    if content is None:
        raise _offset_log_error(path, "is missing")
    return content


@contextmanager
def _raising_checkpoint_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _offset_log_error(path, f"cannot be read: {error}") from error


def _offset_log_error(path: str, problem: str) -> CheckpointError:
    return CheckpointError(
        f"{path} {problem}",
        "Spark writes an offset log of version v1; the checkpoint is damaged.",
        "restore the complete checkpoint from a copy; or use a new checkpoint and new tables.",
    )
