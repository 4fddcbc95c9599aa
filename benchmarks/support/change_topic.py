"""A topic of seeded changes of `order_table`, as Debezium's connector for PostgreSQL writes them.

JSON without the schema part (`schemas.enable=false`), with the complete row before each change
(REPLICA IDENTITY FULL), and a tombstone after each deletion, which is Debezium's default. The
changes of a key are in one partition. One change in five inserts a row, one in eighteen deletes
one, which does not return. Most updates are of recent rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer

from benchmarks.support.click_topic import START_MS, produce_when_possible

CHANGES_A_SECOND = 10_000
_CHANGES_A_ROW, _RECENT_PART, _RECENT_SHARE, _DELETED_SHARE = 5, 400, 0.8, 0.3
_CUSTOMERS = 100_000
_STATUSES = (b"new", b"paid", b"packed", b"sent", b"returned")
_FIRST_LSN, _LSN_STEP, _SEND_MS = 24_023_128, 136, 150
_CHUNK = 100_000
_ROW = (
    b'{"id":%d,"customer":"customer-%06d","status":"%b","quantity":%d,"amount_cents":%d,'
    b'"updated_at":%d}'
)
_VALUE = (
    b'{"before":%b,"after":%b,"source":{"version":"3.2.0.Final","connector":"postgresql",'
    b'"name":"shop","ts_ms":%d,"snapshot":"false","db":"shop","sequence":"[null,\\"%d\\"]",'
    b'"ts_us":%d000,"ts_ns":%d000000,"schema":"public","table":"orders","txId":%d,"lsn":%d,'
    b'"xmin":null},"transaction":null,"op":"%b","ts_ms":%d,"ts_us":%d000,"ts_ns":%d000000}'
)

_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Changes:
    """The changes in the order of the log."""

    ids: _Integers
    previous: _Integers
    """The number of the change before, of the same row; -1 if there is none."""
    deletes: npt.NDArray[np.bool_]
    quantities: _Integers
    cents: _Integers

    def values(self, numbers: _Integers) -> Iterator[bytes]:
        """Return the values of changes."""
        at = _at(numbers)
        ops = np.where(
            self.deletes[numbers], b"d", np.where(self.previous[numbers] < 0, b"c", b"u")
        )
        lsn, sent = _FIRST_LSN + _LSN_STEP * numbers, at + _SEND_MS
        source = (at, lsn, at, at, numbers, lsn)
        columns = (column.tolist() for column in (*source, ops, sent, sent, sent))
        rows = (self._rows(self.previous[numbers]), self._rows(numbers))
        return (_VALUE % change for change in zip(*rows, *columns, strict=True))

    def _rows(self, numbers: _Integers) -> Iterator[bytes]:
        """Return the row after each change, or null."""
        ids, statuses = self.ids[numbers], np.array(_STATUSES)[numbers % len(_STATUSES)]
        amounts = (self.quantities[numbers], self.cents[numbers])
        columns = (ids, ids * 7919 % _CUSTOMERS, statuses, *amounts, _at(numbers) * 1_000)
        exists = (numbers >= 0) & ~self.deletes[numbers]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return (_ROW % row if real else b"null" for row, real in zip(rows, exists, strict=True))


def _at(numbers: _Integers) -> _Integers:
    return START_MS + numbers * 1_000 // CHANGES_A_SECOND


def fill(servers: str, topic: str, rows: int, partitions: int, seed: int = 11) -> int:
    """Send `rows` records, tombstones included, and return their mean size in bytes.

    One record less if the last change would be a deletion without its tombstone."""
    changes = _draw(np.random.default_rng(seed), rows)
    records = np.cumsum(1 + changes.deletes)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 50,
            "batch.size": 1_000_000,
        }
    )
    sent, end = 0, int(np.searchsorted(records, rows, side="right"))
    for start in range(0, end, _CHUNK):
        numbers = np.arange(start, min(start + _CHUNK, end))
        each = zip(changes.ids[numbers].tolist(), changes.deletes[numbers].tolist(), strict=True)
        for (id_, deleted), value in zip(each, changes.values(numbers), strict=True):
            key, partition = b'{"id":%d}' % id_, id_ % partitions
            produce_when_possible(producer, topic, value, partition, key)
            if deleted:
                produce_when_possible(producer, topic, None, partition, key)
            sent += len(value)
        producer.poll(0)
    producer.flush()
    return sent // rows


def _draw(random: np.random.Generator, count: int) -> _Changes:
    newest = np.arange(count) // _CHANGES_A_ROW
    recent = newest - random.exponential(count / _RECENT_PART, count).astype(np.int64)
    any_row = (random.random(count) * (newest + 1)).astype(np.int64)
    ids = np.where(random.random(count) < _RECENT_SHARE, np.abs(recent), any_row)
    # The changes of each row, one after another. Only the last one can be a deletion.
    order = np.argsort(ids, kind="stable")
    is_first = np.diff(ids[order], prepend=-1) != 0
    is_last = np.roll(is_first, -1)
    previous, deletes = np.empty(count, np.int64), np.empty(count, np.bool_)
    previous[order] = np.where(is_first, -1, np.roll(order, 1))
    deletes[order] = is_last & ~is_first & (random.random(count) < _DELETED_SHARE)
    quantities = random.integers(1, 10, count)
    return _Changes(
        ids, previous, deletes, quantities, quantities * random.integers(99, 20_000, count)
    )
