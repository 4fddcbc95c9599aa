"""What a running job writes down with each batch, and asks before each commit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Lock

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import Folder, read_bytes
from .batch import Batch
from .commit_file import commit_file
from .epochs import EpochFiles, require_no_rescaling
from .fence import claimed, require_newest
from .identity import NEVER, Identity, TableMark, plan_hash
from .kept import REPLAY, require_alone, require_kept, require_noted, require_own
from .logs import digest, lasting, read_lasting
from .once import untouched
from .origins import Backlog
from .stamp import Stamp, app_id
from .table_log import TableLog


class Ledger:
    """The identity of a checkpoint, kept by the driver that has claimed the checkpoint.

    steps: the path of each step's table, as the job has it now; of these alone a note is made.
    """

    def __init__(self, files: EpochFiles, identity: Identity, steps: Mapping[str, str]) -> None:
        self.files = files
        self.identity = identity
        self.plan = plan_hash(identity.plan)
        self._steps = steps
        self._asked: set[str] = set()
        self._unfenced: set[str] = set()
        self._plain: dict[str, int] = {}
        self._logs: dict[str, Folder] = {}
        self._own: dict[str, TableMark] = {}
        self._complete = False
        self._writing = Lock()

    @classmethod
    def claimed(cls, files: EpochFiles, identity: Identity, steps: Mapping[str, str]) -> Ledger:
        """Claim the checkpoint's next epoch, and write the identity down under it."""
        epoch = claimed(files)
        # A rescale that began since the checkpoint was looked at is noted under an older epoch.
        require_no_rescaling(files.read(), files.path)
        mine = replace(identity, epoch=epoch, ended=False)
        files.write(mine)
        files.tidy(epoch)
        return cls(files, mine, steps)

    def reads(self, streams: Mapping[str, int]) -> None:
        """Note of how many streams each input is made, which a checkpoint is bound to.

        Raises:
            CheckpointError: for another number than that of the batches that are written.
        """
        noted = self.identity.streams
        other = [name for name in streams if noted.get(name, streams[name]) != streams[name]]
        if other and self.identity.batch > NEVER:
            told = "; ".join(f"{name} of {noted[name]}, now of {streams[name]}" for name in other)
            raise CheckpointError(
                f"{self.files.path} was written with other streams: {told}.",
                "as many streams of an input, each with a watermark of its own, as it began with.",
                "the watermarks= that there were; for others a new checkpoint and new tables. "
                "Nothing was written.",
            )
        self.identity = replace(self.identity, streams=dict(streams))

    def plans(self, backlog: Backlog) -> None:
        """Note what a batch before the stream reads, before anything of it is written."""
        self.require_newest()
        with self._writing:
            self._write(replace(self.identity, backlog=backlog))

    def worked_off(self, latest: int | None) -> None:
        """Note that the batch before the stream is in all of its tables."""
        self.require_newest()
        with self._writing:
            tables = {**self.identity.tables, **self._own}
            self._write(replace(self.identity, tables=tables, latest=latest))
            self._own = {}

    def begins(self, number: int) -> None:
        """Take over the batches that an earlier driver has finished since this one was started.

        Raises:
            CheckpointError: for a batch that does not follow the last one that is noted.
        """
        if number <= self.identity.batch + 1:
            self._note_files()
            return
        found = self.files.read() or self.identity
        if number > found.batch + 1:
            raise CheckpointError(
                f"{self.files.path} goes on with batch {number}, and the last batch that is noted "
                f"is {found.batch}.",
                "batches one after the other.",
                "start the job again; nothing was written.",
            )
        self.identity = found.taken_up(self.identity)

    def _note_files(self) -> None:
        """Note the files that stay, once Spark has written them: before the first batch."""
        if not self.identity.files and (found := self._lasting()):
            with self._writing:
                self._write(replace(self.identity, files=found))

    def _lasting(self) -> dict[str, str]:
        return lasting(read_lasting(self.files.spark, self.files.path))

    def require_newest(self) -> None:
        """Refuse to go on where a later driver has claimed the checkpoint."""
        require_newest(self.files, self.identity.epoch)

    def require_kept(self, log: TableLog, stamp: Stamp) -> None:
        """Refuse a table that is not the one which the checkpoint knows."""
        mark = self._mark(stamp.step)
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
            self._own[stamp.step] = TableMark(path=path, id=log.id, version=version, commit=commit)

    def require_tables(self, spark: SparkSession) -> None:
        """Refuse tables that were deleted, replaced or put back since the last batch.

        Asked before a batch writes anything: a sink reads its tables before it commits.
        """
        for step in self.identity.tables:
            path = self._steps.get(step)
            mark = self._mark(step)
            if path is not None and mark is not None and not self._as_noted(spark, path, mark):
                self._require_kept(step, mark, untouched(spark, path))
        for step in self._unfenced - self.identity.tables.keys() - self._own.keys():
            self._require_noted(step, untouched(spark, self._steps[step]))

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

    def _require_noted(self, step: str, log: TableLog) -> None:
        identity = self.identity
        if log.id is not None and identity.query is not None:
            last = log.done(app_id(identity.job, identity.written_as(identity.query), step))
            require_noted(step, log.path, last, identity.finished)

    def finished(self, batch: Batch, query: str) -> None:
        """Write down that a batch is in all of its tables, before Spark notes it as committed.

        A driver that another has taken the place of must not let Spark note it: the other's
        identity would not know of the commit.
        """
        self.require_newest()
        if not self._complete:
            self._note_found(batch)
        number = batch.number - self.identity.base
        with self._writing:
            identity = self.identity.after(
                number,
                batch.offsets_hash,
                self._own,
                query=query,
                latest=batch.latest,
                topics=batch.topics,
                newest=batch.newest,
            )
            if not self._complete:
                # What Spark writes at a start is there with its first batch.
                identity = replace(identity, files=self._lasting())
                self._complete = True
            self._write(self._with_commit(identity, number - 1))
            self._own = {}

    def _note_found(self, batch: Batch) -> None:
        """Note the tables that have a start's first batch already, and that its sink did not ask.

        A driver that was killed before it noted the batch has written them. A sink that finds the
        whole batch in its tables may leave it at that.
        """
        for step in self._steps.keys() - self._own.keys():
            log = self._log(self._steps[step])
            stamp = Stamp.of(batch, step, {})
            if log.done(stamp.app_id) != batch.number:
                continue
            found = log.stamp(stamp.app_id, batch.number)
            if found is not None:
                require_alone(log.path, [found], batch=stamp.batch, offsets=stamp.offsets)
                self.require_kept(log, stamp)
                self.note(log, stamp)

    def _log(self, path: str) -> TableLog:
        return untouched(self.files.spark, path)

    def fence(self, tables: Mapping[str, TableLog], query: str) -> None:
        """Fence off an earlier driver that may have a commit to one of the tables under way.

        It has looked whether a later start is there before this one has claimed its epoch. A table
        that is not there yet cannot be fenced: it is looked at before each batch until it is noted.
        """
        job = self.identity.job
        epoch = self.identity.epoch
        for step, log in tables.items():
            if log.id is not None:
                told = json.dumps({"tidegate": "fence", "step": step, "epoch": epoch})
                log.fence(app_id(job, query, step), told)
            elif step in self._steps:
                self._unfenced.add(step)

    def ended(self) -> None:
        """Note that this driver writes no more, so that the next one has nothing to fence off."""
        with self._writing, suppress(OSError):
            self._write(replace(self.identity, ended=True))

    def committed(self) -> None:
        """Note the last batch's file in the log of commits, once Spark has written it.

        A file system that fails now is left for the next batch to tell, which notes it too.
        """
        with self._writing, suppress(OSError):
            identity = self._with_commit(self.identity, self.identity.batch)
            if identity != self.identity:
                self._write(identity)

    def _with_commit(self, identity: Identity, number: int) -> Identity:
        if number < 0 or number in identity.commits:
            return identity
        content = read_bytes(self.files.spark, f"{self.files.path}/commits/{number}")
        return identity if not content else identity.committed(number, digest(content))

    def _write(self, identity: Identity) -> None:
        self.files.write(identity)
        self.identity = identity

    def _mark(self, step: str) -> TableMark | None:
        return self._own.get(step) or self.identity.tables.get(step)
