"""Rows whose key no batch before had, remembered in a Bloom filter in a table, beyond any state."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ..columns import names, quoted, require
from ..commit.batch import Batch
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once, last_batch
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..commit.table import replacing
from ..errors import ArgumentError, ReplayMismatchError, TableError
from ..frames import ROWS, sole
from ..jvm import delta_state
from ..sketches.bloom_table import BloomTable
from ._targets import require_target
from .append import Append

_KNOWN = "__tidegate_known"
_REPEATED = "repeated"
_SEEN = "seen"
_REBUILT = "rebuilt"


@dataclass(frozen=True)
class FirstSeen:
    """Append the rows whose key no earlier row had, exactly once; append the other rows elsewhere.

    Within a batch the first row of a key in `order` stays, exactly. Against the batches before, a
    Bloom filter decides. The filter forgets no key, so that none passes twice. It takes a new key
    for a known one with the probability that `known` allows: such a row is not lost but in the
    table `repeated`, and a join with the target tells it from a real repetition. Which new rows go
    there depends on how the log was cut into batches; how many does not. A key with a null is equal
    to nothing and always passes.

    Three tables are written, in this order: `repeated`, the target, and the filter's table `seen`,
    each under its own stamp. The filter takes up a batch only after the target has it, and a target
    that has a batch is not asked again, so that a batch which runs again after a crash never meets
    its own keys. The filter's table can be deleted at any time between two runs: the next batch
    builds it anew from the target. So the filter can be made larger, too.

    Growth: with more keys than planned each batch warns, and says how often a new key is now taken
    for a known one. Where that is `refuse_at` times what is allowed, the batch is refused before
    anything is written.

    State: the filter's table, 9.6 bits a key at 0.01, read and written as a whole by each batch.
    Nobody else may write to it; VACUUM frees its older versions.

    Raises:
        ArgumentError: at construction.
        ColumnError, TableError (other columns, a full filter), ConflictError: for a batch.
        ReplayMismatchError: for a batch, also where filter and target do not belong together.

    >>> from tidegate.sketches import BloomTable
    >>> known = BloomTable(key="event_id", keys=20_000_000)
    >>> FirstSeen("/data/events", repeated="/data/repeated", seen="/data/seen", known=known).step
    'append'
    """

    path: str
    _: KW_ONLY
    repeated: str
    seen: str
    known: BloomTable
    order: Sequence[str] = ()
    layout: Layout = ANY
    step: str = "append"
    refuse_at: float = 2.0

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout)
        if len({self.path, self.repeated, self.seen}) < 3:
            raise ArgumentError(
                f"path, repeated and seen are {self.path}, {self.repeated}, {self.seen}.",
                "three different tables.",
            )
        if not self.refuse_at > 1:
            raise ArgumentError(
                f"refuse_at is {self.refuse_at!r}.", "a factor above 1.", "refuse_at=2.0"
            )

    @property
    def remade(self) -> frozenset[str]:
        """The filter's step, whose table is built anew from the target where it is gone."""
        return frozenset([_SEEN])

    def tables(self) -> list[tuple[str, str]]:
        """Return the table of repeated rows, the target and the filter."""
        return [(self.repeated, _REPEATED), (self.path, self.step), (self.seen, _SEEN)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Write the batch's new rows, or skip them when the table already has this batch."""
        frame = sole(frames)
        spark = frame.sparkSession
        written = last_batch(spark, self.path, batch, self.step)
        if written is not None and written >= batch.number:
            # The target refuses a batch of this number that is another one, and skips this one.
            outcome = self._target().write(frames, batch, rows_out=rows_out)
        else:
            self._require_filter(spark, batch, written)
            outcome = self._split(frame, batch)
        self._remember(frame, batch, _SEEN)
        return outcome

    def _split(self, frame: DataFrame, batch: Batch) -> Outcome:
        """Write the repeated rows, if there are any, and then the new ones."""
        marked = self._marked(frame).persist()
        try:
            counts = {row[0]: row[1] for row in marked.groupBy(_KNOWN).count().collect()}
            again = counts.get(True, 0)
            if again:
                repeated = marked.where(quoted(_KNOWN)).drop(_KNOWN)
                table = Append(self.repeated, step=_REPEATED)
                table.write({ROWS: repeated}, batch, rows_out=again)
            new = marked.where(~quoted(_KNOWN)).drop(_KNOWN)
            return self._target().write({ROWS: new}, batch, rows_out=counts.get(False, 0))
        finally:
            marked.unpersist()

    def _marked(self, frame: DataFrame) -> DataFrame:
        """Return the rows, marked by whether their key was there before, here or in the filter."""
        keys = names(self.known.key, "key")
        require(frame, [*keys, *self.order], "key and order")
        table = self._filter(frame.sparkSession)
        if table is None:
            marked = frame.withColumn(_KNOWN, F.lit(False))
        else:
            self._require_room(table)
            marked = self.known.probe(frame, table, into=_KNOWN)
        # By all columns where no order is given: a batch that runs again must choose the same row.
        order = map(quoted, self.order or frame.columns)
        place = Window.partitionBy(*map(quoted, keys)).orderBy(*order)
        keyless = reduce(or_, [quoted(name).isNull() for name in keys])
        again = (F.row_number().over(place) > 1) & ~keyless
        return marked.withColumn(_KNOWN, quoted(_KNOWN) | again)

    def _require_room(self, table: DataFrame) -> None:
        """Warn of a filter with more keys than planned, and refuse one that errs too often."""
        report = self.known.report(table).head()
        if report is None or report["keys"] <= report["planned"]:
            return
        told = (
            f"{self.seen} was made for {report['planned']:,} keys and holds about "
            f"{_rounded(report['keys']):,}. A new key is taken for a known one in "
            f"{report['false_positives']:.2g} of all cases, where {report['allowed']:.2g} is "
            "allowed"
        )
        if report["false_positives"] > self.refuse_at * report["allowed"]:
            raise TableError(
                f"{told}. Nothing of this batch was written.",
                f"at most {self.refuse_at:g} times what is allowed.",
                "plan for more keys, and delete the table: it is built anew from the target.",
            )
        warnings.warn(f"{told}.", stacklevel=2)

    def _require_filter(self, spark: SparkSession, batch: Batch, written: int | None) -> None:
        """Make sure that the filter knows all that the target holds, and no more.

        A filter that is gone is built from the target.
        """
        if delta_state(spark, self.seen).version < 0:
            if delta_state(spark, self.path).version >= 0:
                self._remember(spark.read.format("delta").load(self.path), batch, _REBUILT)
            return
        seen = last_batch(spark, self.seen, batch, _SEEN)
        if seen is not None and seen == written:
            return
        rebuilt = last_batch(spark, self.seen, batch, _REBUILT)
        # Built anew by this query, which died before its first batch was in the target.
        unused = rebuilt is not None and (written is None or written < rebuilt)
        if seen is None and unused:
            return
        raise ReplayMismatchError(
            f"{self.seen} has batch {seen} of this query, and {self.path} has batch {written}.",
            "a filter and a target that hold the same batches.",
            f"delete {self.seen}: it is built anew from the target; nothing was written.",
        )

    def _target(self) -> Append:
        return Append(self.path, layout=self.layout, step=self.step)

    def _filter(self, spark: SparkSession) -> DataFrame | None:
        """Return the filter's table, or None where there is none yet."""
        if delta_state(spark, self.seen).version < 0:
            return None
        return spark.read.format("delta").load(self.seen)

    def _remember(self, rows: DataFrame, batch: Batch, step: str) -> None:
        """Add the rows' keys to the filter.

        Its table is small beside the rows, and is written anew in one commit.
        """
        spark = rows.sparkSession

        def commit(options: CommitOptions) -> None:
            table = self._filter(spark)
            added = self.known.blocks(rows)
            whole = added if table is None else self.known.merged(table, added)
            options.on(replacing(whole.write.format("delta"))).save(self.seen)

        commit_once(spark, self.seen, batch, step, commit, {})


def _rounded(number: int) -> int:
    """Round to three digits, so that a warning is not a new one with each batch."""
    return round(number, 3 - len(str(number)))
