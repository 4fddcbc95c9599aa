"""The tables of a job, as the identity of its checkpoint knows them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import SparkSession

from ..jvm import Folder, commit_file
from .batch import Batch
from .epochs import EpochFiles
from .identity import Identity, TableMark
from .kept import REPLAY, require_alone, require_kept, require_noted, require_own
from .logs import digest
from .once import untouched
from .stamp import Stamp, app_id
from .table_log import TableLog


class KnownTables:
    """What a driver knows of the tables that it writes, and asks of them before each commit.

    steps: the path of each step's table, as the job has it now; of these alone a note is made.
    """

    def __init__(self, files: EpochFiles, steps: Mapping[str, str]) -> None:
        self.noted: dict[str, TableMark] = {}
        """By step: each table as this driver's last commit left it, until the identity has it."""
        self._files = files
        self._steps = steps
        self._asked: set[str] = set()
        self._unfenced: set[str] = set()
        self._plain: dict[str, int] = {}
        self._logs: dict[str, Folder] = {}

    def require_kept(self, identity: Identity, log: TableLog, stamp: Stamp) -> None:
        """Refuse a table that is not the one which the checkpoint knows."""
        mark = self._mark(identity, stamp.step)
        if mark is not None:
            since = max(mark.version, self._plain.get(stamp.step, 0))
            found = log.stamps(stamp.app_id, since)
            require_alone(log.path, found, batch=stamp.batch, run=stamp.run)
            self._require_kept(stamp.step, mark, log)
        elif log.id is not None and stamp.step not in self._asked and stamp.query != REPLAY:
            require_own(stamp.step, stamp.job, stamp.query, log)
            self._asked.add(stamp.step)

    def _require_kept(self, step: str, mark: TableMark, log: TableLog) -> None:
        # Other writers' commits are read once, however long a table gets none of this job's.
        plain = max(mark.version, self._plain.get(step, 0))
        restores = log.restores(plain) if log.version > plain else {}
        require_kept(step, mark, log, restores)
        if not restores:
            self._plain[step] = log.version

    def note(self, log: TableLog, stamp: Stamp) -> None:
        """Note the table as it is with the commit."""
        if stamp.step not in self._steps:
            return
        path, version, commit = log.path, log.version, log.digest(log.version)
        if log.id is not None and commit is not None:
            self.noted[stamp.step] = TableMark(path=path, id=log.id, version=version, commit=commit)

    def require_all(self, identity: Identity, spark: SparkSession) -> None:
        """Refuse tables that were deleted, replaced or put back since the last batch.

        Asked before a batch writes anything: a sink reads its tables before it commits.
        """
        for step in identity.tables:
            path = self._steps.get(step)
            mark = self._mark(identity, step)
            if path is not None and mark is not None and not self._as_noted(spark, path, mark):
                self._require_kept(step, mark, untouched(spark, path))
        for step in self._unfenced - identity.tables.keys() - self.noted.keys():
            self._require_noted(identity, step, untouched(spark, self._steps[step]))

    def _as_noted(self, spark: SparkSession, path: str, mark: TableMark) -> bool:
        """Return whether a table's log ends with the commit that is noted, with no other after it.

        It is then the same table, and Delta, which lists its log, need not be asked. A table of
        which that cannot be said may be in order all the same.
        """
        if path not in self._logs:
            self._logs[path] = Folder(spark, f"{path}/_delta_log")
        log = self._logs[path]
        commit = log.read(commit_file(mark.version))
        if commit is None or digest(commit) != mark.commit:
            return False
        return log.read(commit_file(mark.version + 1)) is None

    def _require_noted(self, identity: Identity, step: str, log: TableLog) -> None:
        if log.id is not None and identity.query is not None:
            last = log.done(app_id(identity.job, identity.written_as(identity.query), step))
            require_noted(step, log.path, last, identity.finished)

    def note_found(self, identity: Identity, batch: Batch) -> None:
        """Note the tables that have a start's first batch already, and that its sink did not ask.

        A driver that was killed before it noted the batch has written them. A sink that finds the
        whole batch in its tables may leave it at that.
        """
        for step in self._steps.keys() - self.noted.keys():
            log = self._log(self._steps[step])
            stamp = Stamp.of(batch, step, {})
            if log.done(stamp.app_id) != batch.number:
                continue
            found = log.stamp(stamp.app_id, batch.number)
            if found is not None:
                require_alone(log.path, [found], batch=stamp.batch, offsets=stamp.offsets)
                self.require_kept(identity, log, stamp)
                self.note(log, stamp)

    def _log(self, path: str) -> TableLog:
        return untouched(self._files.spark, path)

    def fence(self, identity: Identity, tables: Mapping[str, TableLog], query: str) -> None:
        """Fence off an earlier driver that may have a commit to one of the tables under way.

        It has looked whether a later start is there before this one has claimed its epoch. A table
        that is not there yet cannot be fenced: it is looked at before each batch until it is noted.
        """
        for step, log in tables.items():
            if log.id is not None:
                told = json.dumps({"tidegate": "fence", "step": step, "epoch": identity.epoch})
                log.fence(app_id(identity.job, query, step), told)
            elif step in self._steps:
                self._unfenced.add(step)

    def _mark(self, identity: Identity, step: str) -> TableMark | None:
        return self.noted.get(step) or identity.tables.get(step)
