"""The inputs of the stream driver: folders to which it writes one Parquet file a batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import BooleanType, StructField, StructType

from ..columns import first_line, quoted, require, require_event_time, schema_of
from ..durations import interval, microseconds
from ..errors import ArgumentError, ColumnTypeError
from ..eventtime.watermark import BEAT, watermarked

T = TypeVar("T")

EVENTS = "events"
"""The name of the only input, where the caller has given none."""


@dataclass(frozen=True)
class FedInput:
    """The columns and the event time of one input.

    lateness: the watermark's delay in microseconds; None for a stream without a watermark.
    """

    schema: StructType
    time: str
    lateness: int | None

    def require_time(self, spark: SparkSession) -> None:
        """Refuse a time that is no timestamp column, where there is to be a watermark on it."""
        if self.lateness is not None:
            require_event_time(spark.createDataFrame([], self.schema), self.time)

    def stream(self, spark: SparkSession, folder: Path) -> DataFrame:
        """Return the events as a stream that reads one file of the folder a batch."""
        stored = (
            spark.readStream.schema(self._stored)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder))
        )
        if self.lateness is None:
            return stored.drop(BEAT)
        return watermarked(stored, self.time, interval(self.lateness))

    def events(self, spark: SparkSession, rows: DataFrame | Iterable[Any], what: str) -> pa.Table:
        """Return rows that a test feeds, as a batch to be written."""
        if isinstance(rows, DataFrame):
            self._require_fitting(rows, what)
            found = rows.select(*map(quoted, self.schema.names)).toArrow()
        else:
            found = self._converted(spark, list(rows), what)
        return found.append_column(BEAT, pa.repeat(False, len(found)))

    def frame(self, spark: SparkSession, rows: DataFrame | Iterable[Any], what: str) -> DataFrame:
        """Return rows that a test feeds, as a DataFrame."""
        if isinstance(rows, DataFrame):
            self._require_fitting(rows, what)
            return rows
        return spark.createDataFrame(self._converted(spark, list(rows), what), self.schema)

    def heartbeat(self, spark: SparkSession, watermark: datetime) -> pa.Table:
        """Return the row, without an event, that moves the watermark on to an instant."""
        moved = watermark + timedelta(microseconds=self.lateness or 0)
        return _arrow(spark, [{self.time: moved, BEAT: True}], self._stored)

    def write(self, rows: pa.Table, path: Path, number: int) -> None:
        """Write rows as the file of a batch."""
        pq.write_table(rows, path)
        # Spark takes a folder's files in the order of their times, and two may be written within
        # one tick of the clock.
        os.utime(path, (number, number))

    def _converted(self, spark: SparkSession, rows: list[Any], what: str) -> pa.Table:
        try:
            return _arrow(spark, rows, self.schema)
        except (PySparkException, TypeError, ValueError) as fault:
            raise ColumnTypeError(
                f"the rows of {what} do not fit: {first_line(fault)}",
                f"tuples, dicts or Rows of {self.schema.simpleString()}, or a DataFrame.",
            ) from fault

    @property
    def _stored(self) -> StructType:
        """The columns of a file: nullable, since a heartbeat has its time and nothing else."""
        nullable = [StructField(field.name, field.dataType) for field in self.schema]
        return StructType([*nullable, StructField(BEAT, BooleanType())])

    def _require_fitting(self, rows: DataFrame, what: str) -> None:
        require(rows, self.schema.names, what)
        for field in self.schema:
            found = rows.schema[field.name].dataType.simpleString()
            if found != field.dataType.simpleString():
                raise ColumnTypeError(
                    f"the rows of {what} have {field.name!r} of type {found}.",
                    f"the type of the driver's schema, {field.dataType.simpleString()}.",
                )


def _arrow(spark: SparkSession, rows: list[Any], schema: StructType) -> pa.Table:
    """Return rows as a table of Arrow, without a job of Spark's where that can be."""
    try:
        return LocalDataToArrowConversion.convert(rows, schema, use_large_var_types=False)
    except (PySparkException, AssertionError, TypeError, ValueError, OverflowError):
        # Spark takes a few kinds of value more, no rows at all among them, and names what it
        # does not take.
        return spark.createDataFrame(rows, schema).toArrow()


def fed_inputs(
    schema: str | StructType | Mapping[str, str | StructType],
    lateness: str | timedelta | Mapping[str, str | timedelta | None] | None,
    time: str | Mapping[str, str],
) -> dict[str, FedInput]:
    """Return a driver's inputs by name; a schema that is not given by name is that of EVENTS."""
    schemas = dict(schema) if isinstance(schema, Mapping) else {EVENTS: schema}
    for name in schemas:
        if not isinstance(name, str) or not name.isidentifier():
            raise ArgumentError(
                f"schema names an input {name!r}.",
                "a Python name, by which feed can take its rows.",
            )
    if not schemas:
        raise ArgumentError("schema names no input.", "one or more.", '{"left": "id int", ...}')
    delays = _of_each(lateness, list(schemas), "lateness")
    times = _of_each(time, list(schemas), "time")
    return {
        name: FedInput(
            schema_of(given, "schema" if len(schemas) == 1 else f"schema[{name!r}]"),
            times[name],
            _microseconds(delays[name]),
        )
        for name, given in schemas.items()
    }


def _of_each(given: T | Mapping[str, T], names: Sequence[str], what: str) -> dict[str, T]:
    """Return the value for each input, from one for all of them or one for each."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(names, given)
    if set(given) != set(names):
        raise ArgumentError(
            f"{what} is given for {', '.join(map(str, given))}.",
            f"one for each input: {', '.join(names)}; or one for all.",
        )
    return dict(given)


def _microseconds(lateness: str | timedelta | None) -> int | None:
    return None if lateness is None else microseconds(lateness, "lateness", least=0)
