"""A PostgreSQL table with one row per key."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame

from ..columns import first_reason, require_integer
from ..errors import ArgumentError, ColumnError, SetupError, StoreError
from ..http_client import certificate_file
from ._postgres_copy import (
    MAX_NAME_BYTES,
    PROGRESS_TABLE,
    UNREPRESENTABLE,
    CopyText,
    is_valid_name,
    postgres_type,
    representation_faults,
)
from .store import BatchInfo, Store


@dataclass(frozen=True)
class PostgresStore(Store):
    """A table of PostgreSQL 12 or later that a job keeps up to date.

    No other writer may change rows. The first batch creates the table: the columns of the rows,
    `tidegate_position` and `tidegate_deleted`, with the keys as primary key. An existing table
    needs at least these columns. A deleted row remains, with null values: read with
    `WHERE NOT tidegate_deleted`. The table `tidegate_batches` of the same schema records the last
    batch in the transaction that writes its rows, so each batch is applied exactly once.

    Spark formats the rows as text, and the driver copies them in chunks of some thousand rows or
    megabytes, in one transaction, by COPY.

    | Spark | PostgreSQL |
    |---|---|
    | boolean, tinyint, smallint | boolean, smallint, smallint |
    | int, bigint, decimal | integer, bigint, numeric |
    | float, double | real, double precision |
    | string, binary, date | text, bytea, date |
    | timestamp, timestamp_ntz | timestamp with time zone, without time zone |
    | array<bigint> | bigint[] |
    | struct, map, other arrays | jsonb, with times in UTC |

    Text with the character U+0000 or invalid UTF-8, years outside 1 to 9999 (for a timestamp in
    UTC) and NaN or infinity in jsonb raise an error: PostgreSQL cannot store them, or stores them
    differently.

    Args:
        table: name of the table, with its schema or in the search path of the user.
        host, port, database, user: the server and the login.
        password: the password; reprs and errors never show it.
        tls: whether TLS is required and the server's name and certificate are verified. Otherwise
            TLS is used if the server offers it, without verification.
        certificates: file of certificate authorities; the system's by default.
        timeout: timeout of a connection with its login in seconds, at least 2.
        attempts: maximum number of attempts if the server is unavailable or another transaction
            conflicts, with increasing delays.

    Raises:
        ArgumentError, ColumnTypeError: at construction.
        SetupError: if psycopg is not installed; see `pip install 'tidegate[postgres]'`.
        TidegateError: as `Store.apply` raises.

    >>> PostgresStore("shop.totals", host="db.example", user="jobs", password="secret").name
    'the table shop.totals at db.example:5432/postgres'
    """

    plan_name: ClassVar[str] = "postgres_store"
    table: str
    _: KW_ONLY
    host: str = "localhost"
    # Fields with compare=False do not affect which rows are written, so they may change later.
    port: int = field(default=5432, compare=False)
    database: str = "postgres"
    user: str = field(default="postgres", compare=False)
    password: str | None = field(default=None, repr=False, compare=False)
    tls: bool = field(default=False, compare=False)
    certificates: str | None = field(default=None, compare=False)
    timeout: int = field(default=10, compare=False)
    attempts: int = field(default=5, compare=False)

    def __post_init__(self) -> None:
        parts = self.table.split(".") if isinstance(self.table, str) else []
        if not 1 <= len(parts) <= 2 or not all(map(is_valid_name, parts)):
            raise ArgumentError(
                f"invalid table: {self.table!r}", "table or schema.table", 'table="shop.totals"'
            )
        if parts[-1] == PROGRESS_TABLE:
            raise ArgumentError(
                f"invalid table: {self.table!r}",
                f"another name; {PROGRESS_TABLE} records the batches",
            )
        require_integer(self.port, "port", 1, 65_535)
        require_integer(self.timeout, "timeout", 2, 3_600)
        require_integer(self.attempts, "attempts", 1, 100)

    @property
    def name(self) -> str:
        """The table and its server."""
        return f"the table {self.table} at {self.host}:{self.port}/{self.database}"

    def rejection(self, rows: DataFrame, values: Mapping[str, Column]) -> Column | None:
        """Return which column of a row PostgreSQL cannot represent, such as a text with U+0000."""
        return first_reason(representation_faults(rows, values))

    def apply(self, rows: DataFrame, keys: Sequence[str], batch: BatchInfo) -> None:
        """Apply the rows of a batch and record the batch, in one transaction: see `Store`."""
        columns = {each.name: postgres_type(each.name, each.dataType) for each in rows.schema}
        for name in columns:
            if not is_valid_name(name):
                raise ColumnError(
                    f"invalid column name for PostgreSQL: {name!r}",
                    f"1 to {MAX_NAME_BYTES} bytes without the character U+0000",
                )
        copy_text = CopyText.from_rows(rows)
        try:
            max_row_bytes = copy_text.max_line_bytes()
            for attempt in range(1, self.attempts + 1):
                fault = self._try_transaction(copy_text.chunks(max_row_bytes), columns, keys, batch)
                if not fault:
                    return
                if attempt < self.attempts:
                    time.sleep(min(0.2 * 2**attempt, 10))
        except PySparkException as error:
            value = re.search(rf"{UNREPRESENTABLE}: ([\w+ ]+)", str(error))
            if value is None:
                raise
            raise ColumnError(
                f"invalid value for {self.name}: {value[1].strip()}; nothing was written",
                "values that PostgreSQL can represent",
                "replace such values in the transform",
            ) from None
        finally:
            copy_text.lines.unpersist()
        raise StoreError(
            f"failed to write to {self.name} after {self.attempts} attempts",
            fault,
            "repair the server and restart the job.",
        )

    def _try_transaction(
        self,
        lines: Iterable[bytes],
        columns: Mapping[str, str],
        keys: Sequence[str],
        batch: BatchInfo,
    ) -> str:
        """Run one transaction; return the text of a transient fault, or an empty text."""
        try:
            import psycopg

            from ._postgres_writer import BatchWriter, is_transient, translate_postgres_error
        except ImportError as error:
            raise SetupError(
                "PostgreSQL driver not found",
                "the package psycopg is not installed.",
                "pip install 'tidegate[postgres]'",
            ) from error
        try:
            with psycopg.connect(
                host=self.host,
                port=self.port,
                dbname=self.database,
                user=self.user,
                password=self.password,
                sslmode="verify-full" if self.tls else "prefer",
                sslrootcert=certificate_file(self.certificates) if self.tls else None,
                connect_timeout=self.timeout,
                client_encoding="UTF8",
            ) as connection:
                connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
                BatchWriter(connection, self.table, self.name, columns, keys).apply(lines, batch)
            return ""
        except psycopg.errors.ConnectionTimeout:
            return f"no login within {self.timeout} seconds"
        except psycopg.Error as error:
            if is_transient(error):
                return error.diag.message_primary or str(error)
            fault = translate_postgres_error(error, self.name, keys)
        # Outside the except clause, since the server's error contains values of a row.
        raise fault
