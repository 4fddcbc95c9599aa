"""Delta's log as the protocol needs it: which batches a table has, and under which stamps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from delta.exceptions.base import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from pyspark.sql import SparkSession

from ..errors import ConflictError, TableError
from ..jvm import (
    TRANSACTION_RETENTION,
    DeltaState,
    Folder,
    Numbered,
    at_the_commit,
    delta_state,
    message,
    touch_transaction,
)
from .commit_file import commit_file, digest_of, number_in, restored, stamp_of
from .identity import NEVER
from .kept import REPLAY
from .options import CommitOptions
from .protocol import ATTEMPTS, Look
from .stamp import Stamp

CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
_FEW = 20
"""How many commits are read at most before Delta is asked, which runs a Spark job."""


@dataclass(frozen=True)
class _Known:
    """What a table's log said up to a version: the last number of an application id.

    `commit` is the hash of that version's commit, by which a restored table is noticed.
    """

    version: int
    number: int | None
    commit: str


_KNOWN: dict[tuple[str, str], _Known] = {}
"""By table id and application id. Delta finds its numbers by a Spark job, anew for each version;
the few commits since the version that is known here are read in milliseconds."""


class DeltaCommitLog:
    """The log of the Delta table at `path`.

    `write` makes one commit on the table with the options that it is given.
    """

    def __init__(
        self, spark: SparkSession, path: str, write: Callable[[CommitOptions], None]
    ) -> None:
        self.spark = spark
        self.path = path
        self.write = write
        self.state: DeltaState | None = None
        self._newest: bytes | None = None
        self._files: Folder | None = None

    def looked(self) -> DeltaCommitLog:
        """Look at the table, and return this log."""
        self.state = delta_state(self.spark, self.path)
        self._newest = None
        return self

    @property
    def id(self) -> str | None:
        """The table's id at the last look; None where there was no table."""
        state = self._looked_at()
        return None if state.version < 0 else state.table_id()

    @property
    def version(self) -> int:
        """The table's newest version at the last look; -1 where there was no table."""
        return self._looked_at().version

    def digest(self, version: int) -> str | None:
        """Return the hash of a version's commit; None where the log has it no longer."""
        content = self._content(self._looked_at(), version)
        return None if content is None else digest_of(content)

    def restores(self, since: int) -> dict[int, int | None]:
        """Return the commits after a version that put an older one back, and which one."""
        state = self._looked_at()
        found: dict[int, int | None] = {}
        for version in range(since + 1, state.version + 1):
            for older in restored(self._content(state, version) or b""):
                found[version] = older
        return found

    def writers(self) -> list[str]:
        """Return every application id that has written to the table."""
        return list(self._looked_at().transactions())

    def _looked_at(self) -> DeltaState:
        if self.state is None:
            self.state = delta_state(self.spark, self.path)
        return self.state

    def done(self, app_id: str) -> int | None:
        """Return the last number that the table has of an application id.

        Raises:
            TableError: for a table that forgets the numbers after some time.
        """
        state = self.looked()._looked_at()
        if state.version < 0:
            return None
        self.require_memory()
        key = (state.table_id(), app_id)
        newest = self._content(state, state.version)
        number = self._last_number(state, app_id, _KNOWN.get(key))
        if newest is not None:
            _KNOWN[key] = _Known(state.version, number, digest_of(newest))
        # A fence of an id that has written nothing yet is no batch.
        return None if number == NEVER else number

    def _last_number(self, state: DeltaState, app_id: str, known: _Known | None) -> int | None:
        """Return the last number out of the commits after the version that is known.

        Delta is asked where these commits are many, or no longer all there.
        """
        oldest = 0 if known is None else known.version
        if not 0 <= state.version - oldest <= _FEW:
            return state.transaction(app_id)
        for version in range(state.version, oldest - 1, -1):
            content = self._content(state, version)
            if content is None:
                return state.transaction(app_id)
            if known is not None and version == known.version:
                if digest_of(content) == known.commit:
                    return known.number
                # Another commit under that version: an older copy of the table was restored, and
                # went on from there.
                return state.transaction(app_id)
            number = number_in(content, app_id)
            if number is not None:
                return number
        return None

    def stamp(self, app_id: str, number: int) -> Stamp | None:
        """Return the stamp of the commit that bears this application id and number.

        A RESTORE leaves the numbers as they are and takes the rows: commits that one has undone
        are passed over.
        """
        state = self.state or delta_state(self.spark, self.path)
        version = state.version
        while version >= 0:
            content = self._content(state, version)
            if content is None:
                return None
            found = stamp_of(content)
            if found is not None and found.app_id == app_id and found.batch <= number:
                return found if found.batch == number else None
            back = next(iter(restored(content)), None)
            version = version - 1 if back is None else back
        return None

    def last_stamp(self, job: str, step: str) -> Stamp | None:
        """Return the newest stamp of a job's step, whatever the query; None where the log has none.

        A replay of late rows is no query of the job.
        """
        state = self._looked_at()
        for version in range(state.version, -1, -1):
            content = self._content(state, version)
            if content is None:
                return None
            found = stamp_of(content)
            if found is None or found.query == REPLAY:
                continue
            if (found.job, found.step) == (job, step):
                return found
        return None

    def fence(self, app_id: str, told: str) -> None:
        """Let whoever writes to the table under an application id, and is in the middle, fail.

        told: what the commit bears, which has no rows.
        """
        last = self.done(app_id)
        with CommitOptions.noted(self.spark, told):
            touch_transaction(self.spark, self.path, app_id, NEVER if last is None else last)

    def _content(self, state: DeltaState, version: int) -> bytes | None:
        """Return a version's commit, of which the newest is read once a look."""
        if version == state.version and self._newest is not None:
            return self._newest
        if self._files is None:
            self._files = Folder(self.spark, state.log_path)
        content = self._files.read(commit_file(version))
        if version == state.version:
            self._newest = content
        return content

    def require_memory(self) -> DeltaState:
        """Refuse a table that forgets which batches it holds; return it as it was looked at."""
        state = self._looked_at()
        kept = state.property(TRANSACTION_RETENTION)
        if kept is not None:
            raise TableError(
                f"{self.path} has {TRANSACTION_RETENTION} = {kept}: after that time it forgets "
                "which batches it holds.",
                "a table that never forgets them: the property is not set.",
                f"ALTER TABLE ... UNSET TBLPROPERTIES ('{TRANSACTION_RETENTION}')",
            )
        return state

    def commit(self, stamp: Stamp, look: Look | None = None) -> None:
        """Write the rows in one commit, under the stamp and the batch's number.

        look: called within Delta's transaction, right before its commit.

        Raises:
            ConflictError: where another writer's commit came between.
        """
        seen = self._looked_at()
        numbered = Numbered(seen.log_path, stamp.app_id, stamp.batch)

        def still_open() -> None:
            self._require_open(stamp, seen.version)
            if look is not None:
                look()

        try:
            with at_the_commit(self.spark, still_open) as next_bears:
                self.write(CommitOptions(stamp.text(), lambda: next_bears(numbered)))
        except CONFLICTS as error:
            raise self._conflict(stamp, message(error)) from error

    def _require_open(self, stamp: Stamp, seen: int) -> None:
        """Refuse a commit of a number that the table has got since it was looked at.

        Delta's transaction has begun: what is committed from now on is a conflict of its own.
        """
        if self.looked().version == seen:
            return
        last = self.done(stamp.app_id)
        if last is not None and last >= stamp.batch:
            raise self._conflict(stamp, f"batch {last} of {stamp.app_id} is there")

    def _conflict(self, stamp: Stamp, what: str) -> ConflictError:
        return ConflictError(
            f"{self.path}: batch {stamp.batch} met another writer's commit, {ATTEMPTS} times: "
            f"{what}",
            hint="let other writers (compaction, deletes) run between batches, or on other "
            "partitions.",
        )
