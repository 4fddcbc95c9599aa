"""A driver that runs a transform as a stream in virtual time, batch by batch."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self, TypeVar, get_args

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BooleanType, StructField, StructType

from ..columns import as_schema, first_line, quoted_column, require_columns, require_event_time
from ..durations import interval_text, microseconds
from ..errors import ArgumentError, ColumnTypeError
from ..event_time.watermark import IS_HEARTBEAT, with_watermark
from ..jvm import pause_between_batches
from ..spark.job_session import job_session
from ..spark.session import checkpoint_by_rename

OutputMode = Literal["append", "update"]
Rows = DataFrame | Iterable[Any]
T = TypeVar("T")

DEFAULT_INPUT = "events"
"""The name of a single input without a name."""


class StreamDriver:
    """Run a transform as a real stream, one micro-batch per `feed`.

    Time advances only with the events. Each input is a stream of the fed rows with a watermark on
    `time`, and an argument of `transform`. `feed` returns the output rows of its batch. State and
    checkpoint are in a temporary folder, which is removed when the driver closes. The stream
    runs with the settings of a job; see `tidegate.run`.

    Args:
        spark: a classic session; Spark Connect does not expose the batches of a stream.
        schema: the columns of the events, as a schema or DDL; for several inputs a mapping of names
            to schemas, in the order of the transform's arguments.
        transform: a function of one streaming DataFrame per input to a DataFrame, or a value such
            as `WindowAggregation` or `IntervalJoin`.
        watermark_delay: one delay for all inputs, or one per input; None for no watermark.
        time: the event-time column, for all inputs or per input.
        output_mode: "append" (each row once, when final) or "update".

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at the call.

    >>> from tidegate.aggregates import count
    >>> from tidegate.windows import tumbling
    >>> per_minute = lambda events: tumbling(events, "1 minute", aggs={"n": count()})
    >>> schema = "event_time timestamp"
    >>> with StreamDriver(spark, schema, per_minute, watermark_delay="10 seconds") as stream:
    ...     first = stream.feed([(datetime(2026, 1, 1, 10, 3, 59, tzinfo=UTC),)])
    ...     after = stream.advance_to(datetime(2026, 1, 1, 10, 4, tzinfo=UTC))
    >>> [row.n for row in first], [row.n for row in after]
    ([], [1])

    Two inputs:

    >>> schemas = {"left": "id int, event_time timestamp", "right": "id int, event_time timestamp"}
    >>> both = lambda left, right: left.select("id").unionByName(right.select("id"))
    >>> with StreamDriver(spark, schemas, both, watermark_delay=None) as stream:
    ...     [row.id for row in stream.feed(right=[(7, None)])]
    [7]
    """

    def __init__(
        self,
        spark: SparkSession,
        schema: str | StructType | Mapping[str, str | StructType],
        transform: Callable[..., DataFrame],
        *,
        watermark_delay: str | timedelta | Mapping[str, str | timedelta | None] | None,
        time: str | Mapping[str, str] = "event_time",
        output_mode: OutputMode = "append",
    ) -> None:
        if not isinstance(spark, SparkSession):
            raise ColumnTypeError(
                f"invalid spark: {spark!r}",
                "a classic SparkSession; Spark Connect does not expose the batches of a stream",
                "SparkSession.builder.master('local[2]').getOrCreate()",
            )
        if output_mode not in get_args(OutputMode):
            raise ArgumentError(f"invalid output_mode: {output_mode!r}", "'append' or 'update'")
        self._caller_session = self._spark = spark
        self._transform = transform
        self._mode = output_mode
        self._has_named_inputs = isinstance(schema, Mapping)
        self._inputs = build_driver_inputs(schema, watermark_delay, time)
        for driver_input in watermarked_inputs(self._inputs).values():
            require_event_time(spark.createDataFrame([], driver_input.schema), driver_input.time)
        _require_accepts_inputs(transform, list(self._inputs))
        self._folder: Path | None = None
        self._query: StreamingQuery | None = None
        self._result_schema: StructType | None = None
        self._output_rows: list[Row] = []
        self._batch_count = 0
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as resources:
            files = TemporaryDirectory(prefix="tidegate-driver-", ignore_cleanup_errors=True)
            folder = Path(resources.enter_context(files))
            self._spark = resources.enter_context(job_session(self._caller_session))
            resources.enter_context(checkpoint_by_rename(self._spark, str(folder)))
            for name in self._inputs:
                (folder / name).mkdir()
            self._query = self._start_query(folder)
            self._folder = folder
            self._resources = resources.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        if self._query is not None:
            self._query.stop()
        self._resources.close()
        self._folder = self._query = None
        self._spark = self._caller_session

    def feed(self, rows: Rows | None = None, /, **rows_by_input: Rows) -> list[Row]:
        """Run one micro-batch and return its output rows.

        Rows are tuples, dicts or a DataFrame. Several inputs are passed by name, as
        `feed(left=rows)` or `feed(left=rows, right=others)`; all rows of a call are one batch.
        """
        tables = {}
        for name, input_rows in self._rows_by_input(rows, rows_by_input).items():
            label = f"feed({name}=...)" if self._has_named_inputs else "feed(...)"
            tables[name] = self._inputs[name].to_arrow(self._spark, input_rows, label)
        return self._run_batch(tables)

    def advance_to(self, watermark: datetime) -> list[Row]:
        """Advance all watermarks to a timezone-aware datetime, and return the output rows."""
        watermarked = watermarked_inputs(self._inputs)
        if not watermarked:
            raise ArgumentError(
                "invalid call of advance_to: the stream has no watermark",
                "a driver with a watermark",
                "watermark_delay='10 seconds'",
            )
        if watermark.tzinfo is None:
            raise ArgumentError(
                f"invalid watermark: {watermark!r} has no time zone",
                "a timezone-aware datetime",
                "tzinfo=UTC",
            )
        instant = watermark.astimezone(UTC)
        heartbeats = {
            name: driver_input.heartbeat(self._spark, instant)
            for name, driver_input in watermarked.items()
        }
        return self._run_batch(heartbeats)

    def restart(self) -> None:
        """Restart the query from its checkpoint, as after a crash between batches."""
        folder, query = self._require_running()
        query.stop()
        self._query = self._start_query(folder)

    def results(self) -> DataFrame:
        """Return all output rows so far as a batch DataFrame."""
        if self._result_schema is None:
            raise ArgumentError(
                "invalid call of results: the stream has not started",
                "a call inside the driver's with block",
                "with StreamDriver(...) as stream:",
            )
        return self._caller_session.createDataFrame(self._output_rows, self._result_schema)

    def _start_query(self, folder: Path) -> StreamingQuery:
        streams = [
            driver_input.stream(self._spark, folder / name)
            for name, driver_input in self._inputs.items()
        ]
        result = self._transform(*streams)
        if not isinstance(result, DataFrame) or not result.isStreaming:
            raise ColumnTypeError(
                f"invalid transform: it returned {result!r}",
                "a streaming DataFrame that is derived from the arguments",
            )
        self._result_schema = result.schema
        writer = result.writeStream.outputMode(self._mode).foreachBatch(self._collect_output)
        try:
            return writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        except AnalysisException as error:
            if self._mode == "append":
                raise
            raise ArgumentError(
                f"invalid output_mode: {self._mode!r} for this transform",
                "'append', since Spark cannot update sessions, or the results of several "
                "stateful steps",
                'output_mode="append"',
            ) from error

    def _collect_output(self, frame: DataFrame, _: int) -> None:
        self._output_rows += frame.collect()

    def _run_batch(self, tables: Mapping[str, pa.Table]) -> list[Row]:
        """Run the query on these rows as one batch, and return its output rows."""
        folder, query = self._require_running()
        previous_count = len(self._output_rows)
        self._batch_count += 1
        file = f"{self._batch_count:08d}.parquet"
        for name, table in tables.items():
            next_file = folder / f"{name}.next"
            pq.write_table(table, next_file)
            # Spark orders the files by modification time, which can be equal for two files.
            os.utime(next_file, (self._batch_count, self._batch_count))
        # One batch must see all files: two inputs are two folders, and a self-join reads twice.
        with pause_between_batches(query):
            for name in tables:
                (folder / f"{name}.next").rename(folder / name / file)
        query.processAllAvailable()
        return self._output_rows[previous_count:]

    def _require_running(self) -> tuple[Path, StreamingQuery]:
        if self._folder is None or self._query is None:
            raise ArgumentError(
                "invalid call: the driver is not running",
                "a call inside its with block",
                "with StreamDriver(...) as stream:",
            )
        return self._folder, self._query

    def _rows_by_input(
        self, rows: Rows | None, rows_by_input: Mapping[str, Rows]
    ) -> Mapping[str, Rows]:
        if not self._has_named_inputs:
            if rows is None or rows_by_input:
                raise ArgumentError(
                    f"invalid arguments of feed: {', '.join(rows_by_input) or 'none'}",
                    "the rows of the single input, without a name",
                    "feed(rows)",
                )
            return {DEFAULT_INPUT: rows}
        if rows is not None or not rows_by_input or not rows_by_input.keys() <= self._inputs.keys():
            raise ArgumentError(
                f"invalid arguments of feed: {', '.join(rows_by_input) or 'rows without a name'}",
                f"rows by input name: {', '.join(self._inputs)}",
                f"feed({next(iter(self._inputs))}=rows)",
            )
        return rows_by_input


def _require_accepts_inputs(transform: object, names: Sequence[str]) -> None:
    """Raise if a transform cannot be called with one DataFrame per input."""
    if not callable(transform):
        raise ColumnTypeError(
            f"invalid transform: {transform!r}",
            "a function of the stream's DataFrames, or a value such as WindowAggregation(...)",
        )
    try:
        signature = inspect.signature(transform)
    except ValueError:
        # A function written in C may have no signature.
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        raise ArgumentError(
            f"invalid transform: signature {signature} with inputs {', '.join(names)}",
            "a function of one DataFrame per input, in their order",
        ) from error


@dataclass(frozen=True)
class DriverInput:
    """The columns and the event time of one input.

    watermark_delay: in microseconds; None for a stream without a watermark.
    """

    schema: StructType
    time: str
    watermark_delay: int | None

    def stream(self, spark: SparkSession, folder: Path) -> DataFrame:
        """Return the events as a stream that reads one file of the folder per batch."""
        reader = spark.readStream.schema(self._file_schema).option("maxFilesPerTrigger", 1)
        file_rows = reader.parquet(str(folder))
        if self.watermark_delay is None:
            return file_rows.drop(IS_HEARTBEAT)
        return with_watermark(file_rows, self.time, interval_text(self.watermark_delay))

    def to_arrow(self, spark: SparkSession, rows: Rows, label: str) -> pa.Table:
        """Return fed rows as a batch to write."""
        if isinstance(rows, DataFrame):
            self._require_schema(rows, label)
            table = rows.select(*map(quoted_column, self.schema.names)).toArrow()
        else:
            table = self._rows_to_arrow(spark, list(rows), label)
        return table.append_column(IS_HEARTBEAT, pa.repeat(False, len(table)))

    def to_frame(self, spark: SparkSession, rows: Rows, label: str) -> DataFrame:
        """Return fed rows as a DataFrame."""
        if isinstance(rows, DataFrame):
            self._require_schema(rows, label)
            return rows
        return spark.createDataFrame(self._rows_to_arrow(spark, list(rows), label), self.schema)

    def heartbeat(self, spark: SparkSession, watermark: datetime) -> pa.Table:
        """Return the heartbeat row that advances the watermark to an instant."""
        event_time = watermark + timedelta(microseconds=self.watermark_delay or 0)
        return _arrow_table(spark, [{self.time: event_time, IS_HEARTBEAT: True}], self._file_schema)

    def _rows_to_arrow(self, spark: SparkSession, rows: list[Any], label: str) -> pa.Table:
        try:
            return _arrow_table(spark, rows, self.schema)
        except (PySparkException, TypeError, ValueError) as error:
            raise ColumnTypeError(
                f"invalid rows of {label}: {first_line(error)}",
                f"tuples, dicts or Rows of {self.schema.simpleString()}, or a DataFrame",
            ) from error

    @property
    def _file_schema(self) -> StructType:
        """The columns of a file: nullable, because a heartbeat has only its time."""
        nullable = [StructField(field.name, field.dataType) for field in self.schema]
        return StructType([*nullable, StructField(IS_HEARTBEAT, BooleanType())])

    def _require_schema(self, rows: DataFrame, label: str) -> None:
        require_columns(rows, self.schema.names, label)
        for field in self.schema:
            actual_type = rows.schema[field.name].dataType.simpleString()
            if actual_type != field.dataType.simpleString():
                raise ColumnTypeError(
                    f"invalid rows of {label}: {field.name!r} has type {actual_type}",
                    f"the type of the driver's schema, {field.dataType.simpleString()}",
                )


def _arrow_table(spark: SparkSession, rows: list[Any], schema: StructType) -> pa.Table:
    """Return rows as an Arrow table, without a Spark job if possible."""
    try:
        return LocalDataToArrowConversion.convert(rows, schema, use_large_var_types=False)
    except (PySparkException, AssertionError, TypeError, ValueError, OverflowError):
        # Spark accepts a few more kinds of values, also an empty list, and reports invalid ones.
        return spark.createDataFrame(rows, schema).toArrow()


def build_driver_inputs(
    schema: str | StructType | Mapping[str, str | StructType],
    watermark_delay: str | timedelta | Mapping[str, str | timedelta | None] | None,
    time: str | Mapping[str, str],
) -> dict[str, DriverInput]:
    """Return a driver's inputs by name; the name of a single schema is DEFAULT_INPUT."""
    schemas = dict(schema) if isinstance(schema, Mapping) else {DEFAULT_INPUT: schema}
    for name in schemas:
        if not isinstance(name, str) or not name.isidentifier():
            raise ArgumentError(
                f"invalid schema: input name {name!r}",
                "a Python identifier, which is a parameter of feed",
            )
    if not schemas:
        raise ArgumentError("invalid schema: {}", "at least one input", '{"left": "id int", ...}')
    delays = _by_input(watermark_delay, list(schemas), "watermark_delay")
    times = _by_input(time, list(schemas), "time")
    inputs = {}
    for name, input_schema in schemas.items():
        label = "schema" if len(schemas) == 1 else f"schema[{name!r}]"
        delay = delays[name]
        micros = None if delay is None else microseconds(delay, "watermark_delay", min_value=0)
        inputs[name] = DriverInput(as_schema(input_schema, label), times[name], micros)
    return inputs


def _by_input(value: T | Mapping[str, T], names: Sequence[str], label: str) -> dict[str, T]:
    """Return the value of each input, from one value for all inputs or one per input."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(names, value)
    if set(value) != set(names):
        raise ArgumentError(
            f"invalid {label}: values for {', '.join(map(str, value))}",
            f"one value per input: {', '.join(names)}; or one for all",
        )
    return dict(value)


def watermarked_inputs(inputs: Mapping[str, DriverInput]) -> dict[str, DriverInput]:
    """Return the inputs with a watermark."""
    return {name: each for name, each in inputs.items() if each.watermark_delay is not None}
