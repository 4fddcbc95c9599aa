"""Documents meet the standing queries of their time, which come and go by a changelog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta

from pyspark.sql import DataFrame

from ..columns import require, require_storable
from ..commit.batch import Batch
from ..commit.layout import ANY, Layout
from ..commit.outcome import Outcome
from ..durations import microseconds
from ..errors import ColumnTypeError
from ..frames import ROWS, named
from ..patterns import SearchFields, matches
from ._changelog import finished, is_due, passed
from ._targets import require_apart, require_target
from ._waiting_events import WAITING, WaitingEvents
from .append import Append
from .version_table import VersionTable


@dataclass(frozen=True)
class Matched:
    """Write, exactly once, each document with each standing query that it matches at its time.

    The rule is that of `TemporalJoin`. A document waits until the changelog of the queries has
    passed its time: until the newest change, of the slowest of its partitions, is more than
    `lateness` later than the document, or the newest document more than `lag`. It then meets the
    version of each query that was valid at its time: a query that is added at an instant sees the
    documents from that instant on. As long as no change is more than `lateness` behind the newest
    of its partition, and none further behind the documents than `lag`, rows are those of `matches`
    over all documents and the whole history, however the topics were cut into batches. A change
    that is later still reaches the documents that wait and those that come after it, and no others:
    rows are not re-issued.

    State, in tables: all versions of the queries, and the documents that wait. Four tables with
    the target; versions, target and waiting documents are written in this order, each under its own
    stamp. A document that matches nothing leaves no row, and a batch without a match does not
    write the target.

    Args:
        path: the target: the documents' columns, `query_id`, and the version: `valid_from`, and
            its record's `query_partition` and `query_offset`.
        fields: what the queries speak of; those of the `query_format` that reads them.
        versions: the queries' local copy, as `standing_versions` returns it.
        waiting: the table of the documents that wait.
        lateness: how far a change may be behind the newest one of its partition.
        lag: how far the changelog can be behind the documents. None holds documents back until the
            next change of a query in every partition that had one.
        documents, changes: the names of the job's inputs.
        time: the documents' time column.
        layout: how the target is laid out.

    Raises:
        ArgumentError, ColumnTypeError: at construction; and for a batch without these inputs.
        ColumnError, TableError, ReplayMismatchError, ConflictError: for a batch, as `TemporalJoin`.

    >>> versions = standing_versions("/data/queries")
    >>> sink = Matched("/data/matches", fields=SearchFields(text="body"), versions=versions,
    ...                waiting="/data/waiting", lateness="10 seconds", lag="1 minute")
    >>> [step for _, step in sink.tables()]
    ['versions', 'append', 'waiting']
    """

    path: str
    _: KW_ONLY
    fields: SearchFields
    versions: VersionTable
    waiting: str
    lateness: str | timedelta
    lag: str | timedelta | None
    documents: str = "documents"
    changes: str = "queries"
    time: str = "event_time"
    step: str = "append"
    layout: Layout = ANY

    def __post_init__(self) -> None:
        require_target(self.path, self.step, self.layout)
        require_target(self.waiting, WAITING)
        if not isinstance(self.fields, SearchFields):
            raise ColumnTypeError(f"fields is {self.fields!r}.", "SearchFields.")
        require_apart(self.tables())
        microseconds(self.lateness, "lateness", least=0)
        if self.lag is not None:
            microseconds(self.lag, "lag", least=0)

    def tables(self) -> list[tuple[str, str]]:
        """List the tables: versions, target, waiting documents."""
        versions = (self.versions.path, self.versions.step)
        return [versions, (self.path, self.step), (self.waiting, WAITING)]

    def write(
        self, frames: Mapping[str, DataFrame], batch: Batch, *, rows_out: int | None = None
    ) -> Outcome:
        """Take up the batch's changes and documents, and write what is decided by now."""
        changes = named(frames, self.changes, "changes")
        documents = named(frames, self.documents, "documents")
        require(documents, [self.time], "time")
        self.fields.require(documents)
        require_storable(documents.columns, f"the input {self.documents}")
        spark = documents.sparkSession
        # A batch without a match leaves no commit in the target, so the target cannot tell.
        versions, _, last = self.tables()
        if finished(spark, [versions, last], batch):
            return "skipped"

        self.versions.add(changes, batch)
        waiting = WaitingEvents(self.waiting)
        arrived = waiting.arrived(documents, batch)
        held = waiting.held(arrived)
        newest = self.versions.newest(spark)
        both = [arrived, held]
        instant = passed(newest, both, self.time, lateness=self.lateness, lag=self.lag)
        if instant is None:
            waiting.store(arrived, batch, [])
            return "written"
        return self._decide(arrived, held, instant, batch)

    def _decide(self, arrived: DataFrame, held: DataFrame, instant: int, batch: Batch) -> Outcome:
        """Write the matches of the documents that are due by now, and store those that wait on."""
        waiting = WaitingEvents(self.waiting)
        due = is_due(self.time, instant)
        opened = waiting.opened(held, due)
        candidates = arrived.unionByName(waiting.of(held, opened))
        outcome = self._issue(waiting.plain(candidates.where(due)), batch)
        waiting.store(candidates.where(~due), batch, opened)
        return outcome

    def _issue(self, due: DataFrame, batch: Batch) -> Outcome:
        """Append the matches of the documents that are due, if there are any."""
        if not self.versions.exists(due.sparkSession):
            return "written"
        found = matches(
            due,
            self.versions.read(due.sparkSession),
            self.fields,
            as_of=self.time,
            on=self.versions.keys,
            order=self.versions.order,
        ).persist()
        try:
            count = found.count()
            if not count:
                return "written"
            target = Append(self.path, layout=self.layout, step=self.step)
            return target.write({ROWS: found}, batch, rows_out=count)
        finally:
            found.unpersist()


def standing_versions(path: str) -> VersionTable:
    """Return the local copy of standing queries, as `query_format` reads their changelog.

    >>> standing_versions("/data/queries").keys
    ['query_id']
    """
    return VersionTable(
        path,
        on="query_id",
        order=["query_offset"],
        partition=["query_partition"],
        deleted="deleted",
    )
