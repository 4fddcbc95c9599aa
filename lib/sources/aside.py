"""The rows of an offset range that are set aside, read once: unreadable ones, and late ones."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import quoted
from ..eventtime.changing import changing
from ..formats.format import Format
from ..made_once import made_once
from ..offsets import EventTimes
from ._letters import letters
from .before import FILTERED
from .by_log import ByLog
from .event_time import EVENT_TIME
from .kafka import COLUMNS

PLACE = ("topic", "partition", "offset", "timestamp")
BAD = "__tidegate_bad"
UNREAD = "__tidegate_unread"
UNTIMED = "__tidegate_untimed"
CLOSES = "__tidegate_closes"
WATERMARK = "__tidegate_watermark"
ROW = "__tidegate_row"


@dataclass(frozen=True)
class Behind:
    """Which good rows are late: those whose instant `at` their watermark has reached.

    at: of the rows' `event_time` and fields.
    watermark: that of all rows of the batch; for rows that are late by the log, a column of each
        one's own.
    log: how rows are late by the log; None where they are not.
    newest: for that, what was newest in each partition where the range begins.
    """

    at: Column
    watermark: datetime | Column
    log: ByLog | None = None
    newest: EventTimes = field(default_factory=dict)

    @classmethod
    def by_log(cls, log: ByLog, newest: EventTimes) -> Behind:
        """Return which rows are late by the log."""
        return cls(log.late_at, log.watermark, log, newest)


@dataclass(frozen=True)
class SetAside:
    """Rows that could not be read, and rows that are late, as one frame.

    rows: whether a row is BAD; of such a row Kafka's columns and what is wrong; of a late one, in
        ROW, what it is in the stream, CLOSES, the instant from which it was late, and WATERMARK,
        that by which it was.
    """

    rows: DataFrame
    _: KW_ONLY
    format: Format
    cap: int
    behind: Behind | None

    def dead(self) -> DataFrame:
        """Return the rows that could not be read, as `Reading.dead` has them."""
        found = self.rows.where(quoted(BAD)).select(*COLUMNS, UNREAD, UNTIMED)
        return letters(
            self.format.diagnose(found),
            place=PLACE,
            unread=UNREAD,
            untimed=UNTIMED,
            cap=self.cap,
        )

    def late(self) -> DataFrame:
        """Return the late rows, as `Reading.rows` has them, with `closes` and `watermark`."""
        late = self.rows.where(~quoted(BAD)).select(f"{ROW}.*", CLOSES, WATERMARK)
        told = {"closes": quoted(CLOSES), "watermark": quoted(WATERMARK)}
        return late.withColumns(told).drop(CLOSES, WATERMARK)

    def counts(self, since: datetime | None) -> tuple[int, int, int]:
        """Return how many could not be read, are late, and are late only from after `since`."""
        late = ~quoted(BAD)
        lately = F.lit(False)
        if since is not None:
            lately = late & (quoted(CLOSES) > changing(since, quoted(CLOSES)))
        row = self.rows.agg(F.count_if(quoted(BAD)), F.count_if(late), F.count_if(lately)).head()
        return (0, 0, 0) if row is None else (int(row[0]), int(row[1]), int(row[2]))


@made_once
def where_bad(column: str, name: str) -> Column:
    """Return a column under a name, for the rows that could not be read; null for others."""
    return F.when(quoted(BAD), quoted(column)).alias(name)


def chosen(
    judged: DataFrame, behind: Behind | None, *, raw: list[Column], row: Column
) -> DataFrame:
    """Return the rows that could not be read, and the rows that are late.

    judged: with BAD, UNREAD and UNTIMED, and FILTERED where some rows are left out.
    raw: Kafka's columns. row: what a good row is.
    """
    bad = quoted(BAD)
    closes = watermark = F.lit(None).cast("timestamp")
    if behind is not None:
        # The instant is asked of the stream's rows alone: what is in the others may raise. None of
        # them is without a time, for Spark leaves out such rows where it makes windows.
        timed = F.when(bad, F.timestamp_seconds(F.lit(0))).otherwise(F.col(EVENT_TIME))
        good = ~bad & ~quoted(FILTERED) if FILTERED in judged.columns else ~bad
        judged = judged.withColumn(EVENT_TIME, timed)
        closes = F.when(good, behind.at)
        by = behind.watermark
        watermark = changing(by, quoted(CLOSES)) if isinstance(by, datetime) else by
    rows = (
        judged.withColumn(CLOSES, closes)
        .withColumn(WATERMARK, watermark)
        .select(*raw, *map(quoted, (BAD, UNREAD, UNTIMED, CLOSES, WATERMARK)), row.alias(ROW))
    )
    reached = quoted(CLOSES) <= quoted(WATERMARK)
    return rows.where(bad | F.coalesce(reached, F.lit(False)))
