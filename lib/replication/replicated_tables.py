"""The sink that replicates the tables of a database, each from its own change data topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import ClassVar, Literal

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructType

from ..changelogs.change_schema import is_before, renamed_columns
from ..columns import as_schema, require_choice, require_instance, require_integer
from ..commit.batch import BatchPlan, CommitContext
from ..commit.concurrent import run_concurrently
from ..commit.protocol import Outcome
from ..delta import delta_table as table
from ..delta.commit_options import CommitOptions
from ..errors import (
    ArgumentError,
    ColumnError,
    ColumnTypeError,
    ConflictError,
    RejectedRowError,
    TableError,
    TableMismatchError,
)
from ..formats import avro_format, connect_protobuf_format, debezium_format
from ..formats.connect_schema import key_columns, row_columns
from ..formats.debezium import UNAVAILABLE_VALUE, Shape
from ..formats.format import Format, PartialFormat
from ..formats.registered_schemas import (
    FixedSchemas,
    RegisteredSchema,
    SchemaLookup,
    to_schema_lookup,
)
from ..input_frames import ROWS, only_frame
from ..job.policies import Limits
from ..jvm import delta_state, frame_in_session, root_cause_text, session_copies
from ..offsets import partition_offset
from ..sinks import CurrentTable, FanOut, HistoryTable, Sink
from ..sinks.base import AcceptedRows, require_target
from ..sources import KafkaSource
from ..sources.topics import open_kafka_client
from ..spark.spark_errors import raise_disk_error
from .control_table import (
    TableState,
    delete_requests,
    format_lost,
    merged_columns,
    read_requests,
    read_states,
    states_frame,
)
from .topic_records import (
    COUNTED,
    MISSED,
    OF_BATCH,
    ORIGIN,
    RECORD_COLUMNS,
    TopicRecords,
    find_topics,
)

_LOG = logging.getLogger(__name__)
REPLICATION = "replication"
"""The name of the control table in the commits of a job."""
Keep = Literal["current", "history", "both"]
"""Which tables of a topic are kept: the current rows, all versions, or both."""
Encoding = Literal["json", "avro", "protobuf"]
"""How keys and values are encoded."""
RECORDS_PER_TASK = 25_000
"""How many records of a topic one task handles. Each step of each topic would otherwise have a task
for each partition of all topics."""
_SCHEMA_OF_ROWS = {
    "json": "schema part",
    **dict.fromkeys(("avro", "protobuf"), "schema in the registry"),
}
_CONVERTER = {
    "json": "value.converter.schemas.enable=true in the connector",
    "avro": "Debezium changes in Avro, with the header of a schema registry",
    "protobuf": "Debezium changes in Protobuf, with the header of a schema registry",
}
_VALUE, _VALUE_REASON = "__tidegate_value", "__tidegate_value_reason"
_PAUSING_ERRORS = (ColumnError, ColumnTypeError, ConflictError, TableError, TableMismatchError)
"""The errors of one table, which pause it. All others stop the job."""


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of the tables of one topic, which override the options of all topics.

    keep: "current", "history" or "both"; None for that of all topics.
    columns, key: the columns and the primary key of the source table, for records without a schema
        part and for tables without a primary key. Columns that are not named are not replicated.
    rename: the names of columns in the tables, by their names in the source.

    Raises ArgumentError, ColumnError and ColumnTypeError, at construction.

    >>> TableOptions(keep="both", key="id").key
    'id'
    """

    plan_name: ClassVar[str] = "table_options"
    keep: Keep | None = None
    columns: str | StructType | None = None
    key: str | Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.keep is not None:
            require_choice(self.keep, "keep", Keep)
        if self.columns is not None:
            as_schema(self.columns, "columns")

    @property
    def declared_columns(self) -> StructType | None:
        """The declared columns; None without any."""
        return None if self.columns is None else as_schema(self.columns, "columns")

    @property
    def declared_key(self) -> tuple[str, ...]:
        """The declared key columns."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)


@dataclass(frozen=True)
class ReplicatedTables(Sink):
    """Replicate each table of a database from its Debezium topic, all topics in one job.

    The columns of a table come from the schema part of its records, or from the schemas in a
    registry; its key comes from the keys of the records. A topic that appears later gets its table
    by itself. New columns and wider types change the Delta table; a column that records no longer
    have stays, and is null from then on.

    A table that fails is paused: its records stay in the topic, and the other tables continue. It
    fails for a column whose type changes in another way, for records without a schema part or a key
    unless they are declared, for too many dead letters, and if its Delta table was deleted or
    changed by another program. The control table has the reason, and the offsets at which the table
    continues. `tidegate resume` resumes it: with the next batches it gets what it has missed, in
    parts of `catch_up_records`, so that the other tables wait for one part at most.

    Each table is written exactly once, as `CurrentTable` and `HistoryTable` are, in its own commit,
    and several at a time. The control table is the target of the job and is written last. It has
    one row for each topic: `topic`, `table`, `state` ("active", "paused" or "resuming"), `reason`,
    `columns`, `key`, `positions` (the offsets up to which the tables have the topic), `changes`,
    `dead_letters`, `skipped` (the numbers of records), `batch`.

    Records that cannot be decoded are dead letters of the job, also those whose schema the registry
    does not have. A registry that is unavailable stops the job, and nothing of the batch is
    written.

    Args:
        path: path of the control table.
        source: the source of the job, which reads the records that a paused table has missed.
        root: the folder of the tables.
        table_name: the names of the tables below `root`, with the placeholders {topic}, {server}
            (the first part of the topic), {schema} (the last but one) and {table} (the last). A
            history has the name with "_history".
        keep: "current" for the current rows (SCD type 1), "history" for all versions (SCD type 2),
            or "both".
        options_by_topic: options of single topics, by topic.
        encoding: "json", or "avro" or "protobuf" for keys and values with the header of a schema
            registry, as Confluent's and other converters of Kafka Connect write them.
        registry: a `SchemaRegistry`, or schemas by id, for Avro and Protobuf.
        shape, decimals, timestamps, unavailable_value: as for `debezium_format`; for Protobuf,
            `timestamps` as for `connect_protobuf_format`.
        limits: how many dead letters of a table in a batch pause the table.
        writers: how many tables are written at a time.
        catch_up_records: how many offsets a resumed table catches up in a batch.
        output: name of the control table in the commits of the job.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.
        RegistryError: if the registry is unavailable.
        TidegateError: as the sinks of the tables, for what does not concern one table only.

    >>> source = KafkaSource("localhost:9092", pattern="shop.*")
    >>> ReplicatedTables("/data/replication", source=source, root="/data/tables").table_name
    '{schema}.{table}'
    """

    plan_name: ClassVar[str] = "replicated_tables"
    supports_backfill = False

    path: str
    _: KW_ONLY
    # Not in the fingerprint of a job: the input has the source, and a changed folder does not have
    # the tables of the control table.
    source: KafkaSource = field(compare=False)
    root: str = field(compare=False)
    table_name: str = "{schema}.{table}"
    keep: Keep = "current"
    options_by_topic: Mapping[str, TableOptions] = field(default_factory=dict)
    encoding: Encoding = "json"
    registry: SchemaLookup | Mapping[int, str | Path] | None = field(default=None, compare=False)
    shape: Shape = "envelope"
    decimals: Literal["precise", "string", "double"] | None = None
    timestamps: Literal["milliseconds", "microseconds", "nanoseconds"] | None = None
    unavailable_value: str = UNAVAILABLE_VALUE
    limits: Limits = field(default_factory=Limits, compare=False)
    writers: int = field(default=8, compare=False)
    catch_up_records: int = field(default=100_000, compare=False)
    output: str = REPLICATION

    def __post_init__(self) -> None:
        require_target(self.path, self.output)
        require_choice(self.keep, "keep", Keep)
        require_instance(self.source, "source", KafkaSource, 'KafkaSource(..., pattern="shop.*")')
        require_integer(self.writers, "writers", 1, 64, "writers=8")
        hint = "catch_up_records=100_000"
        require_integer(self.catch_up_records, "catch_up_records", 1, 2**63 - 1, hint)
        try:
            self._name_of("server.schema.table")
        except (KeyError, IndexError, ValueError):
            raise ArgumentError(
                f"invalid table_name: {self.table_name!r}",
                "a text with the placeholders {topic}, {server}, {schema} and {table}",
                'table_name="{schema}.{table}"',
            ) from None
        require_choice(self.encoding, "encoding", Encoding)
        if (self.encoding == "json") != (self._schemas is None):
            raise ArgumentError(
                f"invalid registry: {self.registry!r} with encoding {self.encoding!r}",
                "a schema registry for Avro and Protobuf, and none for JSON",
                'encoding="avro", registry=SchemaRegistry("http://localhost:8081")',
            )
        self._format(StructType().add("id", IntegerType()), ("id",), {}, {})

    def created_tables(self, spark: SparkSession) -> list[str]:
        """Return the paths of the tables that are not paused."""
        states = read_states(spark, self.path).values()
        sinks = [self._sink(state) for state in states if state.state != "paused"]
        return [path for sink in sinks for path, _ in sink.tables()]

    def accepted(
        self, frames: Mapping[str, DataFrame], plan: BatchPlan
    ) -> AbstractContextManager[AcceptedRows]:
        """Return the changes of each table, and the records that are none."""
        return self._decoded(only_frame(frames), plan)

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the records of a batch; a job calls `accepted` instead.

        Raises RejectedRowError for records that cannot be decoded.
        """
        with self.accepted(frames, batch.plan) as accepted:
            for rows, reason in (*accepted.rejections, *accepted.rejected_records):
                rejected = rows.select(reason.alias("reason")).where("reason IS NOT NULL").head()
                if rejected is not None:
                    raise RejectedRowError(
                        f"a record was rejected: {rejected['reason']}",
                        "only a job writes such records to its dead letters.",
                        "run the sink in a job. Nothing was written.",
                    )
            return accepted.write(self, batch, rows_out)

    @contextmanager
    def _decoded(self, records: DataFrame, plan: BatchPlan) -> Iterator[AcceptedRows]:
        spark = records.sparkSession
        states = read_states(spark, self.path)
        if self._is_committed(spark, CommitContext(plan=plan)):
            # The states are those after the batch, and its dead letters are written.
            yield _ReplicatedRows({ROWS: records}, states=states, topics=(), missed={})
            return
        with ExitStack() as persisted:
            missed = {
                state.topic: self._missed_records(spark, state, plan, persisted)
                for state in states.values()
                if state.state == "resuming"
            }
            deferred = [topic for topic, state in states.items() if state.state == "paused"]
            deferred += [topic for topic, part in missed.items() if not part.is_last]
            is_deferred = F.col("topic").isin(deferred)
            deferred_rows = records.where(is_deferred).count() if deferred else 0
            if deferred_rows:
                names = ", ".join(deferred)
                _LOG.warning(
                    "%d records wait for paused or resuming tables: %s", deferred_rows, names
                )
            of_batch = records.where(~is_deferred).select(
                *RECORD_COLUMNS, F.lit(OF_BATCH).alias(ORIGIN)
            )
            available = reduce(
                DataFrame.unionByName,
                [part.rows for part in missed.values() if part.rows is not None],
                of_batch,
            )
            topics = []
            known = dict(states)
            for topic in find_topics(available, self._schemas):
                topics.append(self._planned(topic, known, missed.get(topic.name)))
                known[topic.name] = topics[-1].state
            decode = [partial(self._decode, each, available, plan, persisted) for each in topics]
            decoded = run_concurrently(spark, decode, self.writers)
            deferred_rows += sum(topic.deferred_rows for topic in decoded)
            yield _ReplicatedRows(
                {ROWS: records},
                [rejection for topic in decoded for rejection in topic.rejections],
                [topic.undecodable for topic in decoded if topic.undecodable is not None],
                deferred_rows,
                states=states,
                topics=decoded,
                missed=missed,
            )

    def _missed_records(
        self, spark: SparkSession, state: TableState, plan: BatchPlan, persisted: ExitStack
    ) -> _MissedRecords:
        """Read the next offsets of a resuming topic, up to the start of the batch."""
        topic, target = state.topic, plan.start.get(state.topic, {})
        share = max(1, self.catch_up_records // max(1, len(target)))
        start = {part: state.positions.get(part, 0) for part in target}
        end = {
            part: max(start[part], min(last, start[part] + share)) for part, last in target.items()
        }
        counted = {topic: state.counted_positions}
        is_counted = is_before(counted, F.col("topic"), F.col("partition"), F.col("offset"))
        origin = F.when(is_counted, COUNTED).otherwise(MISSED)
        try:
            rows = self.source.read_range(spark, {topic: start}, {topic: end}, headers=False)
            rows = rows.select(*RECORD_COLUMNS, origin.alias(ORIGIN)).persist()
            persisted.callback(rows.unpersist)
            rows.count()
        except (PySparkException, Py4JJavaError) as error:
            raise_disk_error(error)
            lost = state.lost_offsets(self._earliest_offsets(spark, topic, target))
            problem = format_lost(lost) if lost else root_cause_text(error)
            remedy = "; resume with --skip-lost to continue without them" if lost else ""
            reason = f"the records since the pause cannot be read: {problem}{remedy}"
            return _MissedRecords(start, start, is_last=False, failure=reason)
        is_last = all(end[part] >= last for part, last in target.items())
        return _MissedRecords(start, end, is_last=is_last, rows=rows)

    def _earliest_offsets(
        self, spark: SparkSession, topic: str, partitions: Iterable[int]
    ) -> Mapping[int, int]:
        """Return the first offset of each partition; empty if the brokers do not answer."""
        try:
            with open_kafka_client(spark, self.source) as kafka:
                return kafka.earliest_offsets({topic: list(partitions)}).get(topic, {})
        except OSError as error:
            _LOG.warning("cannot list the first offsets of %s: %s", topic, error)
            return {}

    def _planned(
        self, topic: TopicRecords, states: Mapping[str, TableState], missed: _MissedRecords | None
    ) -> _TopicBatch:
        """Return a topic with the state that its tables have after the batch."""
        name = self._name_of(topic.name)
        state = states.get(topic.name) or TableState(topic=topic.name, table=name)
        if missed is None or missed.is_last:
            state = replace(state, state="active")
        try:
            self._require_own_name(state, states)
            state = self._with_columns(state, topic)
            if state.columns:
                # Refuses names of columns that the tables cannot have.
                self._format_of(state, topic)
        except _PAUSING_ERRORS as error:
            state = state.paused(str(error))
        return _TopicBatch(records=topic, state=state)

    def _require_own_name(self, state: TableState, states: Mapping[str, TableState]) -> None:
        others = [
            other.topic
            for other in states.values()
            if other.table == state.table and other.topic != state.topic
        ]
        if others:
            raise TableError(
                f"the table {state.table!r} is that of the topic {others[0]!r}",
                "another table for each topic",
                'a table_name with {schema} or {server}, such as "{server}.{schema}.{table}"',
            )

    def _with_columns(self, state: TableState, topic: TopicRecords) -> TableState:
        """Return the state with the columns and the key that the records of a batch have."""
        options = self._options(topic.name)
        columns = state.columns
        is_flat = self.shape == "flattened"
        if options.declared_columns is not None:
            columns = merged_columns(columns, options.declared_columns)
        else:
            for schema_part in topic.value_schemas:
                found = row_columns(schema_part, is_flat=is_flat)
                columns = columns if found is None else merged_columns(columns, found)
        if not columns and topic.has_rows:
            raise ColumnError(
                f"the records have no {_SCHEMA_OF_ROWS[self.encoding]} with the columns of a row",
                _CONVERTER[self.encoding],
                f'declared columns, as [[tables]] with topic = "{topic.name}"',
            )
        key = options.declared_key or self._found_key(state, topic)
        if columns and not key:
            if topic.has_unknown_keys:
                # The key, and with it the table, can be known later.
                return state
            raise ColumnError(
                "the records have no key",
                "a primary key, or message.key.columns in the connector",
                f'a declared key, as [[tables]] with topic = "{topic.name}"',
            )
        return replace(state, columns=columns, key=key)

    def _found_key(self, state: TableState, topic: TopicRecords) -> tuple[str, ...]:
        keys = {tuple(key_columns(schema_part)) for schema_part in topic.key_schemas} - {()}
        if state.key:
            keys.add(state.key)
        if len(keys) > 1:
            raise ColumnError(
                f"the key of the records has changed: {' and '.join(map(str, sorted(keys)))}",
                "one key, because it identifies the rows of the tables",
                "replicate the topic into a new table",
            )
        return keys.pop() if keys else ()

    def _decode(
        self,
        topic: _TopicBatch,
        records: DataFrame,
        plan: BatchPlan,
        persisted: ExitStack,
        _worker: int,
    ) -> _TopicBatch:
        """Return a topic with its changes and with the records that are not changes."""
        state = topic.state
        if state.state == "paused":
            return topic
        tasks = 1 + topic.records.new_records // RECORDS_PER_TASK
        raw = records.where(F.col("topic") == F.lit(topic.name)).coalesce(tasks)
        try:
            if state.columns:
                return self._decode_changes(topic, raw, plan, persisted)
            if self.encoding != "json":
                return self._without_unknown_schemas(topic, raw, persisted)
            # Records of no table, or tombstones before the first row.
            return replace(topic, skipped=topic.records.new_records)
        except _PAUSING_ERRORS as error:
            return replace(topic, state=state.paused(str(error)))

    def _without_unknown_schemas(
        self, topic: _TopicBatch, raw: DataFrame, persisted: ExitStack
    ) -> _TopicBatch:
        """Return a topic before its first readable row, with the records that cannot be decoded.

        Others are of no table, or tombstones.
        """
        # A format that reads no field of the records.
        of_schemas = self._registered_format(topic.records.registered_schemas)
        anything = of_schemas(StructType().add(ORIGIN, StringType()))
        of_value = anything.explain_failures(raw.where("value IS NOT NULL"))
        reason = F.col("reason")
        if topic.records.has_rows:
            # Rows without a key that can be read.
            swapped = of_value.withColumnsRenamed({"value": _VALUE, "reason": _VALUE_REASON})
            of_key = anything.explain_failures(swapped.withColumn("value", F.col("key")))
            no_key = F.concat(F.lit("unreadable key: "), F.coalesce("reason", F.lit("no record")))
            of_value = of_key.withColumn("reason", F.coalesce(_VALUE_REASON, no_key))
            of_value = of_value.withColumn("value", F.col(_VALUE)).drop(_VALUE, _VALUE_REASON)
        is_new = F.col(ORIGIN) != F.lit(COUNTED)
        undecodable = of_value.where(reason.isNotNull() & is_new).persist()
        persisted.callback(undecodable.unpersist)
        count = undecodable.count()
        self._require_few_dead_letters(count, topic.records.new_records)
        return replace(
            topic,
            undecodable=(undecodable, reason) if count else None,
            dead_letters=count,
            skipped=topic.records.new_records - count,
        )

    def _decode_changes(
        self, topic: _TopicBatch, raw: DataFrame, plan: BatchPlan, persisted: ExitStack
    ) -> _TopicBatch:
        state = topic.state
        sink = self._sink(state)
        self._prepare_tables(raw.sparkSession, sink, state)
        change_format = self._format_of(state, topic.records)
        decoded = change_format.decode(raw).persist()
        persisted.callback(decoded.unpersist)
        is_new = F.col(ORIGIN) != F.lit(COUNTED)
        is_dead_letter = F.col("bad") & ~F.col("skipped") & is_new
        counts = decoded.agg(F.count_if(is_dead_letter), F.count_if(F.col("skipped") & is_new))
        ((dead_letters, skipped),) = counts.collect()
        self._require_few_dead_letters(dead_letters, topic.records.new_records)
        undecodable = None
        if dead_letters:
            explained = change_format.explain_failures(
                decoded.where(is_dead_letter).drop("skipped")
            )
            undecodable = (explained, F.coalesce(F.col("reason"), F.lit("unreadable")))
        changes = decoded.where(~F.col("bad")).select("record.*")
        rejections: list[tuple[DataFrame, Column]] = []
        reason = sink.rejection(changes)
        if reason is not None:
            rejections.append((changes, reason))
            changes = changes.where(reason.isNull())
        accepted = persisted.enter_context(sink.accepted({ROWS: changes}, plan))
        counted = {topic.name: state.counted_positions}
        position = [F.col(f"position.{name}") for name in ("topic", "partition", "offset")]
        return replace(
            topic,
            sink=sink,
            changes=only_frame(accepted.frames),
            # Records that were counted before have their dead letters.
            rejections=[
                (rows, F.when(~is_before(counted, *position), reason))
                for rows, reason in (*rejections, *accepted.rejections)
            ],
            undecodable=undecodable,
            dead_letters=dead_letters,
            skipped=skipped,
        )

    def _require_few_dead_letters(self, count: int, records: int) -> None:
        exceeded = self.limits.exceeded_by_dead_letters(count, records)
        if exceeded is not None:
            kind, limit = exceeded
            raise TableError(
                f"too many dead letters: {count:,} of {records:,} records",
                f"at most {limit} (limits.dead_{kind}) in a batch",
                "correct the format or the columns of the topic, or raise the limit",
            )

    def _prepare_tables(self, spark: SparkSession, sink: Sink, state: TableState) -> None:
        """Require that the tables are those of the last batch, and add what their columns lack."""
        rename = self._options(state.topic).rename
        for path, output in sink.tables():
            known_id, found = state.table_ids.get(output), delta_state(spark, path)
            if known_id is not None and (found.version < 0 or found.table_id() != known_id):
                raise TableMismatchError(
                    f"table {path} was deleted or replaced",
                    f"its Delta id was {known_id}.",
                    "restore the table, or replicate the topic into a new table.",
                )
            if found.version < 0:
                continue
            try:
                table.evolve_columns(spark, path, renamed_columns(state.columns, rename))
            except PySparkException as error:
                raise_disk_error(error)
                raise TableError(
                    f"table {path} cannot get the columns of the topic: {root_cause_text(error)}",
                    "the columns of the table, new ones, or wider types",
                    "replicate the topic into a new table",
                ) from error

    @cached_property
    def _schemas(self) -> SchemaLookup | None:
        """The registered schemas by id."""
        return to_schema_lookup(self.registry, self.encoding.upper())

    def _format(
        self,
        columns: StructType,
        key: Sequence[str],
        rename: Mapping[str, str],
        schemas: Mapping[int, RegisteredSchema],
    ) -> Format:
        change_format = debezium_format(
            columns,
            key=list(key),
            value_format=None if self.encoding == "json" else self._registered_format(schemas),
            decimals=self.decimals,
            timestamps=None if self.encoding == "protobuf" else self.timestamps,
            unavailable_value=self.unavailable_value,
            shape=self.shape,
            rename={old: new for old, new in rename.items() if old in columns.names},
        )
        assert isinstance(change_format, PartialFormat)
        return change_format.passing_unavailable()

    def _registered_format(
        self, schemas: Mapping[int, RegisteredSchema]
    ) -> Callable[[StructType], Format]:
        """Return the function that makes the format of records with the header of a registry."""
        registry = FixedSchemas(schemas)
        if self.encoding == "avro":
            return partial(avro_format, registry=registry)
        return partial(connect_protobuf_format, registry=registry, timestamps=self.timestamps)

    def _format_of(self, state: TableState, topic: TopicRecords) -> Format:
        rename = self._options(state.topic).rename
        return self._format(state.columns, state.key, rename, topic.registered_schemas)

    def _options(self, topic: str) -> TableOptions:
        return self.options_by_topic.get(topic, TableOptions())

    def _name_of(self, topic: str) -> str:
        parts = topic.split(".")
        schema = parts[-2] if len(parts) > 1 else parts[0]
        return self.table_name.format(topic=topic, server=parts[0], schema=schema, table=parts[-1])

    def _sink(self, state: TableState) -> Sink:
        """Return the sink of the tables of a topic."""
        path = f"{self.root.rstrip('/')}/{state.table}"
        keep = self._options(state.topic).keep or self.keep
        current = CurrentTable(path, output=f"current:{state.topic}")
        history = HistoryTable(f"{path}_history", output=f"history:{state.topic}")
        if keep == "both":
            return FanOut(current, other_sinks=[history])
        return current if keep == "current" else history


@dataclass(frozen=True)
class _MissedRecords:
    """The offsets that a resuming table gets with a batch, by partition, and their records.

    is_last: whether it then has everything before the batch, and gets the batch too.
    failure: why they cannot be read.
    """

    start: Mapping[int, int]
    end: Mapping[int, int]
    _: KW_ONLY
    is_last: bool
    rows: DataFrame | None = None
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class _TopicBatch:
    """What a batch does to the tables of one topic.

    state: that of the tables after the batch, without the counts and positions.
    """

    records: TopicRecords
    state: TableState
    sink: Sink | None = None
    changes: DataFrame | None = None
    rejections: Sequence[tuple[DataFrame, Column]] = ()
    undecodable: tuple[DataFrame, Column] | None = None
    dead_letters: int = 0
    skipped: int = 0

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self.records.name

    @property
    def deferred_rows(self) -> int:
        """The number of records of the batch that wait, less that of earlier ones that do not."""
        is_paused = self.state.state == "paused"
        return self.records.records if is_paused else -self.records.missed_records


@dataclass(frozen=True, kw_only=True)
class _ReplicatedRows(AcceptedRows):
    """The changes of a batch by topic.

    states: the states before the batch, by topic.
    missed: what resuming tables get besides the batch, by topic.
    """

    states: Mapping[str, TableState]
    topics: Sequence[_TopicBatch]
    missed: Mapping[str, _MissedRecords]

    def write(self, sink: Sink, batch: CommitContext, rows_out: int | None) -> Outcome:
        """Write the tables, several at a time, and then the control table."""
        assert isinstance(sink, ReplicatedTables)
        spark = self.frames[ROWS].sparkSession
        states = dict(self.states)
        sessions = session_copies(spark, sink.writers)
        calls = [partial(self._write_topic, topic, batch, sessions) for topic in self.topics]
        for state in run_concurrently(spark, calls, sink.writers):
            states[state.topic] = state
        written = {topic.name for topic in self.topics}
        for topic in self.states.keys() - written:
            states[topic] = self._after_batch_without_records(self.states[topic], batch)
        requests = read_requests(spark, sink.path)
        taken = []
        for topic, request in requests.items():
            if topic in states:
                partitions = {*states[topic].positions, *batch.plan.end.get(topic, ())}
                earliest = (
                    sink._earliest_offsets(spark, topic, partitions) if request.skip_lost else {}
                )
                if request.skip_lost and not earliest:
                    # The next batch asks the brokers again.
                    continue
                states[topic] = states[topic].requested(request, earliest)
                if states[topic].reason:
                    _LOG.warning("the table %s is %s", states[topic].table, states[topic].reason)
            taken.append(topic)

        def commit(options: CommitOptions) -> None:
            table.overwrite(states_frame(spark, states.values()), sink.path, options)

        outcome = sink._commit_once(spark, batch, commit, rows_out)
        if outcome == "written":
            delete_requests(spark, sink.path, taken)
        return outcome

    def _after_batch_without_records(self, state: TableState, batch: CommitContext) -> TableState:
        missed = self.missed.get(state.topic)
        if missed is not None and missed.failure is not None:
            return _paused(state, state.paused(missed.failure))
        if missed is not None and not missed.is_last:
            return replace(state, positions=missed.end)
        if state.state == "paused":
            return state
        end = batch.plan.end.get(state.topic, state.positions)
        return replace(state, state="active", positions=end)

    def _write_topic(
        self,
        topic: _TopicBatch,
        batch: CommitContext,
        sessions: Sequence[SparkSession],
        worker: int,
    ) -> TableState:
        """Write the tables of a topic, unless they are paused; return their state after that."""
        state, before = topic.state, self.states.get(topic.name)
        missed = self.missed.get(topic.name)
        start, end = (
            {part: partition_offset(each, topic.name, part) for part in batch.plan.end[topic.name]}
            for each in (batch.plan.start, batch.plan.end)
        )
        if missed is not None:
            start, end = dict(missed.start), end if missed.is_last else dict(missed.end)
        if state.state == "paused":
            return _paused(before, replace(state, positions=start))
        if topic.sink is not None and topic.changes is not None:
            try:
                state = _write_tables(topic, batch, sessions[worker])
            except _PAUSING_ERRORS as error:
                # The records are counted, and the dead letters written, before the tables.
                stopped = replace(state, positions=start, counted_positions=end)
                return _paused(before, self._counted(stopped, topic, batch).paused(str(error)))
        return self._counted(replace(state, positions=end), topic, batch)

    def _counted(self, state: TableState, topic: _TopicBatch, batch: CommitContext) -> TableState:
        handled = topic.dead_letters + topic.skipped
        return replace(
            state,
            changes=state.changes + topic.records.new_records - handled,
            dead_letters=state.dead_letters + topic.dead_letters,
            skipped=state.skipped + topic.skipped,
            batch=batch.plan.number,
        )


def _paused(before: TableState | None, state: TableState) -> TableState:
    """Return a paused state with the columns, the key and the tables as they were before."""
    _LOG.error("the table %s is paused: %s", state.table, state.reason)
    known = before or TableState(topic=state.topic, table=state.table)
    return replace(state, columns=known.columns, key=known.key, table_ids=known.table_ids)


def _write_tables(topic: _TopicBatch, batch: CommitContext, spark: SparkSession) -> TableState:
    """Write the changes of a topic in a session of their own; return the state with table ids.

    MERGE takes the metadata of its commit from the session.
    """
    assert topic.sink is not None
    assert topic.changes is not None
    state, outputs = topic.state, topic.sink.tables()
    topic.sink.write({ROWS: frame_in_session(topic.changes, spark)}, batch)
    written = {output: delta_state(spark, path) for path, output in outputs}
    ids = {output: found.table_id() for output, found in written.items() if found.version >= 0}
    return replace(state, table_ids={**state.table_ids, **ids})
