"""A table of PostgreSQL, with one row a key."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ..columns import require_whole
from ..errors import ArgumentError, ColumnError, StoreError
from ._copy_text import UNFIT, Texts, type_of
from ._postgres_batch import LONGEST_NAME, NOTES, Batch, fits
from ._postgres_errors import ShutError, explained
from ._postgres_line import connected, driver
from .store import Applied

if TYPE_CHECKING:
    from pg8000.native import Connection


@dataclass(frozen=True)
class PostgresStore:
    """A table of PostgreSQL 12 or later that a job keeps in step; nobody else may write to it.

    The first batch makes the table: the rows' columns, `tidegate_position` and `tidegate_deleted`,
    with the keys as its primary key; or finds it, with at least these columns. A deleted row stays,
    without values: readers take `WHERE NOT tidegate_deleted`. Beside it the table
    `tidegate_batches` notes the last batch, in the transaction of the batch's rows, so that each
    batch is applied exactly once, wherever the job dies.

    The rows of a batch come in one transaction, by COPY: Spark writes them as text, and the driver
    hands it on, some thousand rows at a time, or some megabytes.

    | Spark | PostgreSQL |
    |---|---|
    | boolean, tinyint, smallint | boolean, smallint, smallint |
    | int, bigint, decimal | integer, bigint, numeric |
    | float, double | real, double precision |
    | string, binary, date | text, bytea, date |
    | timestamp, timestamp_ntz | timestamp with time zone, without time zone |
    | array<bigint> | bigint[] |
    | struct, map, any other array | jsonb, with times in UTC |

    Text with the character U+0000, years outside 1 to 9999 (of a timestamp: in UTC), and NaN or an
    infinite number within jsonb stop the job: PostgreSQL has them not, or not as Spark has them.

    Args:
        table: its name, with a schema before it or that of the user's search path.
        host, port, database, user: of the server.
        password: never shown in a repr or an error.
        tls: whether the connection must be by TLS, with the server's name and certificate checked;
            otherwise by TLS where the server has it, with nothing checked.
        certificates: a file of the authorities to check by; the machine's own otherwise.
        timeout: seconds to wait for a connection, and as many for its login.
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
        if parts[-1] == NOTES:
            raise ArgumentError(
                f"table is {self.table!r}.", f"another name: {NOTES} has the batches' numbers."
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
        made = Texts.of(rows)
        try:
            longest = _longest(self.name, made)
            self._tried(
                lambda server: Batch(server, self.table, self.name, columns, keys).apply(
                    made.chunks(longest), told
                ),
                keys,
            )
        finally:
            made.close()

    def _tried(self, work: Callable[[Connection], None], keys: Sequence[str]) -> None:
        """Do the work in one transaction, several times where it is in another's way."""
        for attempt in range(1, self.attempts + 1):
            failed = self._once(work, keys)
            if failed is None:
                return
            if not isinstance(failed, ShutError):
                raise failed
            if attempt < self.attempts:
                time.sleep(min(0.2 * 2**attempt, 10))
        raise StoreError(
            f"{self.name}, {self.attempts} times: {failed}.",
            hint="see to the server, then start the job again: it goes on where it was.",
        )

    def _once(self, work: Callable[[Connection], None], keys: Sequence[str]) -> Exception | None:
        """Do the work in one transaction; return what the server has against it.

        It is returned, since what is raised here would carry the server's own error, with a row.
        """
        native = driver()
        try:
            server = connected(self)
            try:
                server.run("START TRANSACTION ISOLATION LEVEL READ COMMITTED")
                work(server)
                server.run("COMMIT")
            finally:
                server.close()
        except native.DatabaseError as error:
            return explained(error, self.name, list(keys))
        except ssl.SSLCertVerificationError as error:
            return StoreError(
                f"{self.name} has a certificate that does not hold: {error.verify_message}.",
                "one for the host's name, by an authority that the job knows.",
                'certificates="/etc/jobs/authority.pem"',
            )
        except ShutError as error:
            return error
        except (native.InterfaceError, OSError) as error:
            return ShutError(str(error))
        return None


def _longest(table: str, made: Texts) -> int:
    """Return the bytes of the longest row; refuse values that PostgreSQL cannot hold."""
    try:
        return made.longest()
    except PySparkException as error:
        what = re.search(rf"{UNFIT}: ([\w+ ]+)", str(error))
        if what is None:
            raise
        raise ColumnError(
            f"a row for {table} has {what[1].strip()}.",
            "values that PostgreSQL has as Spark has them.",
            "put it right in the job's transform; nothing was written.",
        ) from None
