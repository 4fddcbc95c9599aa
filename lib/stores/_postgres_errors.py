"""What PostgreSQL says of a batch, in the library's words, and without a row's values."""

from __future__ import annotations

from typing import Any

from ..errors import ColumnError, StoreError

_AGAIN = (
    "08",  # the connection
    "40",  # a deadlock, or another transaction came first
    "53",  # too many connections, no memory, no room
    "57",  # the server is stopped, or begins
    "55P03",  # a lock is not to be had
    "25P03",  # the transaction had nothing to do for too long
    "25006",  # read-only: the server was a standby when it answered
    "42P07",  # a table that two make at once
)
_TWICE = "21000"
_NULL = "23502"
_NOT_UNIQUE = "23505"
_NO_SUCH_CHARACTER = "22P05"


class ShutError(Exception):
    """The server does not answer, or another transaction is in the way."""


def explained(error: Any, shown: str, keys: list[str]) -> Exception:
    """Return the library's error for one of the server's.

    The server's own has the values of a row, so that it must not be the new one's cause.
    """
    found = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
    code = found.get("C", "")
    text = found.get("M", "the server's answer cannot be read")
    # The catalog's own index: two transactions made a table of one name.
    twin = code == _NOT_UNIQUE and found.get("s") == "pg_catalog"
    if code.startswith(_AGAIN) or twin:
        return ShutError(text)
    if code == _TWICE:
        return ColumnError(
            f"a batch has two rows of one key for {shown}.",
            "one row a key, or a position by which the last one counts.",
            'position="version"',
        )
    if code == _NULL:
        return _null(found.get("c"), shown, keys)
    if code == _NO_SUCH_CHARACTER:
        return ColumnError(
            f"a row for {shown} has a character that the database's encoding has not.",
            "a database whose encoding is UTF8.",
        )
    if code.startswith("22"):
        text = "a value is out of its type's range"  # Its own text quotes the value.
    return StoreError(
        f"{shown} does not take the batch: {text} (SQLSTATE {code}).",
        hint="see to the table or the user's rights, then start the job again.",
    )


def _null(column: str | None, shown: str, keys: list[str]) -> ColumnError:
    if column in keys:
        return ColumnError(
            f"{shown} takes no null in {column}, and a row has one.",
            "a value in each key, in every row.",
        )
    return ColumnError(
        f"{shown} takes no null in {column}, and a row has one, or is deleted and has no values.",
        "a value in every row, or a column that may be null.",
        f'ALTER TABLE ... ALTER COLUMN "{column}" DROP NOT NULL',
    )
