"""An input of a job: a Kafka source, a format and an event time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from ..columns import (
    cache_columns,
    quoted_column,
    require_choice,
    require_instance,
    require_integer,
)
from ..durations import interval_text, microseconds
from ..errors import ArgumentError, ColumnTypeError
from ..event_time.timestamps import TimeUnit
from ..event_time.watermark import with_watermark
from ..formats.format import Format
from ..offsets import EventTimes, Offsets
from .event_time_column import (
    CLAMPED,
    DEAD_LETTER,
    DISCARDED,
    EVENT_TIME,
    FILTERED,
    LATE,
    REREAD,
    SKIPPED,
    STOPPING,
    UNREADABLE,
    EventTime,
    OnFuture,
    is_event_time,
)
from .heartbeat import Heartbeats
from .kafka_source import HEADERS, RAW_COLUMNS, SPLIT_OPTIONS, KafkaSource
from .log_watermark import LogLateness
from .processed_offsets import ProcessedOffsets
from .range_stats import RangeStats
from .row_checks import FAILED_CHECK, OnError, RowChecks, Rule
from .side_output_rows import (
    POSITION_COLUMNS,
    REASON,
    STAGE,
    LatenessTest,
    SideOutputRows,
    dead_letter_column,
    select_side_outputs,
)

OBSERVATION = "tidegate"
Watermarks = Literal["global", "partition", "log"]
_FORMAT_COLUMNS = (*POSITION_COLUMNS, "key")
"""The Kafka columns that a format receives by default: all but the headers."""
_ACTION_FLAGS: dict[str, OnError] = {DISCARDED: "drop", STOPPING: "stop"}
_COUNTED_FLAGS = {FILTERED: "filtered", DISCARDED: "discarded", STOPPING: "stopping"}
"""The observed counts of rows with a flag."""
_KAFKA_COLUMNS = (*_FORMAT_COLUMNS, HEADERS)


@dataclass(frozen=True)
class Input:
    """An input of a job: a Kafka source, the format of its values, and their event time.

    A record becomes a good row or a dead letter. A record is a dead letter if the format cannot
    decode it, if its event time is missing or too far in the future, if `where` raises an error for
    it, or if it violates a rule.

    time: the name of a timestamp field, or an expression over the fields and the Kafka columns. A
        record for which the expression raises an error has no event time.
    watermark_delay: how far the watermark is behind the maximum event time. A row that is further
        behind can be late.
    kafka_columns: the Kafka columns to add to the good rows: "topic", "partition", "offset",
        "timestamp", "key", "headers". If a field has the same name, the Kafka column is called
        kafka_<name>.
    future_tolerance: how far an event time may be ahead of the record's Kafka timestamp; None
        allows any distance.
    on_future: the action beyond that. "reject" makes the record a dead letter; "clamp" sets the
        event time to the Kafka timestamp plus the tolerance. Neither advances the watermark beyond.
    max_value_bytes: how many bytes of the value, of the key and of each header a dead letter
        stores. It also stores the full length of the value.
    time_unit: "seconds", "milliseconds" or "microseconds" if the field `time` is an integer that
        counts them since 1970. The rows have the timestamp `event_time`.
    where: an SQL condition on the columns of the good rows. Rows for which it is false or null are
        counted and dropped; they advance the watermark and are never late. Must be deterministic.
    rules: expectations on the rows that `where` accepts. A row that violates one is not a good row:
        it does not advance the watermark. See `Rule`.
    on_error: the action for a record that the format or the event time rejects, and for a row for
        which `where` raises an error, such as a division by zero. "dead_letter" writes it to the
        dead letters; "drop" only counts it; "stop" fails the batch before it is written.
    watermarks: "global" has one watermark for all partitions. "partition" has one for each, and the
        minimum is used, so rows of a slow partition are not late because another one is ahead.
        Partitions that are added to a topic join the existing streams at the next start. "log" is
        deterministic lateness: only the earlier records of its partition decide whether a row is
        late, so the result does not depend on batch boundaries, restarts or a backfill. Such a job
        emits final results only, and an added partition needs a new checkpoint.
    idle_timeout: after this time without a record, and with no record waiting in the topic, the
        watermark advances with the clock, so that the last windows are emitted. Among several
        inputs, an idle one follows the others. Rows that arrive later can be late. With None, the
        default, the watermark waits for the next record. To add a timeout to an existing job, or to
        remove it, use a new checkpoint.

    row_expressions: expressions over the columns of the good rows, which must not raise an error.
        A row for which one raises is handled by `on_error`. A job sets those of its transform.

    The stream observes, under the name `OBSERVATION` by default: `rows` (all records),
    `dead_letters`, and `earliest` and `latest`, the minimum and the maximum event time of the good
    rows in microseconds since 1970 (None without a good row). With on_future="clamp" also
    `clamped`, the rows with a clamped event time; with `where` also `filtered`, the rows that it
    drops; with rules the violations of each; and with watermarks="log" also `late`, the late rows.

    Raises ArgumentError, ColumnError and ColumnTypeError: at construction, and for a `where` that
    does not fit the columns, when the rows are read.

    >>> from tidegate.formats import json_format
    >>> clicks = Input(
    ...     KafkaSource("localhost:9092", "clicks"),
    ...     json_format("page STRING, clicked_at TIMESTAMP"),
    ...     time="clicked_at",
    ...     watermark_delay="10 seconds",
    ...     kafka_columns=["key"],
    ... )
    >>> clicks.columns
    ['page', 'clicked_at', 'event_time', 'key']
    """

    plan_name: ClassVar[str] = "input"
    source: KafkaSource
    format: Format
    _: KW_ONLY
    time: str | Column
    watermark_delay: str | timedelta
    kafka_columns: Sequence[str] = ()
    future_tolerance: str | timedelta | None = "1 hour"
    on_future: OnFuture = "reject"
    max_value_bytes: int = 65_536
    time_unit: TimeUnit | None = None
    where: str | None = None
    rules: Sequence[Rule] = ()
    on_error: OnError = "dead_letter"
    watermarks: Watermarks = "global"
    idle_timeout: str | timedelta | None = None
    row_expressions: Sequence[str | Column] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        source_hint = 'KafkaSource("localhost:9092", "clicks")'
        require_instance(self.source, "source", KafkaSource, source_hint)
        if isinstance(self.format, type) or not hasattr(self.format, "decode"):
            raise ColumnTypeError(
                f"invalid format: {self.format!r} of type {type(self.format).__name__}",
                "a format of tidegate.formats",
                'json_format("page STRING, event_time TIMESTAMP")',
            )
        if (
            isinstance(self.kafka_columns, str)
            or not isinstance(self.kafka_columns, Sequence)
            or any(name not in _KAFKA_COLUMNS for name in self.kafka_columns)
        ):
            raise ArgumentError(
                f"invalid kafka_columns: {self.kafka_columns!r}",
                f"a list of {', '.join(_KAFKA_COLUMNS)}",
                'kafka_columns=["key"]',
            )
        bytes_hint = "max_value_bytes=65_536"
        require_integer(self.max_value_bytes, "max_value_bytes", 0, 2**31 - 1, bytes_hint)
        microseconds(self.watermark_delay, "watermark_delay", min_value=0)
        self._checks.require()
        self._event_time.require()
        if self.idle_timeout is not None:
            microseconds(self.idle_timeout, "idle_timeout", min_value=1_000_000)
        require_choice(self.watermarks, "watermarks", Watermarks)
        if self.watermarks != "global" and self.source.pattern:
            raise ArgumentError(
                f"invalid watermarks: {self.watermarks!r} with a pattern of topics",
                "topics or partitions that are named, for a watermark per partition",
            )
        if self.late_by_log:
            self._require_one_task_per_partition()

    def _require_one_task_per_partition(self) -> None:
        if self.idle_timeout is not None:
            raise ArgumentError(
                f"invalid idle_timeout: {self.idle_timeout!r} with watermarks='log'",
                "no idle_timeout, because a clock would decide which rows are late",
                "watermarks='partition'",
            )
        for name in self.source.options:
            if name.lower() in SPLIT_OPTIONS:
                raise ArgumentError(
                    f"invalid option with watermarks='log': {name!r}",
                    "one task per partition",
                    f"options without {name!r}",
                )

    @property
    def late_by_log(self) -> bool:
        """Whether lateness is deterministic (watermarks="log")."""
        return self.watermarks == "log"

    @property
    def columns(self) -> list[str]:
        """The columns of the good rows."""
        return self._row_columns(self.kafka_columns)

    @property
    def position_columns(self) -> list[str]:
        """The names of the columns topic, partition and offset in rows with a position."""
        return [self._kafka_column_name(name) for name in POSITION_COLUMNS[:3]]

    def _row_columns(self, kafka_columns: Sequence[str]) -> list[str]:
        """Return the columns of a good row: the fields, the event time, and these Kafka columns."""
        fields = [name for name in self.format.schema.fieldNames() if not is_event_time(name)]
        return [*fields, EVENT_TIME, *map(self._kafka_column_name, kafka_columns)]

    def _kafka_column_name(self, name: str) -> str:
        field_names = {field.lower() for field in self.format.schema.fieldNames()}
        return f"kafka_{name}" if name in field_names else name

    @property
    def _format_columns(self) -> Sequence[str]:
        columns: Sequence[str] = getattr(self.format, "required_columns", _FORMAT_COLUMNS)
        return columns

    @property
    def _reads_headers(self) -> bool:
        return HEADERS in {*self.kafka_columns, *self._format_columns}

    @property
    def _event_time(self) -> EventTime:
        return EventTime(
            self.time,
            unit=self.time_unit,
            tolerance=self.future_tolerance,
            on_future=self.on_future,
            fields=self.format.schema,
            timestamp_column=self._kafka_column_name("timestamp"),
        )

    @property
    def _checks(self) -> RowChecks:
        return RowChecks(self.where, self.rules, self.on_error, self.row_expressions)

    def stream(
        self,
        spark: SparkSession,
        observation: str = OBSERVATION,
        heartbeats: Heartbeats | None = None,
        processed: ProcessedOffsets | None = None,
        log_lateness: LogLateness | None = None,
    ) -> DataFrame:
        """Return the stream of good rows: the fields, `event_time`, then `kafka_columns`.

        All good rows advance the watermark, also those that `where` drops.

        observation: the name of the counts; two inputs of one query need different names.
        heartbeats: instants that advance the watermark without an event.
        processed: the offsets of a backfill. Rows before them are emitted again, and not counted.
        log_lateness: the rule that drops late rows; it requires a source of one partition.
        """
        raw = self.source.stream(spark, headers=self._reads_headers)
        decoded = self._decode(raw, () if processed is None else POSITION_COLUMNS[:3])
        if log_lateness is not None:
            is_good = ~quoted_column(DEAD_LETTER)
            decoded = log_lateness.flag_stream(decoded, is_good, self.source.only_partition)
        good = self._good_rows(decoded, observation, processed)
        delay = interval_text(microseconds(self.watermark_delay, "watermark_delay", min_value=0))
        add_watermark = with_watermark if heartbeats is None else heartbeats.with_watermark
        return self._drop_filtered(add_watermark(good, EVENT_TIME, delay))

    def batch(
        self,
        spark: SparkSession,
        start: Offsets,
        end: Offsets,
        observation: Observation,
        *,
        log_lateness: LogLateness | None = None,
        range_stats: RangeStats | None = None,
    ) -> DataFrame:
        """Return the good rows of an offset range as a batch, with the columns of the stream.

        The observation has the same counts as that of the stream, and those of `range_stats`. Rows
        are dropped as late by `log_lateness` only, with no event time before the range.
        """
        raw = self._read_range(spark, start, end, task_per_partition=log_lateness is not None)
        topic, *log_position = map(quoted_column, self.position_columns)
        selected_columns: Sequence[str] = POSITION_COLUMNS[:3]
        if len(end) == 1:
            # The name of the only topic is a constant.
            topic = F.lit(*end)
            selected_columns = POSITION_COLUMNS[1:3]
        log_position = [topic, *log_position]
        needs_position = log_lateness is not None or range_stats is not None
        decoded = self._decode(raw, selected_columns if needs_position else ())
        decoded = self._flag_late(log_lateness, decoded, {}, log_position)
        if range_stats is not None:
            decoded = range_stats.with_metrics(decoded, ~quoted_column(DEAD_LETTER), log_position)
        return self._drop_filtered(self._good_rows(decoded, observation))

    def _decode(self, raw: DataFrame, extra_columns: Sequence[str] = ()) -> DataFrame:
        """Decode each record, compute its event time, and flag dead letters and filtered rows.

        extra_columns: Kafka columns to select besides those that the decoding reads.
        """
        columns = [*extra_columns, *self.kafka_columns]
        columns += [*self._event_time.required_columns, *self._format_columns]
        try:
            decoded = self._decode_columns(raw, columns)
        except AnalysisException:
            # The event time is an expression over further Kafka columns.
            decoded = self._decode_columns(raw, [*columns, *_FORMAT_COLUMNS])
        checks = self._checks
        is_good = ~quoted_column(DEAD_LETTER)
        checked = checks.with_verdicts(decoded, is_good, self.columns, FILTERED)
        is_bad = quoted_column(DEAD_LETTER)
        if FAILED_CHECK in checked.columns:
            is_bad = is_bad | quoted_column(FAILED_CHECK).isNotNull()
            checked = checked.withColumn(DEAD_LETTER, is_bad)
        is_skipped = quoted_column(SKIPPED) if SKIPPED in checked.columns else None
        for flag, action in _ACTION_FLAGS.items():
            has_action = checks.is_action(action) if checks.has_action(action) else None
            if is_skipped is not None:
                is_dropped = action == "drop"
                others = F.lit(False) if has_action is None else has_action
                has_action = F.when(is_skipped, is_dropped).otherwise(others)
            if has_action is not None:
                checked = checked.withColumn(flag, quoted_column(DEAD_LETTER) & has_action)
        return checked

    def _decode_columns(self, raw: DataFrame, kafka_columns: Sequence[str]) -> DataFrame:
        kafka_columns = list(dict.fromkeys(kafka_columns))
        input_columns = dict.fromkeys([*kafka_columns, "value"])
        decoded = self.format.decode(raw.select(*map(quoted_column, input_columns)))
        flat = decoded.select(
            *map(_record_field, self.format.schema.fieldNames()),
            *[_renamed_column(name, self._kafka_column_name(name)) for name in kafka_columns],
            F.col("bad").alias(UNREADABLE),
            *[F.col("skipped").alias(SKIPPED) for name in decoded.columns if name == "skipped"],
        )
        has_fault = self._event_time.fault().isNotNull()
        timed = self._event_time.with_event_time(flat)
        return timed.withColumn(DEAD_LETTER, quoted_column(UNREADABLE) | has_fault)

    def _drop_filtered(self, rows: DataFrame) -> DataFrame:
        return rows if self.where is None else rows.where(~quoted_column(FILTERED)).drop(FILTERED)

    def _good_rows(
        self,
        decoded: DataFrame,
        observation: str | Observation,
        processed: ProcessedOffsets | None = None,
    ) -> DataFrame:
        """Count all rows, and return the good ones; FILTERED flags those that `where` drops."""
        flags = {DEAD_LETTER: quoted_column(DEAD_LETTER)}
        for flag in (CLAMPED, FILTERED, LATE, DISCARDED, STOPPING, FAILED_CHECK):
            if flag in decoded.columns:
                flags[flag] = quoted_column(flag)
        if processed is not None:
            flags |= processed.flag_columns(*map(quoted_column, self.position_columns))
        flag_columns = [value.alias(name) for name, value in flags.items()]
        rows = decoded.select(*map(quoted_column, self.columns), *flag_columns)
        metrics = self._batch_metrics(flags)
        is_emitted = ~quoted_column(DEAD_LETTER)
        if processed is not None:
            is_emitted = is_emitted & processed.is_emitted
        if LATE in flags:
            is_emitted = is_emitted & ~quoted_column(LATE)
        # Filtered rows are dropped after the watermark, which they advance.
        flags.pop(FILTERED, None)
        return rows.observe(observation, *metrics).where(is_emitted).drop(*flags)

    def count_rows(
        self,
        spark: SparkSession,
        start: Offsets,
        end: Offsets,
        *,
        log_lateness: LogLateness | None = None,
        max_event_times: EventTimes | None = None,
    ) -> dict[str, Any]:
        """Return the counts of an offset range that `stream` and `batch` observe.

        A separate query counts each row once, however often Spark retries a task.

        max_event_times: for `log_lateness`, the maximum event times before the range.
        """
        raw = self._read_range(spark, start, end, task_per_partition=log_lateness is not None)
        decoded = self._decode(raw, () if log_lateness is None else POSITION_COLUMNS[:3])
        decoded = self._flag_late(log_lateness, decoded, max_event_times or {})
        (totals,) = decoded.agg(*self._batch_metrics(decoded.columns)).collect()
        return totals.asDict()

    def good_rows(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Return the good rows of an offset range that `where` accepts, with POSITION_COLUMNS."""
        decoded = self._decode(self._read_range(spark, start, end), POSITION_COLUMNS)
        good = self._drop_filtered(decoded.where(~quoted_column(DEAD_LETTER)))
        return good.select(*self._positioned_row())

    def _positioned_row(self) -> list[Column]:
        """Return the columns of a good row with POSITION_COLUMNS."""
        names = dict.fromkeys([*POSITION_COLUMNS, *self.kafka_columns])
        return [quoted_column(name) for name in self._row_columns(list(names))]

    def unfiltered_rows(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Return the good rows of an offset range, also those that `where` drops."""
        decoded = self._decode(self._read_range(spark, start, end), POSITION_COLUMNS[:3])
        return decoded.where(~quoted_column(DEAD_LETTER))

    def _flag_late(
        self,
        log_lateness: LogLateness | None,
        decoded: DataFrame,
        max_event_times: EventTimes,
        log_position: Sequence[Column] = (),
    ) -> DataFrame:
        if log_lateness is None:
            return decoded
        position = log_position or [*map(quoted_column, self.position_columns)]
        is_good = ~quoted_column(DEAD_LETTER)
        return log_lateness.flag_range(decoded, is_good, position, max_event_times)

    def _read_range(
        self, spark: SparkSession, start: Offsets, end: Offsets, *, task_per_partition: bool = False
    ) -> DataFrame:
        return self.source.read_range(
            spark, start, end, headers=self._reads_headers, task_per_partition=task_per_partition
        )

    def dead_letters(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Return the dead letters of an offset range.

        Columns: topic, partition, offset, timestamp, key, value, value_bytes (the full length of
        the value), headers, stage ("decode", "event_time", "where", "expression" or "rule"),
        reason. The same range returns the same rows as long as the broker retains them.
        """
        return self.side_outputs(spark, start, end).dead_letters()

    def side_outputs(
        self,
        spark: SparkSession,
        start: Offsets,
        end: Offsets,
        lateness_test: LatenessTest | None = None,
    ) -> SideOutputRows:
        """Return the dead letters and the late rows of an offset range, in one read.

        Rows that `where` drops are never late.
        """
        log_lateness = None if lateness_test is None else lateness_test.log_lateness
        max_event_times = {} if lateness_test is None else lateness_test.max_event_times
        one_task = log_lateness is not None
        records = self.source.read_range(spark, start, end, task_per_partition=one_task)
        decoded = self._decode(records, RAW_COLUMNS)
        decoded = self._flag_late(log_lateness, decoded, max_event_times)
        raw = [dead_letter_column(self._kafka_column_name(name), name) for name in RAW_COLUMNS]
        row = F.struct(*self._positioned_row())
        explained = self._explain_failures(decoded)
        rows = select_side_outputs(explained, lateness_test, raw=raw, row=row)
        return SideOutputRows(rows, format=self.format, max_value_bytes=self.max_value_bytes)

    def _explain_failures(self, decoded: DataFrame) -> DataFrame:
        """Add the stage and the reason of rows that are not good; null for unreadable ones."""
        stage, reason = self._checks.stage_and_reason()
        time_fault = self._event_time.fault()
        stages = F.when(time_fault.isNotNull(), "event_time").otherwise(stage)
        columns = {STAGE: stages, REASON: F.coalesce(time_fault, reason)}
        if STOPPING not in decoded.columns:
            columns[STOPPING] = F.lit(False)
        return decoded.withColumns(columns)

    def _batch_metrics(self, flags: Collection[str]) -> list[Column]:
        """Return the aggregates that the input observes, of rows with these flags.

        Rows that a stream reads again are not counted, but they move the watermark.
        """
        is_bad = quoted_column(DEAD_LETTER)
        is_counted = ~quoted_column(REREAD) if REREAD in flags else F.lit(True)
        is_good = is_counted & ~is_bad
        is_dead_letter = is_bad & ~quoted_column(DISCARDED) if DISCARDED in flags else is_bad
        time = F.unix_micros(EVENT_TIME)
        metrics = [
            F.count_if(is_counted).alias("rows"),
            F.count_if(is_counted & is_dead_letter).alias("dead_letters"),
            F.min(F.when(is_good, time)).alias("earliest"),
            F.max(F.when(~is_bad, time)).alias("latest"),
        ]
        if CLAMPED in flags:
            metrics.append(F.count_if(is_good & quoted_column(CLAMPED)).alias("clamped"))
        for flag, name in _COUNTED_FLAGS.items():
            if flag in flags:
                metrics.append(F.count_if(is_counted & quoted_column(flag)).alias(name))
        if LATE in flags:
            is_emitted = is_good & ~quoted_column(FILTERED) if FILTERED in flags else is_good
            metrics.append(F.count_if(is_emitted & quoted_column(LATE)).alias("late"))
        if FAILED_CHECK in flags:
            metrics += self._checks.metrics(is_counted)
        return metrics


@cache_columns
def _record_field(field: str) -> Column:
    return F.col("record").getField(field).alias(field)


@cache_columns
def _renamed_column(column: str, name: str) -> Column:
    return quoted_column(column).alias(name)
