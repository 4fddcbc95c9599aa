"""An end for a stream: the offsets up to which a query reads, and no further.

Spark's streams from Kafka have no end of their own: a query that ends by itself reads up to what
the topics have when it is started. So a batch whose plan passes the end is not begun: the plan, of
which nothing has run, is cut back to the end, and the query is started again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from ...commit.plan_file import initial_offsets, parsed, read_plan
from ...errors import CheckpointError
from ...jvm import WholeFiles, read_bytes
from ...offsets import Offsets, offset_of
from ..process.stop import Stop, StopAskedError


class End(Stop):
    """Stops a run before the first batch that passes the end.

    beyond: the number of that batch, in the checkpoint; None while there was none.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, end: Offsets) -> None:
        super().__init__()
        self._spark = spark
        self._checkpoint = checkpoint
        self._end = end
        self.beyond: int | None = None

    @contextmanager
    def during(self, batch: int) -> Iterator[None]:
        """Mark a batch as under way, unless it passes the end."""
        if not self.asked and self._passes(batch):
            self.beyond = batch
            self.ask()
            raise StopAskedError
        with super().during(batch):
            yield

    def _passes(self, batch: int) -> bool:
        return passes(read_plan(self._spark, self._checkpoint, batch)[1], self._end)


def passes(ends: Sequence[Offsets], end: Offsets) -> bool:
    """Return whether a plan reads past the end in a partition."""
    return ends != cut(ends, [], end)


def cut(ends: Sequence[Offsets], before: Sequence[Offsets], end: Offsets) -> list[Offsets]:
    """Return a plan's ends, those of each source, cut back to the end.

    before: where the sources were before the plan, behind which none goes back. A partition that
    the end does not know is not read.

    >>> cut([{"t": {0: 9, 1: 3, 2: 5}}], [{"t": {0: 2, 1: 1, 2: 4}}], {"t": {0: 7, 1: 8}})
    [{'t': {0: 7, 1: 3, 2: 4}}]
    """
    made = []
    for index, stops in enumerate(ends):
        was = before[index] if index < len(before) else {}
        made.append(
            {
                topic: {
                    part: max(offset_of(was, topic, part), min(stop, offset_of(end, topic, part)))
                    for part, stop in parts.items()
                }
                for topic, parts in stops.items()
            }
        )
    return made


def cut_back(spark: SparkSession, checkpoint: str, number: int, end: Offsets) -> bool:
    """Cut the plan of a batch that has not run back to the end; False where nothing is left of it.

    A batch without rows is left where it has a newer watermark than the batch before: it writes the
    results that this closes. A kill in between leaves no plan, as before Spark made it.

    Raises:
        CheckpointError: for a plan that is not as Spark writes it.
    """
    path = f"{checkpoint}/offsets/{number}"
    content = read_bytes(spark, path)
    if content is None:
        return True
    meta, ends = parsed(path, content)
    before_meta, before = _before(spark, checkpoint, number, ends)
    made = cut(ends, before, end)
    moved = meta.get("batchWatermarkMs", 0) != before_meta.get("batchWatermarkMs", 0)
    if made == before and not moved:
        return False
    version, told, *lines = content.decode().split("\n")
    # Lines of sources that are no Kafka topic, or have read nothing, stay as they are.
    lines = [_line(offsets) if offsets else line for offsets, line in zip(made, lines, strict=True)]
    files = WholeFiles(spark, f"{checkpoint}/offsets")
    # Not replaced in one step: the check sum that Hadoop keeps beside a file must go with it.
    files.delete(str(number))
    if not files.write(str(number), "\n".join([version, told, *lines]).encode(), replace=False):
        raise CheckpointError(
            f"{path} was written by another driver meanwhile.",
            "one driver at a time on a checkpoint.",
            "let the other one end.",
        )
    return True


def _before(
    spark: SparkSession, checkpoint: str, number: int, ends: Sequence[Offsets]
) -> tuple[dict[str, Any], list[Offsets]]:
    """Return the metadata of the plan before, and where each source was, the first one's start."""
    meta, before = read_plan(spark, checkpoint, number - 1) if number else ({}, [])
    for index, stops in enumerate(ends):
        was = before[index] if index < len(before) else {}
        begun = initial_offsets(spark, checkpoint, index, stops) if stops and not was else was
        before[index : index + 1] = [begun]
    return meta, before


def _line(offsets: Offsets) -> str:
    told = {
        topic: {str(part): at for part, at in parts.items()} for topic, parts in offsets.items()
    }
    return json.dumps(told, separators=(",", ":"))
