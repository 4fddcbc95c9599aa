"""The public signatures, pinned: a change here is a change for every user."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

import pytest

from tidegate import (
    aggregates,
    changes,
    eventtime,
    formats,
    joins,
    patterns,
    sinks,
    sketches,
    sources,
    stores,
    views,
    windows,
)
from tidegate.testing import Broker, StreamDriver

COMMON = (
    "*, by: str | Sequence[str] = (), aggs: Mapping[str, Aggregate | Column], "
    "time: str = 'event_time'"
)
LAYOUT = f"layout: Layout = {sinks.Layout()}"
CALENDAR = "offset: str | timedelta = '0 seconds', zone: str | None = None"
BOUNDS = "(stored: str | Column, *, deviations: int = 2) -> Column"
FORMAT = (
    "(columns: str | StructType, *, key: str | Sequence[str], using: Callable[[StructType], "
    "Format] | None = None, position: Position = 'log') -> ChangeFormat"
)
SET = "(left: str | Column, right: str | Column, *, precision: int = 12) -> Column"
OF_A_VALUE: tuple[Callable[..., object], ...] = (
    aggregates.total,
    aggregates.mean,
    aggregates.smallest,
    aggregates.largest,
    aggregates.first,
    aggregates.last,
)
PINNED: dict[Callable[..., object], str] = {
    windows.tumbling: f"(events: DataFrame, size: str | timedelta, {COMMON}, {CALENDAR}) -> "
    "DataFrame",
    windows.cumulative: (
        f"(events: DataFrame, step: str | timedelta, size: str | timedelta, {COMMON}, {CALENDAR}) "
        "-> DataFrame"
    ),
    windows.rolled_up: (
        "(panes: DataFrame, size: str | timedelta, *, by: str | Sequence[str] = (), aggs: "
        "Mapping[str, Aggregate], "
        f"{CALENDAR}) -> DataFrame"
    ),
    windows.hopping: (
        f"(events: DataFrame, size: str | timedelta, hop: str | timedelta, {COMMON}, "
        "offset: str | timedelta = '0 seconds') -> DataFrame"
    ),
    windows.sliding: (
        "(events: DataFrame, size: str | timedelta, *, by: str | Sequence[str] = (), aggs: "
        "Mapping[str, Aggregate], "
        "time: str = 'event_time', keep: str | Sequence[str] = (), windows: Windows = 'each') -> "
        "DataFrame"
    ),
    windows.session: (
        f"(events: DataFrame, gap: str | timedelta | Column, {COMMON}, longest: str | timedelta | "
        "None = None) "
        "-> DataFrame"
    ),
    aggregates.count: "(value: str | Column | None = None) -> Aggregate",
    **dict.fromkeys(OF_A_VALUE, "(value: str | Column) -> Aggregate"),
    aggregates.partials: "(aggs: Mapping[str, Aggregate]) -> dict[str, Aggregate]",
    aggregates.merged: "(frame: DataFrame, by: str | Sequence[str], aggs: Mapping[str, Aggregate]) "
    "-> DataFrame",
    aggregates.finished: "(frame: DataFrame, aggs: Mapping[str, Aggregate]) -> DataFrame",
    joins.stream_stream: (
        "(left: DataFrame, right: DataFrame, on: str | Sequence[str], *, within: Within, how: How, "
        "time: str | tuple[str, str] = 'event_time', suffixes: tuple[str, str] = ('_left', "
        "'_right'), emission: JoinEmission = 'early') -> DataFrame"
    ),
    joins.table_table: (
        "(left: DataFrame, right: DataFrame, *, on: str | Sequence[str], how: JoinKind = 'inner') "
        "-> DataFrame"
    ),
    joins.stream_table: (
        "(events: DataFrame, table: DataFrame, on: str | Sequence[str], *, how: TableJoin = "
        "'inner', "
        "as_of: str | None = None, order: str | Sequence[str] = ()) -> DataFrame"
    ),
    joins.versions: (
        "(changes: DataFrame, *, time: str = 'event_time', deleted: str | Column | None = None) -> "
        "DataFrame"
    ),
    formats.avro_format: (
        "(schema: AvroSchema | StructType, *, writer: AvroSchema | None = None, "
        "registry: Schemas | Mapping[int, AvroSchema] | None = None, "
        "tombstones: Tombstones = 'dead') -> AvroFormat"
    ),
    formats.Registry: (
        "(url: str, *, user: str | None = None, password: str | None = None, "
        "token: str | None = None, certificates: str | None = None, "
        "timeout: str | timedelta = '10 seconds', attempts: int = 5, "
        "pause: str | timedelta = '500 milliseconds') -> None"
    ),
    formats.protobuf_format: (
        "(descriptor_set: bytes | Path, message: str, *, columns: str | StructType | None = None, "
        "registry: Schemas | Mapping[int, str | Path] | None = None, "
        "tombstones: Tombstones = 'dead') -> ProtobufFormat"
    ),
    formats.headed: "(form: JsonFormat) -> HeadedFormat",
    formats.json_format: (
        "(schema: str | StructType, *, tombstones: Literal['dead', 'row'] = 'dead', "
        "parser: Literal['arrow', 'spark'] = 'arrow') -> JsonFormat"
    ),
    formats.keyed_json: (
        "(schema: str | StructType, *, key: str, time: str = 'event_time', "
        "place: tuple[str, str] = ('partition', 'offset')) -> KeyedJson"
    ),
    formats.debezium: FORMAT,
    formats.maxwell: FORMAT,
    eventtime.server_time: (
        "(occurred: str | Column, sent: str | Column, received: str | Column, *, "
        "longest: str | timedelta | None = None) -> Column"
    ),
    eventtime.shifted: "(occurred: str | Column, offset: str | Column) -> Column",
    eventtime.clock_offsets: (
        "(events: DataFrame, *, device: str, sent: str, received: str, "
        "every: str | timedelta = '1 hour', step: str | timedelta = '10 seconds', "
        "messages: int = 5) -> DataFrame"
    ),
    eventtime.ahead_of: ("(time: Column, received: Column, tolerance: str | timedelta) -> Column"),
    eventtime.instant: "(epoch: Column, unit: str = 'milliseconds') -> Column",
    sources.KafkaSource: (
        "(servers: str, topics: str | Sequence[str] = (), *, pattern: str | None = None, "
        "partitions: Mapping[str, Sequence[int]] | None = None, start: Start = 'earliest', "
        "max_rows: int | None = 1000000, on_data_loss: Literal['stop', 'record'] = 'stop', "
        "options: Mapping[str, str] = <factory>) -> None"
    ),
    sources.Reading: (
        "(source: KafkaSource, format: Format, *, time: str | Column, lateness: str | timedelta, "
        "keep: Sequence[str] = (), future_tolerance: str | timedelta | None = '1 hour', "
        "future: Literal['reject', 'clamp'] = 'reject', value_cap: int = 65536, "
        "time_unit: TimeUnit | None = None, where: str | None = None) -> None"
    ),
    sources.TableChanges: (
        "(path: str, *, key: str | Sequence[str], columns: Sequence[str] | None = None, "
        "where: str | None = None) -> None"
    ),
    sources.net_changes: (
        "(spark: SparkSession, table: str, from_version: int, to_version: int, *, "
        "key: str | Sequence[str]) -> DataFrame"
    ),
    sources.Heartbeats: "(path: str) -> None",
    Broker: (
        "(dir: str | Path | None = None, *, port: int | None = None, "
        "users: Mapping[str, str] | None = None) -> None"
    ),
    StreamDriver: (
        "(spark: SparkSession, schema: str | StructType | Mapping[str, str | StructType], "
        "transform: Callable[..., DataFrame], *, "
        "lateness: str | timedelta | Mapping[str, str | timedelta | None] | None, "
        "time: str | Mapping[str, str] = 'event_time', output_mode: OutputMode = 'append') -> None"
    ),
    changes.decided: "(commands: DataFrame, rules: Commands) -> DataFrame",
    changes.folded: "(events: DataFrame, fold: Fold) -> DataFrame",
    changes.folded_as_of: (
        "(events: DataFrame, fold: Fold, *, time: datetime | None = None, "
        "offsets: Offsets | None = None, snapshots: DataFrame | None = None) -> DataFrame"
    ),
    changes.changes_between: (
        "(old: DataFrame, new: DataFrame, *, key: str | Sequence[str], position: Sequence[int], "
        "at: datetime, of: str = 'snapshot') -> DataFrame"
    ),
    changes.snapshot_of: (
        "(rows: DataFrame, *, key: str | Sequence[str], position: Sequence[int], at: datetime, "
        "of: str = 'snapshot') -> DataFrame"
    ),
    changes.after_snapshot: (
        "(changes: DataFrame, *, position: Sequence[int] | None = None, "
        "offsets: Mapping[str, Mapping[int, int]] | None = None) -> DataFrame"
    ),
    changes.records: "(changes: DataFrame) -> DataFrame",
    changes.newest: "(changes: DataFrame) -> DataFrame",
    changes.versions: "(changes: DataFrame) -> DataFrame",
    changes.revised: "(table: DataFrame, changes: DataFrame, *, truncated: bool) -> DataFrame",
    patterns.compare: (
        "(value: str | Column, comparator: Comparator, earlier: Measure) -> Comparison"
    ),
    patterns.deviations: (
        "(windows: DataFrame, size: str | timedelta, *, rules: Mapping[str, Deviation], "
        "by: str | Sequence[str] = (), offset: str | timedelta = '0 seconds', "
        "zone: str | None = None, until: datetime | None = None) -> DataFrame"
    ),
    patterns.directly: "(taken: Step) -> Step",
    patterns.match_sequence: (
        "(events: DataFrame, pattern: Pattern, *, by: str | Sequence[str] = (), "
        "measures: Mapping[str, Measure] | None = None, skip: Skip = 'past_last', "
        "timeouts: bool = False, time: str = 'event_time', order: str | Sequence[str] = ()) -> "
        "DataFrame"
    ),
    patterns.matches: (
        "(documents: DataFrame, queries: DataFrame, fields: SearchFields, *, query: str = 'query', "
        "as_of: str | None = None, on: str | Sequence[str] = 'query_id', "
        "order: str | Sequence[str] = ()) -> DataFrame"
    ),
    patterns.not_: "(*conditions: Condition) -> Absent",
    patterns.of: "(step: str | None = None) -> Taken",
    patterns.parse_query: "(text: str, fields: SearchFields) -> Query",
    patterns.query_format: "(fields: SearchFields) -> QueryFormat",
    patterns.read_queries: (
        "(queries: DataFrame, fields: SearchFields, *, query: str = 'query') -> DataFrame"
    ),
    patterns.sequence: "(*parts: Step | Absent, within: str | timedelta) -> Pattern",
    patterns.step: (
        "(name: str, *conditions: Condition, times: Times = 1, greedy: bool = True, "
        "consecutive: bool = False) -> Step"
    ),
    patterns.then: "(taken: Step) -> Step",
    sketches.distinct: "(value: str | Column, *, precision: int = 12) -> Aggregate",
    sketches.distinct_bounds: BOUNDS,
    sketches.distinct_estimate: "(stored: str | Column) -> Column",
    sketches.quantile: "(value: str | Column, at: float | Sequence[float], *, k: int = 200) -> "
    "Aggregate",
    sketches.quantile_bounds: "(stored: str | Column, at: float, *, k: int = 200) -> Column",
    sketches.rank_error: "(k: int = 200) -> float",
    sketches.top: "(value: str | Column, n: int, *, capacity: int = 1000) -> Aggregate",
    sketches.count_error: "(capacity: int) -> float",
    sketches.theta: "(value: str | Column, *, precision: int = 12) -> Aggregate",
    sketches.theta_bounds: BOUNDS,
    sketches.theta_estimate: "(stored: str | Column) -> Column",
    **dict.fromkeys((sketches.union, sketches.intersection, sketches.difference), SET),
    sketches.reason: "(stored: str | Column, wanted: str | Column) -> Column",
    sketches.is_sound: "(stored: str | Column, wanted: str | Column) -> Column",
    sketches.bloom: "(value: Key, *, keys: int, false_positives: float = 0.01) -> Aggregate",
    sketches.might_contain: "(stored: str | Column, value: Key) -> Column",
    sketches.fullness: "(stored: str | Column) -> Column",
    windows.deduplicate: (
        "(events: DataFrame, key: str | Sequence[str], horizon: str | timedelta, *, hold: str | "
        "timedelta, "
        "order: str | Sequence[str] = (), time: str = 'event_time') -> DataFrame"
    ),
    sketches.near_duplicates: (
        "(documents: DataFrame, text: str, *, key: str, threshold: float, within: str | timedelta, "
        "time: str = 'event_time', words: int = 3, permutations: int = 128, recall: float = 0.95) "
        "-> DataFrame"
    ),
    sketches.signature: "(text: str | Column, *, words: int = 3, permutations: int = 128) -> "
    "Column",
    sketches.to_datasketch: "(stored: bytes, *, integers: Integers = 'bigint') -> "
    "HyperLogLogPlusPlus",
    sketches.to_minhash: "(values: Sequence[int]) -> MinHash",
    sinks.Alarms: (
        "(path: str, *, windows: Corrected, deviations: Deviations, told: Sink | None = None, "
        f"step: str = alarms, {LAYOUT}) -> None"
    ),
    sinks.Append: (f"(path: str, *, {LAYOUT}, step: str = append, evolve: bool = False) -> None"),
    sinks.Corrected: (
        "(path: str, *, windowed: Windowed, log: str | None, step: str = windows, "
        f"{LAYOUT}, log_{LAYOUT}) -> None"
    ),
    sinks.Current: (
        f"(path: str, *, {LAYOUT}, step: str = current, "
        "keep_deleted: str | timedelta | None = None) -> None"
    ),
    sinks.Decided: (
        "(path: str, *, commands: Commands, events: str, refusals: str, "
        f"{LAYOUT}, step: str = state) -> None"
    ),
    sinks.FanOut: "(target: Sink, *, also: Sequence[Sink]) -> None",
    sinks.FirstSeen: (
        "(path: str, *, repeated: str, seen: str, known: BloomTable, order: Sequence[str] = "
        f"(), {LAYOUT}, step: str = append, refuse_at: float = 2.0) ->"
        " None"
    ),
    sinks.Folded: (
        "(path: str, *, fold: Fold, snapshots: str | None = None, every: int = 100, "
        f"{LAYOUT}, step: str = state) -> None"
    ),
    sinks.History: f"(path: str, *, {LAYOUT}, step: str = history) -> None",
    sinks.Mapped: "(*, sink: Sink, rows: Callable[[DataFrame], DataFrame]) -> None",
    sinks.Matched: (
        "(path: str, *, fields: SearchFields, versions: VersionTable, waiting: str, lateness: "
        "str | timedelta, lag: str | timedelta | None, documents: str = documents, changes: str = "
        f"queries, time: str = event_time, step: str = append, {LAYOUT}) -> None"
    ),
    sinks.Once: (
        "(*, sink: Sink, seen: str, place: Sequence[str] = (topic, partition, offset), headers: "
        "str = headers) -> None"
    ),
    sinks.Publish: (
        "(path: str, *, servers: str, topic: str, key: str | Sequence[str], deleted: str | None = "
        "None, headers: Sequence[str] = (), order: Sequence[str] = (), "
        "identity: Sequence[str] = (), value: "
        "Callable[[Sequence[str]], Column] | None = None, step: str = publish, options: "
        "Mapping[str, str] = <factory>) -> None"
    ),
    sinks.Mirror: (
        "(path: str, *, store: Store, key: str | Sequence[str], position: str | None = None, "
        "deleted: str | None = None, step: str = mirror) -> None"
    ),
    stores.PostgresStore: (
        "(table: str, *, host: str = localhost, port: int = 5432, database: str = postgres, user: "
        "str = postgres, password: str | None = None, tls: bool = False, certificates: str | None "
        "= None, timeout: int = 10, attempts: int = 5) -> None"
    ),
    sinks.Webhook: (
        "(path: str, *, url: str, headers: Mapping[str, str] = <factory>, where: str | None = "
        "None, most: int = 1000, timeout: str | timedelta = 10 seconds, attempts: int = 5, pause: "
        "str | timedelta = 500 milliseconds, certificates: str | None = None, step: str = webhook) "
        "-> None"
    ),
    sinks.Layout: (
        "(partition_by: Sequence[str] = (), cluster_by: Sequence[str] = (), "
        "properties: Mapping[str, str | int | bool] = <factory>) -> None"
    ),
    sinks.DeadTopic: (
        "(servers: str, *, topic: str, options: Mapping[str, str] = <factory>) -> None"
    ),
    sinks.SideTable: (
        f"(path: str, *, step: str = dead, {LAYOUT}, also: DeadTopic | None = None) -> None"
    ),
    sinks.Snapshot: (
        "(*, sink: Sink, table: str, join: Callable[[DataFrame, DataFrame], DataFrame], "
        "version: str = table_version) -> None"
    ),
    sinks.TemporalJoin: (
        "(path: str, *, versions: VersionTable, waiting: str, lateness: str | timedelta, how:"
        " Literal[inner, left] = left, misses: str | None = None, patience: str | timedelta ="
        " 0 seconds, lag: str | timedelta | None = None, events: str = events, changes: str ="
        f" changes, time: str = event_time, step: str = append, {LAYOUT}) -> None"
    ),
    sinks.Upsert: (
        "(path: str, *, keys: Sequence[str], aggs: Mapping[str, Aggregate] | None = None, "
        f"{LAYOUT}, step: str = upsert, evolve: bool = False) -> None"
    ),
    sinks.VersionTable: (
        "(path: str, *, on: str | Sequence[str], order: Sequence[str], partition: "
        "Sequence[str] = (), time: str = event_time, deleted: str | None = None, changes: "
        "Callable[[DataFrame], DataFrame] | None = None, keep: str | timedelta | None = None,"
        f" step: str = versions, {LAYOUT}) -> None"
    ),
    sinks.rebuilt: "(log: DataFrame, by: Sequence[str] = ()) -> DataFrame",
    sinks.sole: "(frames: Mapping[str, DataFrame]) -> DataFrame",
    sinks.standing_versions: "(path: str) -> VersionTable",
    views.KeyedTable: (
        "(path: str, *, step: str, rows_of: str, key: str | Sequence[str], by: str | "
        "Sequence[str], position: str | Sequence[str], deleted: str = deleted, changes: "
        "Callable[[DataFrame], DataFrame] | None = None, buckets: int = 64) -> None"
    ),
    views.View: (
        "(path: str, *, left: KeyedTable | View, right: KeyedTable | View, on: str | "
        "Sequence[str], how: JoinKind = inner, by: str | Sequence[str] = (), step: str = "
        "view, buckets: int = 64, compact_every: int | None = 20) -> None"
    ),
    views.lookup: "(view: DataFrame, **values: Any) -> DataFrame",
}


@pytest.mark.parametrize(
    ("function", "signature"), PINNED.items(), ids=[f.__name__ for f in PINNED]
)
def test_a_public_signature_is_as_pinned(function: Callable[..., object], signature: str) -> None:
    assert str(inspect.signature(function)).replace('"', "'").replace("'", "") == signature.replace(
        "'", ""
    )


@pytest.mark.parametrize(
    "folder",
    [windows, patterns, sketches, joins, changes, formats, eventtime, sources, sinks, views],
    ids=lambda folder: folder.__name__,
)
def test_all_functions_of_a_folder_are_pinned(folder: ModuleType) -> None:
    public = {getattr(folder, name) for name in folder.__all__}
    assert {function for function in public if inspect.isfunction(function)} <= set(PINNED)


@pytest.mark.parametrize("folder", [sinks, views], ids=lambda folder: folder.__name__)
def test_all_constructors_of_a_folder_are_pinned(folder: ModuleType) -> None:
    public = {getattr(folder, name) for name in folder.__all__}
    made = {each for each in public if inspect.isclass(each) and each is not sinks.Sink}
    assert made <= set(PINNED)
