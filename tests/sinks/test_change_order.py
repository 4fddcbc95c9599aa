"""The order of Debezium's changes in current and history tables: snapshots, failovers, repeats and
keys that move to another partition."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.changelog_frames import at
from tests.support.sink_batches import batch
from tidegate.formats import debezium_format
from tidegate.sinks import CurrentTable, FanOut, HistoryTable
from tidegate.sources.kafka_source import RAW_SCHEMA

pytestmark = pytest.mark.jobs

SHOP = {"name": "shop", "snapshot": "false"}
SERVER_1 = SHOP | {"server_id": 1, "file": "mysql-bin.000087"}
SERVER_2 = SHOP | {"server_id": 2, "file": "mysql-bin.000002"}


@dataclass(frozen=True)
class Sent:
    """A record of a change: the value after it, or None for a deletion; `ms` is its time."""

    op: str
    value: str | None
    ms: int
    source: dict[str, Any] = field(default_factory=dict)
    partition: int = 0

    def content(self, key: int) -> bytes | None:
        """Return the value of the record."""
        if self.op == "tombstone":
            return None
        row = None if self.value is None else {"id": key, "v": self.value}
        source = SHOP | {"ts_ms": _epoch_ms(self.ms)} | self.source
        envelope = {"before": {"id": key}, "after": row, "source": source, "op": self.op}
        return json.dumps(envelope).encode()


LOGS: dict[str, tuple[list[Sent], str | None, list[str]]] = {
    "rows of an incremental snapshot have no position": (
        [
            Sent("r", "one", 0, {"snapshot": "incremental"}),
            Sent("u", "two", 10, {"lsn": 2000}),
            Sent("r", "two", 20, {"snapshot": "incremental"}),
            Sent("u", "three", 30, {"lsn": 2100}),
        ],
        "three",
        ["one", "two", "two", "three"],
    ),
    "a row of a snapshot is sent before a change that was committed earlier than it was read": (
        [
            Sent("c", "one", 0, {"lsn": 10}),
            Sent("r", "one", 30, {"snapshot": "incremental"}),
            Sent("u", "two", 20, {"lsn": 20}),
        ],
        "two",
        ["one", "two"],
    ),
    "a change after a snapshot has a lower position than the snapshot": (
        [
            Sent("r", "old", 0, {"snapshot": "last", "lsn": 24_023_128}),
            Sent("u", "new", 20, {"lsn": 24_022_900}),
        ],
        "new",
        ["old", "new"],
    ),
    "a key moves to a partition with lower offsets": (
        [
            *[Sent("u", f"v{each}", each, {"lsn": each}) for each in range(3)],
            Sent("u", "v9", 9, {"lsn": 9}, partition=1),
        ],
        "v9",
        ["v0", "v1", "v2", "v9"],
    ),
    "a key moves to another partition, without positions": (
        [Sent("c", "v0", 0), Sent("u", "v1", 10), Sent("u", "v2", 20, partition=1)],
        "v2",
        ["v0", "v1", "v2"],
    ),
    "the positions of another server begin again": (
        [
            Sent("c", "first", 0, SERVER_1 | {"pos": 900, "row": 0}),
            Sent("u", "second", 10, SERVER_2 | {"pos": 4, "row": 0}),
            Sent("u", "third", 20, SERVER_2 | {"pos": 8, "row": 0}),
        ],
        "third",
        ["first", "second", "third"],
    ),
    "the positions of a restored server begin again": (
        [Sent("c", "first", 0, {"lsn": 9000}), Sent("u", "second", 10, {"lsn": 40})],
        "second",
        ["first", "second"],
    ),
    "changes are sent again": (
        [
            Sent("c", "a", 0, {"lsn": 10}),
            Sent("u", "b", 10, {"lsn": 20}),
            Sent("c", "a", 0, {"lsn": 10}),
            Sent("r", "b", 30, {"snapshot": "incremental"}),
            Sent("u", "b", 10, {"lsn": 20}),
        ],
        "b",
        ["a", "b", "b"],
    ),
    "changes of a deleted row are sent again": (
        [
            Sent("c", "a", 0, {"lsn": 10}),
            Sent("d", None, 10, {"lsn": 20}),
            Sent("tombstone", None, 11),
            Sent("c", "a", 0, {"lsn": 10}),
        ],
        None,
        ["a"],
    ),
}


def _epoch_ms(ms: int) -> int:
    return round(at(ms).timestamp() * 1000)


def _batches(*, one_by_one: bool) -> Iterator[list[tuple[int, int, Sent]]]:
    """Yield batches of (key, index in its log, record)."""
    records = [
        (key, index, sent)
        for key, (log, _, _) in enumerate(LOGS.values())
        for index, sent in enumerate(log)
    ]
    if not one_by_one:
        yield records
        return
    for step in range(max(index for _, index, _ in records) + 1):
        yield [each for each in records if each[1] == step]


def _decoded(spark: SparkSession, records: Sequence[tuple[int, int, Sent]]) -> DataFrame:
    """Return the changes of records; offsets in a new partition begin at 0."""
    rows = []
    for key, index, sent in records:
        offset = 100 * key + index if sent.partition == 0 else key
        record_key = bytearray(json.dumps({"id": key}).encode())
        content = sent.content(key)
        value = None if content is None else bytearray(content)
        rows.append(("t", sent.partition, offset, at(1000 + index), record_key, value, None))
    changes = debezium_format("id INT NOT NULL, v STRING", key="id")
    decoded = changes.decode(spark.createDataFrame(rows, RAW_SCHEMA))
    assert decoded.where("bad").count() == 0
    return decoded.select("record.*")


@pytest.mark.parametrize("one_by_one", [False, True])
def test_the_last_change_of_a_key_is_stored_whatever_its_position_in_the_log_of_the_database(
    one_by_one: bool, spark: SparkSession, tmp_path: Path
) -> None:
    current, history = CurrentTable(str(tmp_path / "c")), HistoryTable(str(tmp_path / "h"))
    for number, records in enumerate(_batches(one_by_one=one_by_one)):
        changes = _decoded(spark, records).persist()
        FanOut(current, other_sinks=[history]).write({"rows": changes}, batch(number))
        changes.unpersist()
    stored = {row["id"]: row["v"] for row in current.rows(spark).collect()}
    versions = history.rows(spark).orderBy("id", "valid_from").collect()
    for key, (name, (_, value, values)) in enumerate(LOGS.items()):
        assert stored.get(key) == value, name
        assert [row["v"] for row in versions if row["id"] == key] == values, name
        last = [row["v"] for row in versions if row["id"] == key and row["is_current"]]
        assert last == ([] if value is None else [value]), name
