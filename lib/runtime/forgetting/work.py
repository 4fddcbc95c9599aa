"""What is to be done below one root, table by table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from ...errors import TableError
from ...jvm import DeltaState, delta_state
from ...sketches.bloom_table import BLOCK, FILTER
from .claims import Claims, query_of
from .left import left
from .outside import outside
from .person import Person
from .places import Found, Root
from .purge import purge, unfinished
from .replayed import merged_until
from .report import Left, Outside, TableReport
from .rows import count, delete
from .scan import Scan, scan
from .sketched import sketches_left
from .states import in_states

_PURGED = (
    "The rows were deleted; the files and the log entries that held the person were removed, and "
    "with them the table's earlier versions.",
    "The rows would be deleted, and every file and log entry of earlier versions be removed.",
)
_REMADE = (
    "A Bloom filter, of which a guess at the person's key may be confirmed, was deleted; the next "
    "batch of its job makes it anew from the target.",
    "A Bloom filter would be deleted, and made anew from the target by its job's next batch.",
)


@dataclass(frozen=True)
class Work:
    """A root, what is there, and whom to forget."""

    spark: SparkSession
    root: Root
    found: Found
    person: Person
    claims: Claims

    @property
    def paths(self) -> list[str]:
        """The tables' paths."""
        return [self.root.of(name) for name in self.found.tables]

    def scan(self, *, again: bool = False) -> Scan:
        """Read all files, as they are now where it is done again."""
        found = self.root.find() if again else self.found
        return scan(self.root, found.files, self.person)

    def require_deletable(self) -> None:
        """Refuse tables that take no DELETE; raises TableError."""
        for name in self.found.tables:
            path = self.root.of(name)
            kept = (self._state(name).property("delta.appendOnly") or "").lower() == "true"
            if kept and self._rows(name):
                raise TableError(
                    f"{path} is append-only, and has rows of the person.",
                    "tables of which rows can be deleted.",
                    f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.appendOnly' = 'false'), "
                    "and 'true' again afterwards.",
                )

    def forget(self, seen: Scan, *, dry_run: bool) -> list[TableReport]:
        """Forget the person in each table that tells of the person; return what was found."""
        looked = {name: self._found(name, seen, dry_run) for name in self.found.tables}
        found = {name: each for name, each in looked.items() if each is not None}
        filters = self._filters(found)
        merged = {} if dry_run else {name: self._merged(name) for name in found}
        told = []
        # The filters go first: what is found in the other tables tells which filters they are.
        for name in filters:
            if not dry_run:
                self.claims.require()
                self.root.delete_folder(name)
            path = self.root.of(name)
            told.append(TableReport(path=path, rows=0, files=0, log=0, done=_REMADE[dry_run]))
        for name, each in found.items():
            if name not in filters:
                if not dry_run:
                    self._forget(name, each.rows, merged[name])
                told.append(each)
        return told

    def left(self, seen: Scan, *, dry_run: bool) -> list[Left]:
        """Tell what a scan and the states of queries have of the person."""
        states = in_states(self.spark, self.root, self.found, self.person)
        rows = left(self.root, seen, tables_too=not dry_run)
        return [*rows, *states, *sketches_left(self.root, seen.sketches)]

    def outside(self) -> list[Outside]:
        """Return where the jobs of the tables have sent rows to."""
        return list(outside(self.spark, self.paths))

    def _found(self, name: str, seen: Scan, dry_run: bool) -> TableReport | None:
        rows = self._rows(name)
        files = {hit.file for hit in seen.of(name, ["rows"])}
        log = {hit.file for hit in seen.of(name, ["log"])}
        if not (rows or files or log or unfinished(self._state(name))):
            return None
        return TableReport(
            path=self.root.of(name),
            rows=rows,
            files=len(files),
            log=len(log),
            done=_PURGED[dry_run],
        )

    def _filters(self, found: Mapping[str, object]) -> list[str]:
        """Return the filters of FirstSeen that the jobs of some tables keep."""
        own = {query for name in found for query in map(query_of, self._state(name).transactions())}
        kept = [
            name
            for name in self.found.tables
            if set(self._state(name).schema().fieldNames()) == {BLOCK, FILTER}
        ]
        return [
            name
            for name in kept
            if any(
                each.endswith("/seen") and query_of(each) in own
                for each in self._state(name).transactions()
            )
        ]

    def _rows(self, name: str) -> int:
        own = self.person.within(self.root.of(name))
        if own is None:
            return 0
        return count(self.spark.read.format("delta").load(self.root.of(name)), own)

    def _merged(self, name: str) -> int | None:
        """Return what replays of late rows have merged of a table, before it is changed."""
        # Where a purge was begun, that is noted in the table.
        begun = unfinished(self._state(name))
        return None if begun else merged_until(self.spark, self.root.of(name), self.paths)

    def _forget(self, name: str, rows: int, merged: int | None) -> None:
        path = self.root.of(name)
        own = self.person.within(path)
        if rows and own is not None:
            delete(self.spark, path, own, self.claims.require)
        purge(self.spark, self.root, name, self.claims.require, merged)

    def _state(self, name: str) -> DeltaState:
        return delta_state(self.spark, self.root.of(name))
