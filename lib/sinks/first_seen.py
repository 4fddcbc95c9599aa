"""Append the rows whose key no batch before had: what a Bloom filter in a table remembers, beyond
any state."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from operator import or_
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ..columns import names, quoted, require
from ..commit.batch import Batch
from ..commit.once import commit_once, last_batch
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..errors import ArgumentError, ConfigError, ReplayMismatchError
from ..jvm import delta_state
from .append import Append
from .sink import ROWS, sole

_KNOWN, _RANK = "__tidegate_known", "__tidegate_rank"
_REPEATED, _SEEN, _REBUILT = "repeated", "seen", "rebuilt"


class KeyFilter(Protocol):
    """A set of keys in a table of blocks: `tidegate.sketches.BloomTable`."""

    @property
    def key(self) -> str | Sequence[str]:
        """The columns of a key."""

    def blocks(self, rows: DataFrame) -> DataFrame:
        """The blocks of the rows' keys, by a column `block`."""

    def merged(self, *tables: DataFrame) -> DataFrame:
        """One table of several."""

    def probe(self, rows: DataFrame, table: DataFrame, *, into: str) -> DataFrame:
        """The rows, and whether the table may hold their key."""

    def report(self, table: DataFrame) -> DataFrame:
        """One row: keys, planned, false_positives, allowed."""


@dataclass(frozen=True)
class FirstSeen:
    """Append the rows whose key no earlier row had; set the others aside in a table of their own. Exactly once.

    Within a batch the first row of a key in `order` stays, exactly; against the batches before, a
    filter decides. It forgets no key, so none passes twice. It takes a new key for a known one with
    the probability that `known` allows: such a row is in the table `repeated` and not lost, and
    joined with the target it is told from a real repetition. Which new rows are set aside depends
    on how the log was cut into batches; how many does not. A key with a null is equal to nothing
    and always passes.

    Three tables are written, in this order: `repeated`, the target, and the filter's, each under
    its own stamp. The filter takes up a batch only after the target has it, and a target that has a
    batch is not asked again: so a batch that runs again after a crash never meets its own keys. The
    filter's table can be deleted at any time between two
    runs: the next batch builds it anew from the target, and so it can be made larger.

    Growth: with more keys than planned each batch warns, and says how often a new key is now taken
    for a known one. Where that is `refuse_at` times what is allowed, the batch is refused before
    anything is written.

    State: the filter's table, 9.6 bits a key at 0.01, read and written as a whole by each batch.
    Nobody else may write to it; VACUUM frees its older versions.

    Raises ConfigError (columns, a full filter), ReplayMismatchError (also where filter and target
    do not belong together), ConflictError.

    >>> from tidegate.sketches import BloomTable
    >>> known = BloomTable(key="event_id", keys=20_000_000)
    >>> FirstSeen(path="/data/events", repeated="/data/repeated", seen="/data/seen", known=known).step
    'append'
    """

    path: str
    _: KW_ONLY
    repeated: str
    seen: str
    known: KeyFilter
    order: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    step: str = "append"
    refuse_at: float = 2.0

    def __post_init__(self) -> None:
        if len({self.path, self.repeated, self.seen}) < 3:
            raise ArgumentError(
                f"path, repeated and seen are {self.path}, {self.repeated}, {self.seen}.",
                "three different tables.",
            )
        if not self.refuse_at > 1:
            raise ArgumentError(
                f"refuse_at is {self.refuse_at!r}.", "a factor above 1.", "refuse_at=2.0"
            )

    def tables(self) -> list[tuple[str, str]]:
        """List the repeated rows, the target and the filter."""
        return [(self.repeated, _REPEATED), (self.path, self.step), (self.seen, _SEEN)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the batch's new rows, or skip them when the table already has this batch."""
        frame = sole(frames)
        spark = frame.sparkSession
        written = last_batch(spark, self.path, batch, self.step)
        if written is not None and written >= batch.number:
            outcome = self._target().write(frames, batch, rows_out=rows_out)
        else:
            self._require_memory(spark, batch, written)
            outcome = self._split(frame, batch)
        self._remember(frame, batch, _SEEN)
        return outcome

    def _split(self, frame: DataFrame, batch: Batch) -> Outcome:
        marked = self._marked(frame).persist()
        try:
            counts = {row[0]: row[1] for row in marked.groupBy(_KNOWN).count().collect()}
            new, old = (
                marked.where(quoted(_KNOWN) == value).drop(_KNOWN) for value in (False, True)
            )
            if counts.get(True):
                repeated = Append(self.repeated, step=_REPEATED)
                repeated.write({ROWS: old}, batch, rows_out=counts[True])
            return self._target().write({ROWS: new}, batch, rows_out=counts.get(False, 0))
        finally:
            marked.unpersist()

    def _marked(self, frame: DataFrame) -> DataFrame:
        """Add whether a row's key was there before, in this batch or in the filter."""
        keys = names(self.known.key, "key")
        require(frame, [*keys, *self.order], "key and order")
        table = self._table(frame.sparkSession)
        if table is None:
            marked = frame.withColumn(_KNOWN, F.lit(False))
        else:
            self._require_room(table)
            marked = self.known.probe(frame, table, into=_KNOWN)
        place = Window.partitionBy(*map(quoted, keys)).orderBy(
            *map(quoted, self.order or frame.columns)
        )
        keyless = reduce(or_, [quoted(name).isNull() for name in keys])
        again = (F.row_number().over(place) > 1) & ~keyless
        return marked.withColumn(_KNOWN, quoted(_KNOWN) | again)

    def _require_room(self, table: DataFrame) -> None:
        report = self.known.report(table).head()
        if report is None or report["keys"] <= report["planned"]:
            return
        told = (
            f"{self.seen} was made for {report['planned']:,} keys and holds about "
            f"{_rounded(report['keys']):,}. "
            f"A new key is taken for a known one in {report['false_positives']:.2g} of all cases, "
            f"where {report['allowed']:.2g} is allowed"
        )
        if report["false_positives"] > self.refuse_at * report["allowed"]:
            raise ConfigError(
                f"{told}. Nothing of this batch was written.",
                f"at most {self.refuse_at:g} times what is allowed.",
                "plan for more keys, and delete the table: it is built anew from the target.",
            )
        warnings.warn(f"{told}.", stacklevel=2)

    def _require_memory(self, spark: SparkSession, batch: Batch, written: int | None) -> None:
        """Make sure that the filter knows all that the target holds, and no more."""
        if delta_state(spark, self.seen).version < 0:
            if delta_state(spark, self.path).version >= 0:
                self._remember(spark.read.format("delta").load(self.path), batch, _REBUILT)
            return
        seen, rebuilt = (last_batch(spark, self.seen, batch, step) for step in (_SEEN, _REBUILT))
        if seen == written and seen is not None:
            return
        if seen is None and rebuilt is not None and (written is None or written < rebuilt):
            return
        raise ReplayMismatchError(
            f"{self.seen} has batch {seen} of this query, and {self.path} has batch {written}.",
            "a filter and a target that hold the same batches.",
            f"delete {self.seen}: it is built anew from the target; nothing was written.",
        )

    def _target(self) -> Append:
        return Append(path=self.path, partition_by=self.partition_by, step=self.step)

    def _table(self, spark: SparkSession) -> DataFrame | None:
        exists = delta_state(spark, self.seen).version >= 0
        return spark.read.format("delta").load(self.seen) if exists else None

    def _remember(self, rows: DataFrame, batch: Batch, step: str) -> None:
        """Add the rows' keys to the filter's table, which is small beside them, by writing it anew
        in one commit."""
        spark = rows.sparkSession

        def write(options: CommitOptions) -> None:
            table, added = self._table(spark), self.known.blocks(rows)
            whole = added if table is None else self.known.merged(table, added)
            options.on(whole.write.format("delta").mode("overwrite")).save(self.seen)

        commit_once(spark, self.seen, batch, step, write, {})


def _rounded(number: int) -> int:
    """Round to three digits, so that a warning is not a new one with each batch."""
    return round(number, 3 - len(str(number)))
