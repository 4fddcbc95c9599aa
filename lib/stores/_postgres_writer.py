"""Connect to PostgreSQL by psycopg, write a batch in one transaction, and translate errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, LiteralString

import psycopg
from psycopg import errors, sql

from ..errors import ColumnError, StoreError, TableError, TableMismatchError
from ._postgres_copy import PROGRESS_TABLE
from .store import DELETED, POSITION, BatchInfo

_INCOMING = sql.Identifier("pg_temp", "tidegate_incoming")
_RETRYABLE = (
    "08",  # connection failure
    "40",  # deadlock or serialization failure
    "53",  # too many connections, out of memory or disk
    "57",  # the server stops or starts
    "55P03",  # lock not available
    "25P03",  # idle transaction timeout
    "25006",  # read-only: the server is a standby
    "42P07",  # the table was created concurrently
)
_REFUSED_LOGIN = (
    "certificate",
    "does not exist",
    "no password supplied",
    "no pg_hba.conf entry",
    "not permitted to log in",
    "password authentication failed",
)
"""Parts of messages that reject a login for good: libpq has no SQLSTATE for a failed login."""


@dataclass(frozen=True)
class BatchWriter:
    """Writes the rows of a batch.

    table: name as the user specifies it. target_name: name in messages. columns: PostgreSQL types.
    """

    connection: psycopg.Connection
    table: str
    target_name: str
    columns: Mapping[str, str]
    keys: Sequence[str]

    def apply(self, lines: Iterable[bytes], batch: BatchInfo) -> None:
        """Apply rows in the format of COPY and record the batch, unless it is recorded already."""
        # Wait until no other transaction writes a batch to a table of this name.
        self._run("SELECT pg_advisory_xact_lock(hashtext('tidegate'), hashtext({name}))")
        self._create_tables()
        if self._is_applied(batch):
            return
        self._run(
            "CREATE TEMP TABLE {incoming} ON COMMIT DROP AS "
            "SELECT {columns} FROM {table} WITH NO DATA"
        )
        copy_rows = "COPY {incoming} ({columns}) FROM STDIN WITH (ENCODING 'UTF8')"
        with self.connection.cursor() as cursor, cursor.copy(self._statement(copy_rows)) as copy:
            for chunk in lines:
                copy.write(chunk)
        changes = [
            sql.SQL("{column} = EXCLUDED.{column}").format(column=sql.Identifier(each))
            for each in self.columns
        ]
        self._run(
            "INSERT INTO {table} AS old ({columns}) SELECT {columns} FROM {incoming} "
            "ON CONFLICT ({keys}) DO UPDATE SET {changes} "
            "WHERE old.{position} <= EXCLUDED.{position}",
            changes=sql.SQL(", ").join(changes),
            position=sql.Identifier(POSITION),
        )
        self._run(
            "UPDATE {progress} SET batch = {batch}, offsets = {offsets}, applied_at = now() "
            "WHERE target = {name}",
            batch=batch.number,
            offsets=batch.offsets_hash,
        )

    @property
    def _table_name(self) -> str:
        """The name without schema, which identifies the table in the progress table."""
        return self.table.rpartition(".")[2]

    @cached_property
    def _schema(self) -> str:
        """The schema that contains the table, or in which it is created."""
        schema, _, _ = self.table.rpartition(".")
        if schema:
            return schema
        ((schema_name,),) = self.connection.execute(
            "SELECT coalesce((SELECT nspname FROM pg_class JOIN pg_namespace ON "
            "pg_namespace.oid = relnamespace WHERE pg_class.oid = to_regclass(quote_ident(%s))), "
            "current_schema())::text",
            [self._table_name],
        )
        if schema_name is None:
            raise StoreError(
                f"no schema for {self.target_name}",
                "the search path of the user contains no existing schema.",
                "specify the table as schema.table.",
            )
        return str(schema_name)

    def _statement(self, statement: LiteralString, **values: object) -> sql.Composed:
        """Return a statement with its identifiers and values; {name} is the table as a text."""
        return sql.SQL(statement).format(
            name=self._table_name,
            table=sql.Identifier(self._schema, self._table_name),
            progress=sql.Identifier(self._schema, PROGRESS_TABLE),
            incoming=_INCOMING,
            columns=sql.SQL(", ").join(map(sql.Identifier, self.columns)),
            keys=sql.SQL(", ").join(map(sql.Identifier, self.keys)),
            **values,
        )

    def _run(self, statement: LiteralString, **values: object) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(self._statement(statement, **values))
        return cursor.fetchall() if cursor.description else []

    def _create_tables(self) -> None:
        """Create missing tables; refuse a table with different columns."""
        self._run(
            "CREATE TABLE IF NOT EXISTS {progress} "
            "(target text PRIMARY KEY, sender text NOT NULL, "
            "batch bigint NOT NULL, offsets text NOT NULL, "
            "applied_at timestamp with time zone NOT NULL)"
        )
        stored_columns = self._run(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull, "
            "attgenerated <> '' OR attidentity = 'a' FROM pg_attribute "
            "WHERE attrelid = to_regclass(format('%I.%I', {schema}::text, {name}::text)) "
            "AND attnum > 0 AND NOT attisdropped",
            schema=self._schema,
        )
        not_null = {*self.keys, POSITION, DELETED}
        if not stored_columns:
            self._require_no_progress()
            # The types are those of `postgres_type`.
            definitions = [
                sql.Identifier(name) + sql.SQL(f" {sql_type}" + " NOT NULL" * (name in not_null))
                for name, sql_type in self.columns.items()
            ]
            self._run(
                "CREATE TABLE {table} ({definitions}, PRIMARY KEY ({keys}))",
                definitions=sql.SQL(", ").join(definitions),
            )
            return
        computed = [
            name
            for name, _, _, is_computed in stored_columns
            if is_computed and name in self.columns
        ]
        if computed:
            raise TableError(
                f"{self.target_name} computes the columns {', '.join(computed)}",
                "rows without them, because PostgreSQL refuses values for them",
                "columns={...} of the Mirror without them, or ALTER TABLE ... DROP EXPRESSION or "
                "DROP IDENTITY",
            )
        stored_types = {name: sql_type for name, sql_type, *_ in stored_columns}
        mismatches = [
            f"{name} {sql_type}"
            for name, sql_type in self.columns.items()
            if stored_types.get(name) != sql_type
        ]
        nullable = {name for name, _, is_not_null, _ in stored_columns if not is_not_null}
        mismatches += [f"{each} NOT NULL" for each in sorted(not_null & nullable)]
        if mismatches:
            stored = [f"{name} {stored_types.get(name, 'missing')}" for name in self.columns]
            raise TableError(
                f"columns of {self.target_name} do not match the batch: {', '.join(stored)}",
                ", ".join(mismatches),
                "ALTER TABLE, or a new table",
            )

    def _require_no_progress(self) -> None:
        """Refuse to create a table again that had batches before."""
        recorded = self._run("SELECT batch FROM {progress} WHERE target = {name}")
        if recorded:
            raise TableMismatchError(
                f"{self.target_name} is missing",
                f"{PROGRESS_TABLE} has its batch {recorded[0][0]}, so it was deleted or renamed.",
                "restore both tables; or use a new path and delete the row of the progress table.",
            )

    def _is_applied(self, incoming: BatchInfo) -> bool:
        """Return whether the batch is recorded; refuse a table at another batch."""
        self._run(
            "INSERT INTO {progress} VALUES ({name}, {sender}, -1, '', now()) "
            "ON CONFLICT DO NOTHING",
            sender=incoming.sender,
        )
        ((sender, batch, offsets),) = self._run(
            "SELECT sender, batch, offsets FROM {progress} WHERE target = {name} FOR UPDATE"
        )
        if (sender, batch, offsets) == (incoming.sender, incoming.number, incoming.offsets_hash):
            return True
        previous_number = -1 if incoming.previous_number is None else incoming.previous_number
        # A process that was paused before this query may hold an older batch. The table can have a
        # batch between these numbers, whose sender died before it recorded the batch, and then lost
        # its checkpoint: the rows are applied again.
        is_next = previous_number <= batch < incoming.number
        if sender != incoming.sender or not is_next:
            raise TableMismatchError(
                f"{self.target_name} is at batch {batch} of {sender}; nothing was written.",
                f"batch {incoming.number} of {incoming.sender} follows batch {previous_number}; "
                "another job writes the table, or it was restored.",
                f"restore {self.table} and {PROGRESS_TABLE}, or use a new table and path.",
            )
        return False


def is_transient(error: psycopg.Error) -> bool:
    """Return whether another attempt may succeed: no server, or a conflicting transaction."""
    if error.sqlstate is None:
        return not any(part in str(error) for part in _REFUSED_LOGIN)
    # An index of the catalog: two transactions created the same table.
    is_catalog = error.diag.schema_name == "pg_catalog"
    is_concurrent_create = is_catalog and isinstance(error, errors.UniqueViolation)
    return error.sqlstate.startswith(_RETRYABLE) or is_concurrent_create


def translate_postgres_error(
    error: psycopg.Error, target_name: str, keys: Sequence[str]
) -> ColumnError | StoreError:
    """Return the library's error for an error that is not transient.

    The server's error contains values of a row, so the result must not be chained to it.
    """
    text = error.diag.message_primary or str(error)
    column = error.diag.column_name
    if isinstance(error, errors.CardinalityViolation):
        return ColumnError(
            f"duplicate key in a batch for {target_name}",
            "one row per key, or a position that determines the last one",
            'position="version"',
        )
    if isinstance(error, errors.NotNullViolation) and column in keys:
        return ColumnError(
            f"null key: {column} is null in a row for {target_name}",
            "key columns without nulls",
        )
    if isinstance(error, errors.NotNullViolation):
        return ColumnError(
            f"null value: {column} of {target_name} is NOT NULL, and a row is null or deleted",
            "a nullable column, since deleted rows have null values",
            f'ALTER TABLE ... ALTER COLUMN "{column}" DROP NOT NULL',
        )
    if isinstance(error, errors.UntranslatableCharacter):
        return ColumnError(
            f"invalid character for {target_name}: the database's encoding cannot represent it",
            "a database with the encoding UTF8",
        )
    if "certificate" in text and error.sqlstate is None:
        return StoreError(
            f"certificate verification failed for {target_name}",
            text,
            'certificates="/etc/jobs/authority.pem"',
        )
    if isinstance(error, psycopg.DataError):
        text = "a value exceeds the range of its type"  # The server's text quotes the value.
    return StoreError(
        f"failed to write to {target_name}",
        f"{text} (SQLSTATE {error.sqlstate})" if error.sqlstate else text,
        "change the table or the permissions of the user, and restart the job.",
    )
