"""A table of PostgreSQL, with one row a key."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ..columns import require_whole
from ..errors import (
    ArgumentError,
    ColumnError,
    SetupError,
    StoreError,
)
from ._copy_text import UNFIT, chunks, texts, type_of
from ._postgres_batch import LONGEST_NAME, Batch, fits
from .store import Applied

if TYPE_CHECKING:
    from pg8000.native import Connection

_AGAIN = ("40001", "40P01", "55P03", "23505", "42P07")
"""Serialization failure, deadlock, lock not available, and a table that two make at once: another
transaction was in the way."""
_TWICE, _NULL_KEY = "21000", "23502"


@dataclass(frozen=True)
class PostgresStore:
    """A table of PostgreSQL 12 or later that a job keeps in step; nobody else may write to it.

    The first batch makes the table: the rows' columns, `tidegate_position` and `tidegate_deleted`,
    with the keys as its primary key; or finds it, with at least these columns. A deleted row stays,
    without values: readers take `WHERE NOT tidegate_deleted`. Beside it the table
    `tidegate_batches` notes the last batch, in the transaction of the batch's rows, so that each
    batch is applied exactly once, wherever the job dies.

    The rows of a batch come in one transaction, by COPY: Spark writes them as text, and the driver
    hands it on, some thousand rows at a time.

    | Spark | PostgreSQL |
    |---|---|
    | boolean, tinyint, smallint | boolean, smallint, smallint |
    | int, bigint, decimal | integer, bigint, numeric |
    | float, double | real, double precision |
    | string, binary, date | text, bytea, date |
    | timestamp, timestamp_ntz | timestamp with time zone, without time zone |
    | array<bigint> | bigint[] |
    | struct, map, any other array | jsonb, with times in UTC |

    Text with the character U+0000, and years outside 1 to 9999, stop the job: PostgreSQL has them
    not, or not as Spark has them.

    Args:
        table: its name, with a schema before it or that of the user's search path.
        host, port, database, user: of the server.
        password: never shown in a repr or an error.
        tls: whether the connection is by TLS, with the server's name and certificate checked.
        certificates: a file of the authorities to check by; the machine's own otherwise.
        timeout: seconds to wait for a connection.
        attempts: how often a batch is tried where the server does not answer, or another
            transaction is in the way; each time after a longer pause.

    Raises ArgumentError and ColumnTypeError at construction, and SetupError without pg8000, which
    `pip install 'tidegate[postgres]'` brings; else as `Store.apply`.

    >>> PostgresStore("shop.totals", host="db.example", user="jobs", password="secret").name
    'the table shop.totals at db.example:5432/postgres'
    """

    table: str
    _: KW_ONLY
    host: str = "localhost"
    # What has no part in which rows are written may be put right while a batch waits for it.
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
        if not 1 <= len(parts) <= 2 or not all(map(fits, parts)):
            raise ArgumentError(
                f"table is {self.table!r}.", "a table, or schema.table.", '"shop.totals"'
            )
        require_whole(self.port, "port", 1, 65_535)
        require_whole(self.timeout, "timeout", 1, 3_600)
        require_whole(self.attempts, "attempts", 1, 100)

    @property
    def name(self) -> str:
        """The table and its server."""
        return f"the table {self.table} at {self.host}:{self.port}/{self.database}"

    def apply(self, rows: DataFrame, keys: Sequence[str], told: Applied) -> None:
        """Apply the rows of a batch, and note the batch, in one transaction: see `Store`."""
        columns = {each.name: type_of(each.name, each.dataType) for each in rows.schema}
        for name in columns:
            if not fits(name):
                raise ColumnError(
                    f"{name!r} is no name for a column of PostgreSQL.",
                    f"up to {LONGEST_NAME} bytes, without the character U+0000.",
                )
        made = chunks(rows).persist()
        try:
            _require_fit(self.name, made)
            self._tried(
                lambda server: Batch(server, self.table, self.name, columns, keys).apply(
                    texts(made), told
                )
            )
        finally:
            made.unpersist()

    def _tried(self, work: Callable[[Connection], None]) -> None:
        """Do the work in one transaction, several times where it is in another's way."""
        for attempt in range(1, self.attempts + 1):
            try:
                with self._connected() as server:
                    work(server)
                return
            except _ShutError as error:
                if attempt == self.attempts:
                    raise StoreError(
                        f"{self.name}, {self.attempts} times: {error}.",
                        hint="see to the server, then start the job again: it goes on where it "
                        "was.",
                    ) from error
            time.sleep(min(0.2 * 2**attempt, 10))

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Yield a connection within a transaction, which is committed at the end."""
        native = _driver()
        context = ssl.create_default_context(cafile=self.certificates) if self.tls else None
        try:
            line = socket.create_connection((self.host, self.port), self.timeout)
            # The time is for the connection: a large batch takes longer.
            line.settimeout(None)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            server = native.Connection(
                self.user,
                sock=line,
                host=self.host,
                database=self.database,
                password=self.password,
                ssl_context=context,
            )
            try:
                server.run("START TRANSACTION")
                yield server
                server.run("COMMIT")
            finally:
                server.close()
        except native.DatabaseError as error:
            raise self._told(error) from error
        except (native.InterfaceError, OSError) as error:
            raise _ShutError(str(error)) from error

    def _told(self, error: Any) -> Exception:
        """Return the library's error for one of the server's."""
        found = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        code, text = found.get("C", ""), found.get("M", str(error))
        if code in _AGAIN or code.startswith(("08", "57")):
            return _ShutError(text)
        if code == _TWICE:
            return ColumnError(
                f"a batch has two rows of one key for {self.name}.",
                "one row a key, or a position by which the last one counts.",
                'position="version"',
            )
        if code == _NULL_KEY:
            return ColumnError(
                f"{self.name} takes no null: {text}.", "a value in each key, in every row."
            )
        return StoreError(
            f"{self.name} does not take the batch: {text} (SQLSTATE {code}).",
            hint="see to the table or the user's rights, then start the job again.",
        )


class _ShutError(Exception):
    """The server does not answer, or another transaction is in the way."""


def _driver() -> Any:
    try:
        from pg8000 import native
    except ImportError as error:
        raise SetupError(
            "PostgreSQL's driver is missing.", "pg8000.", "pip install 'tidegate[postgres]'"
        ) from error
    return native


def _require_fit(table: str, made: DataFrame) -> None:
    """Refuse values that PostgreSQL cannot hold, before it is asked for anything."""
    try:
        made.count()
    except PySparkException as error:
        what = re.search(rf"{UNFIT}: ([\w+ ]+)", str(error))
        if what is None:
            raise
        raise ColumnError(
            f"a row for {table} has {what[1].strip()}.",
            "values that PostgreSQL has as Spark has them.",
            "put it right in the job's transform; nothing was written.",
        ) from error
