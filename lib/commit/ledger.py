"""What a running job writes down with each batch, and asks before each commit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Lock

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import read_bytes
from .batch import Batch
from .epochs import EpochFiles, require_no_rescaling
from .fence import claimed, require_newest
from .identity import NEVER, Identity, plan_hash
from .known_tables import KnownTables
from .logs import digest, lasting, read_lasting
from .origins import Backlog
from .stamp import Stamp
from .table_log import TableLog


class Ledger:
    """The identity of a checkpoint, kept by the driver that has claimed the checkpoint.

    steps: the path of each step's table, as the job has it now.
    """

    def __init__(self, files: EpochFiles, identity: Identity, steps: Mapping[str, str]) -> None:
        self.files = files
        self.identity = identity
        self.plan = plan_hash(identity.plan)
        self.tables = KnownTables(files, steps)
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
            tables = {**self.identity.tables, **self.tables.noted}
            self._write(replace(self.identity, tables=tables, latest=latest))
            self.tables.noted = {}

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
        self.tables.require_kept(self.identity, log, stamp)

    def require_tables(self, spark: SparkSession) -> None:
        """Refuse tables that were deleted, replaced or put back since the last batch.

        Asked before a batch writes anything: a sink reads its tables before it commits.
        """
        self.tables.require_all(self.identity, spark)

    def note(self, log: TableLog, stamp: Stamp) -> None:
        """Note the table as it is with the commit."""
        self.tables.note(log, stamp)

    def fence(self, tables: Mapping[str, TableLog], query: str) -> None:
        """Fence off an earlier driver that may have a commit to one of the tables under way."""
        self.tables.fence(self.identity, tables, query)

    def finished(self, batch: Batch, query: str) -> None:
        """Write down that a batch is in all of its tables, before Spark notes it as committed.

        A driver that another has taken the place of must not let Spark note it: the other's
        identity would not know of the commit.
        """
        self.require_newest()
        first = not self._complete
        if first:
            self.tables.note_found(self.identity, batch)
        number = batch.number - self.identity.base
        with self._writing:
            identity = self.identity.after(
                number,
                batch.offsets_hash,
                self.tables.noted,
                query=query,
                latest=batch.latest,
                topics=batch.topics,
                newest=batch.newest,
            )
            if first:
                # What Spark writes at a start is there with its first batch.
                identity = replace(identity, files=self._lasting())
            self._write(self._with_commit(identity, number - 1))
            self.tables.noted = {}
            self._complete = True

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
