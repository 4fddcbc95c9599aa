"""What the log of a table says: which batches the table has, and under which stamps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from pyspark.sql import SparkSession

from ..errors import TableError
from ..jvm import (
    TRANSACTION_RETENTION,
    DeltaState,
    Folder,
    commit_file,
    delta_state,
    touch_transaction,
)
from .commit_file import digest_of, restored, stamp_of
from .identity import NEVER
from .kept import REPLAY
from .numbers import last_number
from .options import CommitOptions
from .stamp import Stamp


class TableLog:
    """The log of the Delta table at `path`, as it was at the last look."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark = spark
        self.path = path
        self.state: DeltaState | None = None
        self._numbers: dict[str, int] = {}
        self._newest: bytes | None = None
        self._files: Folder | None = None

    def looked(self) -> Self:
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

    def stamps(self, app_id: str, since: int) -> list[Stamp]:
        """Return the stamps of an application id in the commits after a version."""
        state = self._looked_at()
        contents = [self._content(state, at) or b"" for at in range(since + 1, state.version + 1)]
        found = [stamp for stamp in map(stamp_of, contents) if stamp is not None]
        return [stamp for stamp in found if stamp.app_id == app_id]

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
        self._numbers[app_id] = NEVER
        if state.version < 0:
            return None
        self.require_memory()
        number = last_number(state, app_id, lambda version: self._content(state, version))
        # A fence of an id that has written nothing yet is no batch.
        self._numbers[app_id] = number if number is not None else NEVER
        return None if number == NEVER else number

    def stamp(self, app_id: str, number: int) -> Stamp | None:
        """Return the stamp of the commit that bears this application id and number."""
        for _, found in self.standing():
            if found.app_id == app_id and found.batch <= number:
                return found if found.batch == number else None
        return None

    def standing(self) -> Iterator[tuple[int, Stamp]]:
        """Return the versions of the table that batches made, each with its stamp, newest first.

        Commits that a RESTORE has undone are passed over. The last one is the oldest that the log
        still has.
        """
        for version, content in self._commits():
            found = stamp_of(content)
            if found is not None:
                yield version, found

    def last_stamp(self, job: str, step: str) -> Stamp | None:
        """Return the newest stamp of a job's step, whatever the query; None where the log has none.

        A replay of late rows is no query of the job; commits that a RESTORE has undone are passed
        over.
        """
        for _, found in self.standing():
            if found.query != REPLAY and (found.job, found.step) == (job, step):
                return found
        return None

    def _commits(self) -> Iterator[tuple[int, bytes]]:
        """Return the commits whose rows the table has, the newest first, as far as they are known.

        Each stands behind its version.

        A RESTORE leaves the numbers of batches as they are, and takes the rows. Of one that does
        not say to which version it went, nothing before it is known.
        """
        state = self._looked_at()
        version: int | None = state.version
        while version is not None and version >= 0:
            content = self._content(state, version)
            if content is None:
                return
            yield version, content
            back = list(restored(content))
            version = back[0] if back else version - 1

    def fence(self, app_id: str, told: str) -> None:
        """Make a commit under an application id fail that another driver may have under way.

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
