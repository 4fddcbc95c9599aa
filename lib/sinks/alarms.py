"""Alarms of windows that deviate from their past: raised once, and withdrawn by corrections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from ..columns import quoted, require_free
from ..commit import table
from ..commit.batch import Batch
from ..commit.layout import ANY, Layout
from ..commit.once import commit_once
from ..commit.options import CommitOptions
from ..commit.outcome import Outcome
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from ..frames import ROWS, sole
from ..jvm import delta_state
from ..patterns import Deviations
from ..windows import Tumbling
from ._raised import LOGGED, Raised
from ._targets import require_target
from .append import counts
from .corrected import Corrected
from .sink import Sink


@dataclass(frozen=True)
class Alarms:
    """Keep windows, compare them with their past, and log alarms, each batch exactly once.

    The frame is that of `Corrected`, and `windows` writes it first. Then the table at `path` gets
    the alarms that come and go. It is append-only; its columns:

    | column | what it is |
    |---|---|
    | rule, window, keys | what the alarm is of |
    | version | 1 for the first entry of this rule, window and key, then 2, ... |
    | status | "raised" or "withdrawn" |
    | reason | of a withdrawal: the verdict that the window has now, or "no window" |
    | value to limits | the evidence, as `tidegate.patterns.deviations` gives it |
    | batch, watermark | the batch that logged the entry, and its watermark |

    A window is compared once the watermark has passed its end; windows that are shown while they
    are open raise nothing. An alarm is logged once, and is not told again while it stands, also
    where a correction changes its evidence. When a late row changes the window itself, or one that
    it is compared with, so that it is no alarm any more, it is withdrawn; and raised again if it
    comes back. `standing` returns the alarms that stand: whatever the batches and their order,
    these are the alarms that `deviations(windows, until=watermark)` finds in the table of windows.

    State: the two tables. A batch compares the windows that it changes or closes, and those of
    whose past a changed window is; of the windows it reads those in between. With `zero_from` it
    also looks, when windows close, for those that have no row.

    Rules may change between two runs: windows that are compared from then on are judged by the new
    ones. An alarm of a rule that is no more stands as it was.

    Args:
        path: the table of alarms.
        windows: what keeps the windows; tumbling ones.
        deviations: the rules, for windows of the same size, offset and keys.
        told: a sink, such as `Webhook` or `Publish`, that gets the entries of each batch once they
            are logged.
        step: the name of the commits in the application id.
        layout: how the table of alarms is laid out.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError: at construction.
        And what `Corrected` raises.

    >>> from tidegate.aggregates import count
    >>> from tidegate.patterns import Deviation, Past
    >>> from tidegate.windows import Windowed
    >>> hours = Windowed(Tumbling("1 hour"), by="page", aggs={"views": count()})
    >>> rules = {"like last weeks": Deviation("views", Past(4, every="1 week"), ratio=2)}
    >>> alarms = Alarms(
    ...     "/data/alarms",
    ...     windows=Corrected("/data/hours", windowed=hours, log=None),
    ...     deviations=Deviations("1 hour", by="page", rules=rules, zone="Europe/Berlin"),
    ... )
    >>> alarms.tables()
    [('/data/hours', 'windows'), ('/data/alarms', 'alarms')]
    """

    path: str
    _: KW_ONLY
    windows: Corrected
    deviations: Deviations
    told: Sink | None = None
    step: str = "alarms"
    layout: Layout = ANY

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout)
        if not isinstance(self.windows, Corrected) or not isinstance(self.deviations, Deviations):
            raise ColumnTypeError(
                f"windows is a {type(self.windows).__name__}, and deviations a "
                f"{type(self.deviations).__name__}.",
                "the sink Corrected, and Deviations of tidegate.patterns.",
            )
        if self.told is not None and not hasattr(self.told, "write"):
            raise ColumnTypeError(
                f"told is a {type(self.told).__name__}.", "a sink, such as Webhook, or None."
            )
        self._require_apart()
        self._require_same_windows()

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables of the windows, that of the alarms, and those of `told`."""
        told = [] if self.told is None else self.told.tables()
        return [*self.windows.tables(), (self.path, self.step), *told]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Merge the windows and log what comes and goes; a table that has the batch is skipped."""
        rows = table.plain(sole(frames)).persist()
        spark = rows.sparkSession
        try:
            self.windows.write({ROWS: rows}, batch, rows_out=rows_out)

            def commit(options: CommitOptions) -> None:
                self._log(spark, rows, batch, options)

            outcome = commit_once(spark, self.path, batch, self.step, commit, counts(rows_out))
            self._tell(spark, batch)
            return outcome
        finally:
            rows.unpersist()

    def standing(self, spark: SparkSession) -> DataFrame:
        """Return the alarms that stand: the last entry of each that is not withdrawn."""
        log = spark.read.format("delta").load(self.path)
        return Raised.last(log, self.deviations.by).where(quoted("status") == "raised")

    def _tell(self, spark: SparkSession, batch: Batch) -> None:
        """Hand on the entries of a batch, as the log has them."""
        if self.told is None:
            return
        log = spark.read.format("delta").load(self.path)
        entries = log.where(quoted("batch") == batch.number)
        if not entries.isEmpty():
            self.told.write({ROWS: entries}, batch)

    def _log(
        self, spark: SparkSession, rows: DataFrame, batch: Batch, options: CommitOptions
    ) -> None:
        """Append the alarms that the batch raises and withdraws.

        The windows have the batch already, and no later one, also when it runs again after a crash;
        and which of them it changed or closed follows from its own rows and watermarks.
        """
        stored = spark.read.format("delta").load(self.windows.path)
        self.deviations.require(stored)
        exists = delta_state(spark, self.path).version >= 0
        log = spark.read.format("delta").load(self.path) if exists else None
        found = [Raised(each, stored, log).of(rows, batch) for each in self.deviations.comparing()]
        try:
            news = reduce(DataFrame.unionByName, [each.entries for each in found])
            table.existing(news, self.path, self.layout, evolve=False)
            table.append(news, self.path, options, self.layout)
        finally:
            for each in found:
                each.release()

    def _require_apart(self) -> None:
        """Refuse tables of one path or one step."""
        for what, *given in zip(("path", "step"), *self.tables(), strict=True):
            twice = next((each for each in given if given.count(each) > 1), None)
            if twice is not None:
                raise ArgumentError(f"{what} is {twice!r} for two tables.", "one of its own each.")

    def _require_same_windows(self) -> None:
        windowed = self.windows.windowed
        window = windowed.window
        deviations = self.deviations
        if not isinstance(window, Tumbling):
            raise ArgumentError(
                f"the windows are {window!r}.", "tumbling ones, each of which has a past."
            )
        same = Deviations(
            window.size, offset=window.offset, zone=window.zone, rules=deviations.rules
        )
        if not same.slots.begin_as(deviations.slots):
            raise ArgumentError(
                f"the windows are {window!r}, and deviations are of size={deviations.size!r}, "
                f"offset={deviations.offset!r}, zone={deviations.zone!r}.",
                "the same size and offset; of a calendar's windows the same zone.",
            )
        if tuple(deviations.by) != tuple(windowed.by):
            raise ColumnError(
                f"deviations are by {', '.join(deviations.by) or 'nothing'}.",
                f"the keys of the windows: {', '.join(windowed.by) or 'none'}.",
            )
        require_free([*LOGGED, "window"], windowed.by, "by")
        for name, rule in deviations.rules.items():
            if rule.value not in windowed.aggs:
                raise ColumnError(
                    f"the rule {name!r} is of {rule.value!r}.",
                    f"an aggregate of the windows: {', '.join(windowed.aggs)}.",
                )


def windows_of(sink: object) -> Corrected | None:
    """Return what merges windows with unfinished aggregates in a sink; None where nothing does."""
    if isinstance(sink, Alarms):
        return sink.windows
    return sink if isinstance(sink, Corrected) else None
