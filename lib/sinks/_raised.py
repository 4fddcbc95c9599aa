"""What a batch of windows raises and withdraws by one rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..columns import names, quoted, quoted_in, same_key
from ..commit.batch import EPOCH, Batch
from ..patterns.comparison.comparing import BEGIN, Comparing

EVIDENCE = ("value", "baseline", "deviation", "ratio", "robust_z", "past", "limits")
LOGGED = ("rule", "version", "status", "reason", *EVIDENCE, "batch", "watermark")
"""What the log of alarms has of an alarm, beside its window and its keys."""

_RANK = "__tidegate_rank"
_ASKED = "asked"
_NOW = "now"
_WAS = "was"


@dataclass
class Raised:
    """The alarms of one rule, among the windows that a table has now.

    comparing: the rule, and the windows that it compares.
    stored: the table of windows, with the batch.
    log: the table of alarms, without it; None where there is none yet.
    """

    comparing: Comparing
    stored: DataFrame
    log: DataFrame | None
    kept: list[DataFrame] = field(default_factory=list)

    @property
    def entries(self) -> DataFrame:
        """The entries of the log that a batch makes."""
        return self.kept[-1]

    def of(self, rows: DataFrame, batch: Batch) -> Raised:
        """Find the entries of a batch, by the windows that are among its rows."""
        until = self._until(batch)
        asked = self._kept(self._asked(rows, batch, until))
        self._kept(self._entries(asked, until, batch))
        return self

    def release(self) -> None:
        """Let go of what is kept in memory."""
        for each in self.kept:
            each.unpersist()

    @staticmethod
    def last(log: DataFrame, by: str | Sequence[str]) -> DataFrame:
        """Return the last entry of each alarm."""
        keys = [quoted(name) for name in names(by)]
        newest = Window.partitionBy("rule", "window", *keys).orderBy(F.desc("version"))
        ranked = log.withColumn(_RANK, F.row_number().over(newest))
        return ranked.where(quoted(_RANK) == 1).drop(_RANK)

    def _kept(self, frame: DataFrame) -> DataFrame:
        self.kept.append(frame.persist())
        return frame

    @property
    def _keys(self) -> list[str]:
        return [*self.comparing.by, BEGIN]

    def _until(self, batch: Batch) -> datetime:
        """Return up to which instant windows have ended.

        That is the batch's watermark. But late rows that are replayed bear the watermark at which
        they were late, and windows are final that have ended since.
        """
        end = quoted("window")["end"]
        later = self.stored.where(quoted("final") & (end > F.lit(batch.watermark)))
        found = later.agg(F.unix_micros(F.max(end))).head()
        if found is None or found[0] is None:
            return batch.watermark
        return _instant(found[0])

    def _asked(self, rows: DataFrame, batch: Batch, until: datetime) -> DataFrame:
        """Return the windows that the batch may have changed the verdict of: keys and beginning."""
        by = [quoted(name) for name in self.comparing.by]
        begun = rows.select(*by, quoted("window")["start"].alias(BEGIN)).distinct()
        asked = self.comparing.reached(begun)
        if self.comparing.slots.is_any_over(batch.late_watermark, until):
            asked = asked.unionByName(self._closed(batch.late_watermark, until)).distinct()
        return asked.where(self._end() <= F.lit(until))

    def _closed(self, after: datetime, until: datetime) -> DataFrame:
        """Return the windows that have closed with the batch, also those that have no row."""
        by = [quoted(name) for name in self.comparing.by]
        past = self.comparing.rule.past
        start = quoted("window")["start"]
        spans = self.comparing.slots.nearby(after, until, past)
        if past.zero_from is None:
            spans = spans[:1]
        near = [start.between(F.lit(first), F.lit(last)) for first, last in spans]
        begun = self.stored.where(reduce(or_, near)).select(*by, start.alias(BEGIN))
        every = begun if past.zero_from is None else self.comparing.reached(begun)
        return every.where((self._end() > F.lit(after)) & (self._end() <= F.lit(until)))

    def _end(self) -> Column:
        return self.comparing.slots.window(quoted(BEGIN))["end"]

    def _entries(self, asked: DataFrame, until: datetime, batch: Batch) -> DataFrame:
        """Return what is an alarm now and was none, and what was one and is none."""
        spans = self._spans(asked)
        now = self.comparing.judged(self._within(self.stored, spans), asked, until=until)
        before = self._before(now, spans[:1])
        begun = now.withColumn(BEGIN, quoted("window")["start"])
        found = (
            asked.alias(_ASKED)
            .join(begun.alias(_NOW), same_key(self._keys, _ASKED, _NOW), "left")
            .join(before.alias(_WAS), same_key(self._keys, _ASKED, _WAS), "left")
        )
        verdict = quoted_in(_NOW, "verdict")
        is_alarm = F.coalesce(verdict == "alarm", F.lit(False))
        was_alarm = F.coalesce(quoted_in(_WAS, "status") == "raised", F.lit(False))
        changed = found.where(is_alarm != was_alarm)

        status = F.when(is_alarm, "raised").otherwise("withdrawn")
        reason = F.when(~is_alarm, F.coalesce(verdict, F.lit("no window")))
        last_version = F.coalesce(quoted_in(_WAS, "version"), F.lit(0).cast("bigint"))
        version = last_version + F.lit(1)
        return changed.select(
            F.lit(self.comparing.name).alias("rule"),
            self.comparing.slots.window(quoted_in(_ASKED, BEGIN)).alias("window"),
            *[quoted_in(_ASKED, name).alias(name) for name in self.comparing.by],
            version.alias("version"),
            status.alias("status"),
            reason.alias("reason"),
            *[quoted_in(_NOW, name).alias(name) for name in EVIDENCE],
            F.lit(batch.number).cast("bigint").alias("batch"),
            F.lit(batch.watermark).alias("watermark"),
        )

    def _spans(self, asked: DataFrame) -> list[tuple[datetime, datetime]]:
        """Return in which spans the asked windows begin, and those that they are compared with."""
        found = (
            self.comparing.looked_at(asked)
            .orderBy("number")
            .select(F.unix_micros("first"), F.unix_micros("last"))
        )
        return [(_instant(first), _instant(last)) for first, last in found.collect()]

    def _within(self, table: DataFrame, spans: list[tuple[datetime, datetime]]) -> DataFrame:
        """Return the rows whose windows begin in one of some spans; Delta skips other files."""
        start = quoted("window")["start"]
        near = [start.between(F.lit(first), F.lit(last)) for first, last in spans]
        return table.where(reduce(or_, near) if near else F.lit(False))

    def _before(self, now: DataFrame, spans: list[tuple[datetime, datetime]]) -> DataFrame:
        """Return the last entries that the log has of the asked windows."""
        name = quoted("rule") == self.comparing.name
        by = [quoted(each) for each in self.comparing.by]
        if self.log is None:
            nothing = now.where(F.lit(False))
            return nothing.select(
                quoted("window")["start"].alias(BEGIN),
                *by,
                F.lit("").alias("status"),
                F.lit(0).cast("bigint").alias("version"),
            )
        entries = self._within(self.log.where(name), spans)
        return self.last(entries, self.comparing.by).select(
            quoted("window")["start"].alias(BEGIN), *by, "status", "version"
        )


def _instant(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
