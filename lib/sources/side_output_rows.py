"""The side outputs of an offset range, read once: dead letters and late rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import cache_columns, quoted_column
from ..event_time.batch_literal import batch_literal
from ..formats.format import Format
from ..offsets import EventTimes
from .event_time_column import (
    DEAD_LETTER,
    DISCARDED,
    EVENT_TIME,
    FILTERED,
    STOPPING,
    UNREADABLE,
)
from .kafka_source import RAW_COLUMNS
from .log_watermark import LogLateness

POSITION_COLUMNS = ("topic", "partition", "offset", "timestamp")
DEAD_LETTER_SCHEMA = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    "value_bytes BIGINT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, stage STRING, "
    "reason STRING"
)
"""The columns of a dead letter."""
LATE_AT = "__tidegate_late_at"
WATERMARK = "__tidegate_watermark"
STREAM_ROW = "__tidegate_stream_row"
STAGE = "__tidegate_stage"
"""The stage at which a record became a dead letter; null if the format could not decode it."""
REASON = "__tidegate_reason"
"""Why a record is a dead letter; null if the format could not decode it."""


@dataclass(frozen=True)
class LatenessTest:
    """The rule for late rows: the watermark has reached the instant `late_at` of the row.

    late_at: an expression over `event_time` and the fields.
    watermark: the watermark of the batch; with deterministic lateness, a column.
    log_lateness: the rule of deterministic lateness, or None.
    max_event_times: for deterministic lateness, the maximum event times before the range.
    """

    late_at: Column
    watermark: datetime | Column
    log_lateness: LogLateness | None = None
    max_event_times: EventTimes = field(default_factory=dict)

    @classmethod
    def for_log_lateness(
        cls, log_lateness: LogLateness, max_event_times: EventTimes
    ) -> LatenessTest:
        """Return the test for deterministic lateness."""
        return cls(log_lateness.late_at, log_lateness.watermark, log_lateness, max_event_times)


@dataclass(frozen=True)
class SideOutputRows:
    """The dead letters and the late rows of an offset range, in one frame.

    rows: the flags DEAD_LETTER, UNREADABLE and STOPPING; for a dead letter the Kafka columns, STAGE
        and REASON; for a late row STREAM_ROW, the row of the stream, LATE_AT, the watermark from
        which on it is late, and WATERMARK, the watermark that it has missed.
    """

    rows: DataFrame
    _: KW_ONLY
    format: Format
    max_value_bytes: int

    def dead_letters(self, *, stopping_only: bool = False) -> DataFrame:
        """Return the dead letters, with the columns of `Input.dead_letters`.

        stopping_only: only those that fail the batch (on_error="stop").
        """
        is_selected = quoted_column(STOPPING if stopping_only else DEAD_LETTER)
        bad_rows = self.rows.where(is_selected).select(*RAW_COLUMNS, UNREADABLE, STAGE, REASON)
        return self.format.explain_failures(bad_rows).select(
            *POSITION_COLUMNS, *_dead_letter_columns(self.max_value_bytes)
        )

    def late_rows(self) -> DataFrame:
        """Return the late rows of the stream, with the columns `final_at` and `watermark`."""
        late = self.rows.where(~quoted_column(DEAD_LETTER)).select(
            f"{STREAM_ROW}.*", LATE_AT, WATERMARK
        )
        final_at, watermark = quoted_column(LATE_AT), quoted_column(WATERMARK)
        added_columns = {"final_at": final_at, "watermark": watermark}
        return late.withColumns(added_columns).drop(LATE_AT, WATERMARK)

    def count_rows(self, since: datetime | None) -> tuple[int, int, int]:
        """Return the numbers of dead letters, of late rows, and of rows late only after `since`."""
        is_late = ~quoted_column(DEAD_LETTER)
        is_newly_late = F.lit(False)
        if since is not None:
            late_at = quoted_column(LATE_AT)
            is_newly_late = is_late & (late_at > batch_literal(since, late_at))
        row = self.rows.agg(
            F.count_if(quoted_column(DEAD_LETTER)), F.count_if(is_late), F.count_if(is_newly_late)
        ).head()
        return (0, 0, 0) if row is None else (int(row[0]), int(row[1]), int(row[2]))


def select_side_outputs(
    decoded: DataFrame, lateness_test: LatenessTest | None, *, raw: list[Column], row: Column
) -> DataFrame:
    """Return the dead letters and the late rows, as `SideOutputRows.rows`.

    decoded: rows with the flags DEAD_LETTER, UNREADABLE and STOPPING, with STAGE and REASON, with
        FILTERED if the input has a `where`, and with DISCARDED if it drops rows that are not good.
    raw: the Kafka columns of a dead letter. row: the row of the stream.
    """
    is_dead_letter = quoted_column(DEAD_LETTER)
    late_at = watermark = F.lit(None).cast("timestamp")
    if lateness_test is not None:
        # Only good rows evaluate late_at; it may raise for the values of others. A window over a
        # null time would drop the row, so dead letters get a time.
        epoch = F.timestamp_seconds(F.lit(0))
        safe_time = F.when(is_dead_letter, epoch).otherwise(F.col(EVENT_TIME))
        decoded = decoded.withColumn(EVENT_TIME, safe_time)
        is_good = ~is_dead_letter
        if FILTERED in decoded.columns:
            is_good = is_good & ~quoted_column(FILTERED)
        late_at = F.when(is_good, lateness_test.late_at)
        if isinstance(lateness_test.watermark, datetime):
            watermark = batch_literal(lateness_test.watermark, quoted_column(LATE_AT))
        else:
            watermark = lateness_test.watermark
    with_watermark = decoded.withColumn(LATE_AT, late_at).withColumn(WATERMARK, watermark)
    flags = (DEAD_LETTER, UNREADABLE, STOPPING, STAGE, REASON, LATE_AT, WATERMARK)
    if DISCARDED in decoded.columns:
        with_watermark = with_watermark.where(~quoted_column(DISCARDED))
    rows = with_watermark.select(*raw, *map(quoted_column, flags), row.alias(STREAM_ROW))
    is_late = quoted_column(LATE_AT) <= quoted_column(WATERMARK)
    return rows.where(is_dead_letter | F.coalesce(is_late, F.lit(False)))


@cache_columns
def dead_letter_column(column: str, name: str) -> Column:
    """Return a column under a name for dead letters, and null for other rows."""
    return F.when(quoted_column(DEAD_LETTER), quoted_column(column)).alias(name)


@cache_columns
def _dead_letter_columns(max_value_bytes: int) -> tuple[Column, ...]:
    """Return the columns of a dead letter, with key, value and headers cut to a number of bytes."""

    def truncate(value: Column, name: str) -> Column:
        return F.substring(value, 1, max_value_bytes).alias(name)

    def truncate_header(header: Column) -> Column:
        return F.struct(*[truncate(header[name], name) for name in ("key", "value")])

    is_unreadable = quoted_column(UNREADABLE)
    return (
        truncate(F.col("key"), "key"),
        truncate(F.col("value"), "value"),
        F.octet_length("value").cast("bigint").alias("value_bytes"),
        F.transform("headers", truncate_header).alias("headers"),
        F.when(is_unreadable, "decode").otherwise(quoted_column(STAGE)).alias("stage"),
        F.when(is_unreadable, F.col("reason")).otherwise(quoted_column(REASON)).alias("reason"),
    )
