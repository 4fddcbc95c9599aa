"""Match documents against stored queries that a changelog adds, changes and deletes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import ClassVar

from pyspark.sql import DataFrame

from ...columns import require_instance
from ...commit.batch import CommitContext
from ...commit.protocol import Outcome
from ...delta.table_layout import ANY_LAYOUT, TableLayout
from ...patterns import SearchFields, percolate
from .versioned_table import PENDING_BATCH, ChangelogSink, VersionedTable


@dataclass(frozen=True)
class Percolator(ChangelogSink):
    """Write each document with each stored query that matches it at its event time, exactly once.

    A document waits until the changelog of the queries has passed its time, as an event of a
    `TemporalJoin` does. It is then matched against the version of each query at its time; a query
    that is added at an instant matches documents from that instant. As long as changes are within
    `watermark_delay` and `max_changelog_lag`, the rows equal `percolate` over all documents and the
    complete history, independently of batch boundaries.

    State and tables: as of a `TemporalJoin` without unmatched events. A document without a match
    leaves no row, and a batch without a match does not write the target.

    Args:
        path: the target: the columns of the documents, `query_id` and the version: `valid_from`,
            and the `query_partition` and `query_offset` of its record.
        fields: the fields that queries search, as in the `query_format` that reads them.
        versions: the local copy of the queries, as `read_query_versions` returns it.
        pending_table: path of the table of pending documents.
        watermark_delay, max_changelog_lag: as for `TemporalJoin`, but the latter is required. With
            None, documents wait for the next change in every partition that had one.
        documents, changes: names of the job's inputs.
        time: the time column of the documents.
        output, layout: as for `Append`.

    Raises:
        ArgumentError, ColumnTypeError: at construction; for a batch without these inputs.
        ColumnError, TableError, TableMismatchError, ConflictError: for a batch, as `TemporalJoin`.

    >>> from tidegate.patterns import SearchFields
    >>> sink = Percolator(
    ...     "/data/matches", fields=SearchFields(text="body"),
    ...     versions=read_query_versions("/data/queries"), pending_table="/data/pending",
    ...     watermark_delay="10 seconds", max_changelog_lag="1 minute",
    ... )
    >>> [output for _, output in sink.tables()]
    ['versions', 'append', 'waiting']
    """

    plan_name: ClassVar[str] = "percolator"
    events_argument: ClassVar[str] = "documents"
    path: str
    _: KW_ONLY
    fields: SearchFields
    versions: VersionedTable
    pending_table: str
    watermark_delay: str | timedelta
    max_changelog_lag: str | timedelta | None
    documents: str = "documents"
    changes: str = "queries"
    time: str = "event_time"
    output: str = "append"
    layout: TableLayout = ANY_LAYOUT

    def __post_init__(self) -> None:
        require_instance(self.fields, "fields", SearchFields)
        require_instance(self.versions, "versions", VersionedTable, "read_query_versions(...)")
        self._require_valid()

    def _require_events(self, events: DataFrame) -> None:
        self.fields.require_documents(events)

    @contextmanager
    def _process_due(
        self, due: DataFrame, instant: int, batch: CommitContext
    ) -> Iterator[tuple[Outcome, None]]:
        spark, versions = due.sparkSession, self.versions
        if not versions.exists(spark):
            yield "written", None
            return
        match_rows = percolate(
            due.drop(PENDING_BATCH),
            versions.read(spark),
            self.fields,
            as_of=self.time,
            query_key=versions.keys,
            order=versions.order,
        ).persist()
        try:
            count = match_rows.count()
            yield self._write_target(match_rows, count, batch) if count else "written", None
        finally:
            match_rows.unpersist()


def read_query_versions(path: str) -> VersionedTable:
    """Declare the table in which a `Percolator` stores the versions of its queries.

    >>> read_query_versions("/data/queries").keys
    ['query_id']
    """
    offset, partition = ["query_offset"], ["query_partition"]
    return VersionedTable(
        path, key="query_id", order=offset, partition=partition, deleted="deleted"
    )
