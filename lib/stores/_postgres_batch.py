"""One batch into a table of PostgreSQL, within a transaction that is open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import ReplayMismatchError, StoreError, TableError
from .store import DELETED, POSITION, Applied

if TYPE_CHECKING:
    from pg8000.native import Connection

NOTES = "tidegate_batches"
"""The table, in the schema of the target, that has the last batch of each target."""
_INCOMING = "pg_temp.tidegate_incoming"
LONGEST_NAME = 63
"""In bytes; PostgreSQL cuts longer ones off."""


@dataclass(frozen=True)
class Batch:
    """What a batch's rows are, and where they go.

    table: as the user names it. shown: what errors call it. columns: PostgreSQL's type of each.
    """

    server: Connection
    table: str
    shown: str
    columns: Mapping[str, str]
    keys: Sequence[str]

    def apply(self, lines: Iterable[bytes], told: Applied) -> None:
        """Apply the lines of a batch, as COPY reads them, and note the batch; once."""
        self._wait()
        self._make()
        if self._has(told):
            return
        names = ", ".join(map(_name, self.columns))
        keys = ", ".join(map(_name, self.keys))
        self.server.run(
            f"CREATE TEMP TABLE {_INCOMING} ON COMMIT DROP AS "
            f"SELECT {names} FROM {self._whole} WITH NO DATA"
        )
        self.server.run(
            f"COPY {_INCOMING} ({names}) FROM STDIN WITH (ENCODING 'UTF8')", stream=lines
        )
        newer = f"old.{_name(POSITION)} <= EXCLUDED.{_name(POSITION)}"
        changed = ", ".join(f"{_name(each)} = EXCLUDED.{_name(each)}" for each in self.columns)
        self.server.run(
            f"INSERT INTO {self._whole} AS old ({names}) SELECT {names} FROM {_INCOMING} "
            f"ON CONFLICT ({keys}) DO UPDATE SET {changed} WHERE {newer}"
        )
        self.server.run(
            f"UPDATE {self._notes} SET batch = :batch, offsets = :offsets, applied_at = now() "
            "WHERE target = :target",
            batch=told.batch,
            offsets=told.offsets,
            target=self._target,
        )

    @property
    def _target(self) -> str:
        """What the notes call the table, which has the same in two parts and in one."""
        return self.table.rpartition(".")[2]

    @cached_property
    def _schema(self) -> str:
        """The schema that has the table, or is to have it: one name has one place in a batch."""
        schema, _, _ = self.table.rpartition(".")
        if schema:
            return schema
        ((found,),) = self.server.run(
            "SELECT coalesce((SELECT nspname FROM pg_class JOIN pg_namespace ON "
            "pg_namespace.oid = relnamespace WHERE pg_class.oid = to_regclass(:t)), "
            "current_schema())::text",
            t=_name(self._target),
        )
        if found is None:
            raise StoreError(
                f"{self.shown} has no schema, and the user's search path names none that there is.",
                hint="name the schema in the table: schema.table.",
            )
        return str(found)

    @property
    def _whole(self) -> str:
        return f"{_name(self._schema)}.{_name(self._target)}"

    @property
    def _notes(self) -> str:
        return f"{_name(self._schema)}.{_name(NOTES)}"

    def _wait(self) -> None:
        """Wait until no other batch of a table of this name is under way."""
        self.server.run(
            "SELECT pg_advisory_xact_lock(hashtext('tidegate'), hashtext(:t))", t=self._target
        )

    def _make(self) -> None:
        """Make the two tables where they are missing; refuse a target with other columns."""
        self.server.run(
            f"CREATE TABLE IF NOT EXISTS {self._notes} (target text PRIMARY KEY, sender text NOT "
            "NULL, batch bigint NOT NULL, offsets text NOT NULL, "
            "applied_at timestamp with time zone NOT NULL)"
        )
        found = self.server.run(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute "
            "WHERE attrelid = to_regclass(:t) AND attnum > 0 AND NOT attisdropped",
            t=self._whole,
        )
        if not found:
            self._require_no_note()
            needed = {*self.keys, POSITION, DELETED}
            described = [
                f"{_name(name)} {kind}{' NOT NULL' if name in needed else ''}"
                for name, kind in self.columns.items()
            ]
            key = f"PRIMARY KEY ({', '.join(map(_name, self.keys))})"
            self.server.run(f"CREATE TABLE {self._whole} ({', '.join([*described, key])})")
            return
        there = {str(name): str(kind) for name, kind, _ in found}
        unlike = [
            f"{name} {kind}" for name, kind in self.columns.items() if there.get(name) != kind
        ]
        nullable = {name for name, _, filled in found if not filled}
        unlike += [
            f"{each} NOT NULL" for each in sorted({*self.keys, POSITION, DELETED} & nullable)
        ]
        if unlike:
            shown = ", ".join(f"{name} {there.get(name, 'missing')}" for name in self.columns)
            raise TableError(
                f"{self.shown} has other columns than the batch: {shown}.",
                f"among them {', '.join(unlike)}.",
                "ALTER TABLE, or a new table.",
            )

    def _require_no_note(self) -> None:
        """Refuse to make a table anew that had batches before."""
        noted = self.server.run(
            f"SELECT batch FROM {self._notes} WHERE target = :target", target=self._target
        )
        if noted:
            raise ReplayMismatchError(
                f"{self.shown} is gone, and {NOTES} has batch {noted[0][0]} of it.",
                "a table that has every batch.",
                f"put the copy of both back, or begin anew: a new path, and no row of {NOTES}.",
            )

    def _has(self, told: Applied) -> bool:
        """Return whether the batch was applied; refuse a table that is not where it should be."""
        self.server.run(
            f"INSERT INTO {self._notes} VALUES (:target, :sender, -1, '', now()) "
            "ON CONFLICT DO NOTHING",
            target=self._target,
            sender=told.sender,
        )
        ((sender, batch, offsets),) = self.server.run(
            f"SELECT sender, batch, offsets FROM {self._notes} WHERE target = :target FOR UPDATE",
            target=self._target,
        )
        if (sender, batch, offsets) == (told.sender, told.batch, told.offsets):
            return True
        before = -1 if told.before is None else told.before
        # A process that was held up before it looked has a batch that is not after the last.
        if sender != told.sender or batch != before or batch >= told.batch:
            raise ReplayMismatchError(
                f"{self.shown} has batch {batch} of {sender}; batch {told.batch} of {told.sender} "
                f"follows batch {before}.",
                "a table that is fed by one job alone, and as new as the job's checkpoint.",
                f"a new table and a new path, or the newest copy of {self.table} and "
                f"{NOTES}; nothing was written.",
            )
        return False


def fits(name: str) -> bool:
    """Return whether a name is one that PostgreSQL keeps as it is."""
    return 0 < len(name.encode()) <= LONGEST_NAME and "\0" not in name


def _name(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
