"""What the customers' topic comes to, by the producer's ledger, and what the job's tables hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tidegate.testing.customers import SCHEMA, Sent

from ..changes import oracle
from ..changes.oracle import Change

COLUMNS = ("id", "name", "email", "city", "credit")
OPTIONS = {"input.schema": SCHEMA, "changes.key": "id"}
Valid = tuple[str, str | None, int, int | None]


def log(ledger: Iterable[Sent]) -> list[Change]:
    """Return the changes that the topic tells of, each partition's in its order."""
    return [
        Change(
            sent.event.op,
            None if sent.event.id is None else str(sent.event.id),
            None if sent.event.row is None else _text(sent.event.row),
            None if sent.event.lsn is None else (sent.event.lsn,),
            sent.event.sent if sent.event.op == "tombstone" else sent.event.at,
        )
        for sent in ledger
        if sent.event.fault is None
    ]


def expected_customers(ledger: Iterable[Sent]) -> Counter[str]:
    """Return the customers that there are after all changes."""
    return Counter(str(value) for value in oracle.current(log(ledger)).values())


def expected_history(ledger: Iterable[Sent]) -> Counter[Valid]:
    """Return every version of every customer."""
    return Counter((v.key, v.value, v.start, v.end) for v in oracle.history(log(ledger)))


def dead(ledger: Iterable[Sent]) -> Counter[tuple[int, int]]:
    """Return the places of the records that cannot be read."""
    return Counter((sent.partition, sent.offset) for sent in ledger if sent.event.fault)


def customers(table: Path) -> Counter[str]:
    """Read the current table."""
    return Counter(_text(row) for row in _rows(table) if not row["deleted"])


def history(table: Path) -> Counter[Valid]:
    """Read the versions that were valid for any time."""
    rows = [
        row
        for row in _rows(table)
        if row["valid_to"] is None or row["valid_from"] < row["valid_to"]
    ]
    assert all(row["is_current"] == (row["valid_to"] is None) for row in rows)
    return Counter(
        (str(row["id"]), _text(row), _millis(row["valid_from"]), _millis(row["valid_to"]))
        for row in rows
    )


def dead_places(table: Path) -> Counter[tuple[int, int]]:
    return Counter((row["partition"], row["offset"]) for row in _rows(table))


def _rows(table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return found


def _text(row: dict[str, Any]) -> str:
    return json.dumps({name: None if row[name] is None else str(row[name]) for name in COLUMNS})


def _millis(at: Any) -> Any:
    return None if at is None else round(at.timestamp() * 1000)
