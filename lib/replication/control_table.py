"""The control table of replicated tables: the state of each topic, and requests to resume them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from ..delta import delta_table as table
from ..errors import ArgumentError, ColumnTypeError, TableError
from ..jvm import delete_folder, list_names, read_bytes
from ..paths import arrow_file_system, normalize_path

STATE_SCHEMA = (
    "topic STRING, table STRING, state STRING, reason STRING, columns STRING, key ARRAY<STRING>, "
    "positions MAP<INT, BIGINT>, changes BIGINT, dead_letters BIGINT, skipped BIGINT, "
    "batch BIGINT, counted_positions MAP<INT, BIGINT>, table_ids MAP<STRING, STRING>"
)
"""The columns of the control table, which has one row for each topic."""
REQUESTS = "_requests"
"""The folder below the control table with the requests to resume tables, by topic."""
State = Literal["active", "paused", "resuming"]
_WIDER: Mapping[type[DataType], tuple[type[DataType], ...]] = {
    IntegerType: (LongType, DoubleType),
    FloatType: (DoubleType,),
}
"""The types that Delta can change a column to, without rewriting its files."""


@dataclass(frozen=True)
class ResumeRequest:
    """A request to resume the paused tables of a topic, as a file in the folder REQUESTS.

    recreate: whether the tables are new ones, because the previous ones were moved away.
    skip_lost: whether the tables continue without the records that the topic has deleted.
    """

    recreate: bool = False
    skip_lost: bool = False

    def to_json(self) -> str:
        """Return the content of the file."""
        return json.dumps({"recreate": self.recreate, "skip_lost": self.skip_lost})

    @classmethod
    def from_json(cls, content: bytes | None) -> ResumeRequest:
        """Return the request in a file; one of a file that was deleted meanwhile is empty."""
        values = json.loads(content or b"{}")
        return cls(bool(values.get("recreate")), bool(values.get("skip_lost")))


@dataclass(frozen=True, kw_only=True)
class TableState:
    """What the control table knows of the tables of one topic.

    table: the name of the tables.
    state, reason: a paused table gets no changes; its records stay in the topic. A resuming one
        gets those that it has missed, in parts. A table that is not paused has a reason if it
        was resumed without records that the topic had deleted.
    columns, key: those of the source table, as far as they are known.
    positions: the end offsets up to which the tables have the topic, by partition.
    changes, dead_letters, skipped: the numbers of records since the first batch, by their outcome.
    batch: the last batch with records of the topic.
    counted_positions: the end offsets up to which the records of a paused topic are counted, and
        their dead letters written.
    table_ids: the Delta ids of the tables by output, which detect a deleted table.
    """

    topic: str
    table: str
    state: State = "active"
    reason: str | None = None
    columns: StructType = field(default_factory=StructType)
    key: tuple[str, ...] = ()
    positions: Mapping[int, int] = field(default_factory=dict)
    changes: int = 0
    dead_letters: int = 0
    skipped: int = 0
    batch: int = -1
    counted_positions: Mapping[int, int] = field(default_factory=dict)
    table_ids: Mapping[str, str] = field(default_factory=dict)

    def paused(self, reason: str) -> TableState:
        """Return the state of tables that get no more changes until they are resumed."""
        return replace(self, state="paused", reason=reason)

    def lost_offsets(self, earliest: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """Return the ranges that the topic has deleted and the tables do not have, by partition.

        earliest: the first offset of each partition of the topic.
        """
        positions = {part: self.positions.get(part, 0) for part in earliest}
        return {
            part: (positions[part], first)
            for part, first in sorted(earliest.items())
            if first > positions[part]
        }

    def requested(self, request: ResumeRequest, earliest: Mapping[int, int]) -> TableState:
        """Return the state after a request to resume the tables, which only paused ones can be.

        earliest: the first offset of each partition, for tables that skip lost records; else empty.
        """
        if self.state != "paused":
            return self
        lost = self.lost_offsets(earliest)
        resumed = replace(
            self,
            state="resuming",
            reason=f"resumed without {format_lost(lost)}" if lost else None,
            positions={**self.positions, **{part: end for part, (_, end) in lost.items()}},
        )
        if not request.recreate:
            return resumed
        return replace(resumed, columns=StructType(), key=(), table_ids={})

    def to_row(self) -> tuple[Any, ...]:
        """Return the row of the control table."""
        return (
            self.topic,
            self.table,
            self.state,
            self.reason,
            self.columns.json(),
            list(self.key),
            dict(self.positions),
            self.changes,
            self.dead_letters,
            self.skipped,
            self.batch,
            dict(self.counted_positions),
            dict(self.table_ids),
        )


def format_lost(lost: Mapping[int, tuple[int, int]]) -> str:
    """Return the lost ranges of a topic by partition, as one line.

    >>> format_lost({0: (5, 12)})
    '7 offsets that the topic has deleted (partition 0: from 5 up to 12)'
    """
    ranges = ", ".join(f"partition {part}: from {a} up to {b}" for part, (a, b) in lost.items())
    count = sum(end - start for start, end in lost.values())
    return f"{count:,} offsets that the topic has deleted ({ranges})"


def read_states(spark: SparkSession, path: str) -> dict[str, TableState]:
    """Return the states in a control table, by topic; none without a table."""
    stored = table.read_table(spark, path)
    rows = [] if stored is None else stored.collect()
    states = [_parse_row(row.asDict()) for row in rows]
    return {state.topic: state for state in states}


def _parse_row(row: Mapping[str, Any]) -> TableState:
    values = {**row, "columns": StructType.fromJson(json.loads(row["columns"]))}
    return TableState(**{**values, "key": tuple(row["key"])})


def read_requests(spark: SparkSession, path: str) -> dict[str, ResumeRequest]:
    """Return the requests to resume tables, by topic."""
    folder = f"{path}/{REQUESTS}"
    names = [name for name in list_names(spark, folder) if not name.startswith(".")]
    return {name: ResumeRequest.from_json(read_bytes(spark, f"{folder}/{name}")) for name in names}


def delete_requests(spark: SparkSession, path: str, topics: Iterable[str]) -> None:
    """Delete requests that the control table has taken into account."""
    for topic in topics:
        delete_folder(spark, f"{path}/{REQUESTS}/{topic}")


def states_frame(spark: SparkSession, states: Iterable[TableState]) -> DataFrame:
    """Return the rows of the control table, in the order of the topics."""
    ordered = sorted(states, key=lambda state: state.topic)
    rows = spark.createDataFrame([state.to_row() for state in ordered], STATE_SCHEMA)
    return rows.coalesce(1)


def read_control_rows(path: str) -> list[dict[str, Any]]:
    """Return the rows of a control table, in the order of the topics, without Spark.

    Each commit writes all rows into one file.

    Raises TableError for a folder that is not a control table.
    """
    files, folder = arrow_file_system(normalize_path(path))
    for action in _newest_actions(files, folder):
        if "add" in action:
            with files.open_input_file(f"{folder}/{action['add']['path']}") as file:
                rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
            if rows and not {"topic", "state", "positions"} <= rows[0].keys():
                break
            return sorted(rows, key=lambda row: str(row["topic"]))
    raise TableError(
        f"{path} is not the control table of replicated tables",
        "the folder output.table of the job replicate, after its first batch",
        "tidegate resume .run/replicate/replication shop.public.customers",
    )


def _newest_actions(files: FileSystem, folder: str) -> Iterator[dict[str, Any]]:
    """Yield the actions of the log, those of the newest commit first."""
    entries = files.get_file_info(FileSelector(f"{folder}/_delta_log", allow_not_found=True))
    names = sorted((one.path for one in entries if one.path.endswith(".json")), reverse=True)
    for name in names:
        with files.open_input_file(name) as file:
            yield from (json.loads(line) for line in file.read().splitlines())


def request_resume(
    path: str, topics: Sequence[str], *, recreate: bool = False, skip_lost: bool = False
) -> None:
    """Ask the job to resume the paused tables of these topics, with its next batches.

    recreate: whether the tables are new ones, because the previous ones were moved away.
    skip_lost: whether the tables continue without records that the topic has deleted meanwhile.

    Raises ArgumentError for a topic whose tables are not paused; then none is resumed.
    """
    states = {row["topic"]: row["state"] for row in read_control_rows(path)}
    paused = [topic for topic, state in states.items() if state == "paused"]
    for topic in topics:
        if topic not in paused:
            raise ArgumentError(
                f"invalid topic: {topic!r} is {states.get(topic, 'not replicated')}",
                f"a topic whose table is paused: {', '.join(paused) or 'there is none'}",
            )
    files, folder = arrow_file_system(normalize_path(path))
    files.create_dir(f"{folder}/{REQUESTS}")
    for topic in topics:
        # The job ignores names with a dot, and so never reads a part of a request.
        partial_file = f"{folder}/{REQUESTS}/.{topic}"
        with files.open_output_stream(partial_file) as file:
            file.write(ResumeRequest(recreate, skip_lost).to_json().encode())
        files.move(partial_file, f"{folder}/{REQUESTS}/{topic}")


def merged_columns(stored: StructType, found: StructType) -> StructType:
    """Return the columns of a table after records with other columns: added and widened ones.

    A column that records no longer have is retained, and null from then on.

    Raises ColumnTypeError for a column of another type that does not contain the first.
    """
    by_name = {column.name: column for column in stored}
    for column in found:
        known = by_name.get(column.name)
        data_type = column.dataType
        if known is not None:
            data_type = _common_type(column.name, known.dataType, data_type)
        by_name[column.name] = StructField(column.name, data_type)
    return StructType(list(by_name.values()))


def _common_type(name: str, stored: DataType, found: DataType) -> DataType:
    """Return the wider of two types of a column.

    Records that are read again can have the narrower one.
    """
    if stored == found or _is_wider(stored, found):
        return stored
    if _is_wider(found, stored):
        return found
    raise ColumnTypeError(
        f"column {name!r} was {stored.simpleString()} and is {found.simpleString()}",
        "the type of the table, or a wider one: INT to BIGINT or DOUBLE, FLOAT to DOUBLE, DECIMAL "
        "with more digits before and after the point",
        "replicate the topic into a new table",
    )


def _is_wider(wide: DataType, narrow: DataType) -> bool:
    if isinstance(wide, DecimalType) and isinstance(narrow, DecimalType):
        digits = wide.precision - wide.scale
        return wide.scale >= narrow.scale and digits >= narrow.precision - narrow.scale
    return type(wide) in _WIDER.get(type(narrow), ())
