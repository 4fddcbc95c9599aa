"""A driver that feeds a transform batch by batch, in event time alone."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from ..errors import ArgumentError, ColumnTypeError
from ..jvm import between_batches
from ..runtime.process.local_files import bare_checkpoint
from ._fed import EVENTS, fed_inputs
from ._taken import require_classic, require_takes

OutputMode = Literal["append", "update"]
Rows = DataFrame | Iterable[Any]


class StreamDriver:
    """Run a transform as a real stream, one micro-batch for each `feed`.

    There is no clock but the events' own. Each input reads what is fed to it, takes a watermark of
    `lateness` on `time`, and goes to `transform` as a DataFrame. The driver waits for nothing but
    Spark: `feed` returns when its rows have been worked on, with those that came out. State and
    checkpoint stand in a temporary folder, which goes when the driver closes.

    Args:
        spark: a classic session; Spark Connect would run the query where its rows cannot be seen.
        schema: the events' columns, as a Spark schema or DDL text; for several inputs one schema
            for each input's name, in the order in which the transform takes their frames.
        transform: from a streaming DataFrame for each input to a DataFrame: a function, or a value
            such as `Windowed` or `IntervalJoin`.
        lateness: the watermark's delay; None for a stream without a watermark. One for all inputs,
            or one for each input's name.
        time: the event-time column; one for all inputs, or one for each input's name.
        output_mode: "append" (each row once, when final) or "update".

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.aggregates import count
    >>> from tidegate.windows import tumbling
    >>> per_minute = lambda events: tumbling(events, "1 minute", aggs={"n": count()})
    >>> schema = "event_time timestamp"
    >>> with StreamDriver(spark, schema, per_minute, lateness="10 seconds") as stream:
    ...     first = stream.feed([(datetime(2026, 1, 1, 10, 3, 59, tzinfo=UTC),)])
    ...     after = stream.advance_to(datetime(2026, 1, 1, 10, 4, tzinfo=UTC))
    >>> [row.n for row in first], [row.n for row in after]
    ([], [1])

    Two inputs:

    >>> schemas = {"left": "id int, event_time timestamp", "right": "id int, event_time timestamp"}
    >>> both = lambda left, right: left.select("id").unionByName(right.select("id"))
    >>> with StreamDriver(spark, schemas, both, lateness=None) as stream:
    ...     [row.id for row in stream.feed(right=[(7, None)])]
    [7]
    """

    def __init__(
        self,
        spark: SparkSession,
        schema: str | StructType | Mapping[str, str | StructType],
        transform: Callable[..., DataFrame],
        *,
        lateness: str | timedelta | Mapping[str, str | timedelta | None] | None,
        time: str | Mapping[str, str] = "event_time",
        output_mode: OutputMode = "append",
    ) -> None:
        require_classic(spark)
        if output_mode not in get_args(OutputMode):
            raise ArgumentError(f"output_mode is {output_mode!r}.", '"append" or "update".')
        self._spark = spark
        self._transform = transform
        self._mode = output_mode
        self._named = isinstance(schema, Mapping)
        self._inputs = fed_inputs(schema, lateness, time)
        for fed in self._inputs.values():
            fed.require_time(spark)
        require_takes(transform, list(self._inputs))
        self._folder: Path | None = None
        self._query: StreamingQuery | None = None
        self._result: StructType | None = None
        self._came: list[Row] = []
        self._fed = 0
        self._held = ExitStack()

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-driver-"))
        self._held.enter_context(bare_checkpoint(self._spark, str(self._folder)))
        try:
            for name in self._inputs:
                (self._folder / name).mkdir()
            self._query = self._started(self._folder)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def feed(self, rows: Rows | None = None, /, **named: Rows) -> list[Row]:
        """Feed the stream one micro-batch, and return the rows that came out of it.

        Rows are tuples, dicts or a DataFrame. Several inputs are fed by their names, as
        `feed(left=rows)` or `feed(left=rows, right=others)`; what is fed together is one batch.
        """
        given = self._given(rows, named)
        return self._batch(
            {
                name: self._inputs[name].events(self._spark, each, self._called(name))
                for name, each in given.items()
            }
        )

    def advance_to(self, watermark: datetime) -> list[Row]:
        """Move all watermarks on to an instant, with no event, and return the rows that came out.

        The instant is a zone-aware datetime.
        """
        marked = {name: fed for name, fed in self._inputs.items() if fed.lateness is not None}
        if not marked:
            raise ArgumentError(
                "advance_to moves the watermark, and this stream has none.",
                "a driver with a lateness.",
                "lateness='10 seconds'",
            )
        if watermark.tzinfo is None:
            raise ArgumentError(
                f"watermark is {watermark!r}, which has no zone.",
                "a zone-aware datetime.",
                "tzinfo=UTC",
            )
        at = watermark.astimezone(UTC)
        return self._batch({name: fed.heartbeat(self._spark, at) for name, fed in marked.items()})

    def restart(self) -> None:
        """Stop the query and start it from its checkpoint, as after a crash between batches."""
        folder, query = self._running()
        query.stop()
        self._query = self._started(folder)

    def results(self) -> DataFrame:
        """Return all rows that came out so far as a batch, for chispa."""
        if self._result is None:
            raise ArgumentError(
                "results was called before the driver was entered.",
                "results once the stream has started.",
                "with StreamDriver(...) as stream:",
            )
        return self._spark.createDataFrame(self._came, self._result)

    def _started(self, folder: Path) -> StreamingQuery:
        streams = [fed.stream(self._spark, folder / name) for name, fed in self._inputs.items()]
        result = self._transform(*streams)
        if not isinstance(result, DataFrame) or not result.isStreaming:
            raise ColumnTypeError(
                f"transform returned {result!r}.", "a streaming DataFrame, made of those given."
            )
        self._result = result.schema
        return (
            result.writeStream.outputMode(self._mode)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .foreachBatch(self._take)
            .start()
        )

    def _take(self, frame: DataFrame, _: int) -> None:
        self._came += frame.collect()

    def _batch(self, tables: Mapping[str, pa.Table]) -> list[Row]:
        """Let the query read these rows as its next batch, and return what comes out."""
        folder, query = self._running()
        before = len(self._came)
        self._fed += 1
        file = f"{self._fed:08d}.parquet"
        for name, table in tables.items():
            self._inputs[name].write(table, folder / f"{name}.next", self._fed)
        # A join of a stream with itself reads the folder twice, and two inputs are two folders:
        # all of it has to be seen by the same batch.
        with between_batches(query):
            for name in tables:
                (folder / f"{name}.next").rename(folder / name / file)
        query.processAllAvailable()
        return self._came[before:]

    def _running(self) -> tuple[Path, StreamingQuery]:
        if self._folder is None or self._query is None:
            raise ArgumentError(
                "the driver does not run: it has not been entered, or has been closed.",
                "calls inside its with block.",
                "with StreamDriver(...) as stream:",
            )
        return self._folder, self._query

    def _close(self) -> None:
        if self._query is not None:
            self._query.stop()
            self._query = None
        self._held.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _given(self, rows: Rows | None, named: Mapping[str, Rows]) -> Mapping[str, Rows]:
        """Return the rows of each input that is fed."""
        if not self._named:
            if rows is None or named:
                raise ArgumentError(
                    f"feed was given {', '.join(named) or 'nothing'}; the stream has one input.",
                    "its rows, without a name.",
                    "feed(rows)",
                )
            return {EVENTS: rows}
        if rows is not None or not named or not named.keys() <= self._inputs.keys():
            raise ArgumentError(
                f"feed was given {', '.join(named) or 'rows without a name'}.",
                f"rows by the inputs' names: {', '.join(self._inputs)}.",
                f"feed({next(iter(self._inputs))}=rows)",
            )
        return named

    def _called(self, name: str) -> str:
        return f"feed({name}=...)" if self._named else "feed(...)"
