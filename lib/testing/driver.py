"""A driver that feeds a transform batch by batch, in event time alone, and gives back what came
out."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BooleanType, StructField, StructType

from ..columns import interval, microseconds, quoted, require_event_time
from ..errors import ArgumentError

PULSE = "_pulse"


class StreamDriver:
    """Run a transform as a real stream, one micro-batch for each `feed`, with no clock but the events' own.

    The stream reads what is fed, takes a watermark of `lateness` on `time`, and passes the rows to
    `transform`. It
    waits for nothing but Spark: `feed` returns when its rows have been worked on, with those that
    came out. State and checkpoint stand in a temporary folder, which goes when the driver closes.

    Args:
        spark: the session.
        schema: the events' columns, as a Spark schema or DDL text.
        transform: from a streaming DataFrame to a DataFrame.
        lateness: the watermark's delay; None for a stream without a watermark.
        time: the event-time column.
        output_mode: "append" (each row once, when final) or "update".

    >>> from tidegate.aggregates import count
    >>> from tidegate.windows import tumbling
    >>> per_minute = lambda events: tumbling(events, "1 minute", aggs={"n": count()})
    >>> with StreamDriver(spark, "event_time timestamp", per_minute, lateness="10 seconds") as stream:
    ...     first = stream.feed([(datetime(2026, 1, 1, 10, 3, 59, tzinfo=UTC),)])
    ...     after = stream.advance_to(datetime(2026, 1, 1, 10, 4, tzinfo=UTC))
    >>> [row.n for row in first], [row.n for row in after]
    ([], [1])
    """

    def __init__(
        self,
        spark: SparkSession,
        schema: str | StructType,
        transform: Callable[[DataFrame], DataFrame],
        *,
        lateness: str | timedelta | None,
        time: str = "event_time",
        output_mode: Literal["append", "update"] = "append",
    ) -> None:
        self._spark, self._transform, self._time, self._mode = spark, transform, time, output_mode
        self._schema = spark.createDataFrame([], schema).schema
        self._stored = StructType([*self._schema.fields, StructField(PULSE, BooleanType())])
        self._lateness = None if lateness is None else microseconds(lateness, "lateness", least=0)
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-driver-"))
        self._input = self._folder / "input"
        self._input.mkdir()
        self._fed = 0
        self._came: list[Row] = []
        self._result: StructType | None = None
        self._query: StreamingQuery | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._query is not None:
            self._query.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def feed(self, rows: DataFrame | Iterable[Any]) -> list[Row]:
        """Return the stream one micro-batch, and return the rows that came out of it."""
        frame = (
            rows
            if isinstance(rows, DataFrame)
            else self._spark.createDataFrame(list(rows), self._schema)
        )
        return self._write(frame.withColumn(PULSE, F.lit(False)))

    def advance_to(self, watermark: datetime) -> list[Row]:
        """Move the watermark on to an instant (zone-aware), with no event, and return the rows that
        came out."""
        if self._lateness is None:
            raise ArgumentError(
                "advance_to moves the watermark, and this stream has none.", "lateness='10 seconds'"
            )
        if watermark.tzinfo is None:
            raise ArgumentError(
                f"watermark is {watermark!r}, which has no zone.",
                "a zone-aware datetime.",
                "tzinfo=UTC",
            )
        seen = watermark.astimezone(UTC) + timedelta(microseconds=self._lateness)
        values = {self._time: seen, PULSE: True}
        row = tuple(values.get(name) for name in self._stored.names)
        nullable = StructType([StructField(field.name, field.dataType) for field in self._stored])
        return self._write(self._spark.createDataFrame([row], nullable))

    def restart(self) -> None:
        """Stop the query and start it anew from its checkpoint, as after a crash between two
        batches."""
        if self._query is not None:
            self._query.stop()
        self._start()

    def results(self) -> DataFrame:
        """Return all rows that came out so far as a batch, for chispa."""
        if self._result is None:
            raise ArgumentError(
                "results was called before the driver was entered.",
                "with StreamDriver(...) as stream:",
            )
        return self._spark.createDataFrame(self._came, self._result)

    def _start(self) -> None:
        stored = (
            self._spark.readStream.schema(self._stored)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self._input))
        )
        events = stored if self._lateness is None else self._gated(stored)
        result = self._transform(events.drop(PULSE))
        self._result = result.schema
        self._query = (
            result.writeStream.outputMode(self._mode)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .foreachBatch(self._take)
            .start()
        )

    def _gated(self, stored: DataFrame) -> DataFrame:
        marked = stored.withWatermark(self._time, interval(self._lateness or 0))
        require_event_time(marked, self._time)
        # Naming the time keeps the filter above the watermark, where a pulse has been seen already.
        return marked.where(~quoted(PULSE) | quoted(self._time).isNull())

    def _take(self, frame: DataFrame, _: int) -> None:
        self._came += frame.collect()

    def _write(self, frame: DataFrame) -> list[Row]:
        if self._query is None:
            raise ArgumentError(
                "the driver was fed before it was entered.", "with StreamDriver(...) as stream:"
            )
        before = len(self._came)
        self._fed += 1
        hidden, path = self._folder / "next", self._input / f"{self._fed:08d}.parquet"
        pq.write_table(frame.select(*map(quoted, self._stored.names)).toArrow(), hidden)
        os.utime(hidden, (self._fed, self._fed))
        hidden.rename(path)
        self._query.processAllAvailable()
        return self._came[before:]
