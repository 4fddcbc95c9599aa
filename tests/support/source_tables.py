"""PostgreSQL tables that record each change of a row, and what Delta tables must have of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from tests.support import delta_tables
from tests.support.delta_tables import Reader
from tests.support.postgres_columns import (
    SourceColumn,
    comparable,
    definitions,
    expected_values,
    random_values,
    stored_schema,
)

Row = tuple[Any, ...]
Version = tuple[Row, datetime | None, datetime | None]
"""A row with the times from when to when it was valid; None for the time of a snapshot."""
_AUDIT = """
CREATE FUNCTION {audit}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP IN ('UPDATE', 'DELETE') THEN
        INSERT INTO {audit} SELECT default_number, pg_current_xact_id()::xid, 'D', OLD.*
        FROM nextval('{audit}_number') AS default_number;
    END IF;
    IF TG_OP IN ('UPDATE', 'INSERT') THEN
        INSERT INTO {audit} SELECT default_number, pg_current_xact_id()::xid, 'I', NEW.*
        FROM nextval('{audit}_number') AS default_number;
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        INSERT INTO {audit} VALUES (nextval('{audit}_number'), pg_current_xact_id()::xid, 'T');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_rows AFTER INSERT OR UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION {audit}();
CREATE TRIGGER audit_truncate AFTER TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {audit}()
"""


@dataclass(frozen=True)
class SourceTable:
    """A table with the key `id`, and an audit table with each row version, by triggers.

    run: runs a statement in the database, and returns its rows.
    """

    run: Callable[[str], list[list[Any]]]
    name: str
    columns: tuple[SourceColumn, ...]

    @property
    def audit(self) -> str:
        """The table with the changes."""
        return f"{self.name}_audit"

    @property
    def stored_schema(self) -> str:
        """The columns of the Delta table."""
        return f"id BIGINT NOT NULL, {stored_schema(self.columns)}"

    def create(self, identity: str = "DEFAULT") -> None:
        """Create the table with a REPLICA IDENTITY, and the audit table."""
        columns = f"id bigint, {definitions(self.columns)}"
        self.run(f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY (id))")
        self.run(f"ALTER TABLE {self.name} REPLICA IDENTITY {identity}")
        self.run(f"CREATE SEQUENCE {self.audit}_number")
        self.run(f"CREATE TABLE {self.audit} (number bigint, xid xid, op text, {columns})")
        self.run(_AUDIT.format(audit=self.audit, table=self.name))

    def with_added(self, column: SourceColumn) -> SourceTable:
        """Add a column to the table, and return the table with it."""
        for table in (self.name, self.audit):
            self.run(f"ALTER TABLE {table} ADD COLUMN {definitions([column])}")
        return replace(self, columns=(*self.columns, column))

    def insert(self, key: int, random: Random) -> str:
        """Return a statement that inserts a row with random values."""
        values = random_values(random, self.columns)
        names = ", ".join(f'"{name}"' for name in values)
        return f"INSERT INTO {self.name} (id, {names}) VALUES ({key}, {', '.join(values.values())})"

    def update(self, key: int, random: Random) -> str:
        """Return a statement that changes random columns of a row."""
        columns = random.sample(self.columns, random.randint(1, min(6, len(self.columns))))
        return f"UPDATE {self.name} SET {_assignments(random, columns)} WHERE id = {key}"

    def change_key(self, key: int, new: int, random: Random) -> str:
        """Return a statement that changes the key of a row, and its large values.

        Debezium sends no large values that stay as they are, and the new key has no row before."""
        columns = [column for column in self.columns if column.draw_large is not None]
        assignments = ", ".join([f"id = {new}", *filter(None, [_assignments(random, columns)])])
        return f"UPDATE {self.name} SET {assignments} WHERE id = {key}"

    def expected_rows(self) -> dict[int, Row]:
        """Return the rows of the source, as the current table must have them."""
        found = self.run(f"SELECT id, {expected_values(self.columns)} FROM {self.name}")
        return {row[0]: comparable(row) for row in found}

    def expected_versions(self) -> dict[int, list[Version]]:
        """Return the versions of each key, as the history must have them.

        At the time of a transaction a key has one version, that of its last change. Changes before
        the snapshot have no version; see `forget_changes`."""
        found = self.run(
            f"SELECT op, pg_xact_commit_timestamp(xid), id, {expected_values(self.columns)}"
            f" FROM {self.audit} ORDER BY number"
        )
        states: dict[int, dict[datetime | None, Row | None]] = defaultdict(dict)
        for op, time, key, *values in found:
            if op == "T":
                for versions in states.values():
                    if list(versions.values())[-1] is not None:
                        versions[time] = None
            else:
                states[key][time] = comparable([key, *values]) if op == "I" else None
        return {key: list(_versions(versions)) for key, versions in states.items() if versions}

    def forget_changes(self) -> None:
        """Replace the recorded changes by one insert of each row, with an unknown time."""
        self.run(f"DELETE FROM {self.audit}")
        self.run(
            f"INSERT INTO {self.audit} SELECT nextval('{self.audit}_number'), NULL, 'I', *"
            f" FROM {self.name}"
        )

    def stored_rows(self, path: Path, read: Reader = delta_tables.rows) -> dict[int, Row]:
        """Return the rows of the current table."""
        live = [row for row in read(path, [*self._names, "deleted"]) if not row.pop("deleted")]
        assert len({row["id"] for row in live}) == len(live)
        return {row["id"]: comparable(row) for row in live}

    def stored_versions(
        self, path: Path, read: Reader = delta_tables.rows
    ) -> dict[int, list[Version]]:
        """Return the versions of each key in the history table.

        A snapshot that changes no value continues the version before it."""
        names = [*self._names, "valid_from", "valid_to", "op"]
        result: dict[int, list[Version]] = defaultdict(list)
        for row in sorted(read(path, names), key=lambda row: row["valid_from"]):
            start, end, op = (row.pop(name) for name in names[-3:])
            if row["id"] is None or start == end:
                continue
            versions, values = result[row["id"]], comparable(row)
            if op == "snapshot" and versions and versions[-1][0] == values:
                assert versions[-1][2] == start
                versions[-1] = (values, versions[-1][1], end)
            else:
                versions.append((values, None if op == "snapshot" else start, end))
        return dict(result)

    @property
    def _names(self) -> list[str]:
        return ["id", *(column.name for column in self.columns)]


def _assignments(random: Random, columns: Sequence[SourceColumn]) -> str:
    values = random_values(random, columns)
    return ", ".join(f'"{name}" = {value}' for name, value in values.items())


def _versions(states: dict[datetime | None, Row | None]) -> Iterator[Version]:
    times = list(states)
    for (start, row), end in zip(states.items(), [*times[1:], None], strict=True):
        if row is not None:
            yield row, start, end


def differences(expected: dict[int, Any], stored: dict[int, Any]) -> list[str]:
    """Return a text for each key whose contents differ."""
    return [
        f"{key}: expected {expected.get(key)}, stored {stored.get(key)}"
        for key in sorted(expected.keys() | stored.keys())
        if expected.get(key) != stored.get(key)
    ]


@dataclass
class RandomTransactions:
    """Random transactions of one table: of one to four changes, and some of them rolled back.

    keys: how many keys there are. truncates: the ratio of transactions that truncate the table.
    """

    table: SourceTable
    connection: psycopg.Connection
    random: Random
    keys: int = 200
    truncates: float = 0.0
    live: frozenset[int] = frozenset()

    def run(self, count: int) -> None:
        """Run a number of transactions."""
        for _ in range(count):
            live, statements = self._draw()
            with self.connection.transaction() as transaction:
                for statement in statements:
                    self.connection.execute(statement.encode())
                if self.random.random() < 0.05:
                    raise psycopg.Rollback(transaction)
                self.live = live

    def _draw(self) -> tuple[frozenset[int], Sequence[str]]:
        """Return the keys after the next transaction, and its statements."""
        random, table, name = self.random, self.table, self.table.name
        if random.random() < self.truncates:
            return frozenset(), [f"TRUNCATE {name}"]
        live, statements = set(self.live), []
        for _ in range(random.randint(1, 4)):
            key = random.randrange(self.keys)
            kind = random.random()
            if key not in live:
                statements.append(table.insert(key, random))
                live.add(key)
            elif kind < 0.65:
                statements.append(table.update(key, random))
            elif kind < 0.85:
                statements.append(f"DELETE FROM {name} WHERE id = {key}")
                live.remove(key)
            else:
                new = next(each for each in range(self.keys + 1) if each not in live)
                statements.append(table.change_key(key, new, random))
                live = live - {key} | {new}
        return frozenset(live), statements
