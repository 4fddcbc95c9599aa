"""Values that Debezium does not send, in current and history tables: those of the row before."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from tests.support.changelog_frames import at
from tests.support.sink_batches import batch
from tidegate.engine.side_outputs import RejectedRows
from tidegate.formats import debezium_format
from tidegate.formats.debezium import UNAVAILABLE_VALUE
from tidegate.sinks import CurrentTable, FanOut, HistoryTable, Sink
from tidegate.sources.kafka_source import RAW_SCHEMA

pytestmark = pytest.mark.jobs

UNSENT = "unsent"
"""A value that is not sent."""
COLUMNS = ("note", "text", "n")
Values = tuple[str | None, str | None, int | None]


@dataclass(frozen=True)
class Sent:
    """A record of a change at `lsn`: the values after it, or None for a deletion."""

    op: str
    values: Values | None
    lsn: int | None
    ms: int | None = None

    def content(self, key: int) -> bytes | None:
        """Return the value of the record."""
        if self.op == "tombstone":
            return None
        ms = self.lsn if self.ms is None else self.ms
        source: dict[str, Any] = {"name": "shop", "snapshot": "false", "lsn": self.lsn}
        source["ts_ms"] = round(at(ms or 0).timestamp() * 1000)
        if self.op == "r":
            source["snapshot"] = "incremental"
        row = None
        if self.values is not None:
            sent = [UNAVAILABLE_VALUE if value == UNSENT else value for value in self.values]
            row = {"id": key, **dict(zip(COLUMNS, sent, strict=True))}
        key_row = {"id": key} if key or self.op != "t" else None
        return json.dumps(
            {"before": key_row, "after": row, "source": source, "op": self.op}
        ).encode()


@dataclass
class Expected:
    """The current rows, the values of the versions, and the records that are dead letters."""

    current: dict[int, Values] = field(default_factory=dict)
    versions: dict[int, list[Values]] = field(default_factory=dict)
    dead: list[int] = field(default_factory=list)


LOGS: dict[str, tuple[list[Sent], Values | None, list[Values], list[int]]] = {
    "the stored row has the value": (
        [Sent("c", ("a", "b", 1), 10), Sent("u", (UNSENT, "c", 2), 20)],
        ("a", "c", 2),
        [("a", "b", 1), ("a", "c", 2)],
        [],
    ),
    "several values, by several changes": (
        [
            Sent("c", ("a", "b", 1), 10),
            Sent("u", (UNSENT, UNSENT, 2), 20),
            Sent("u", ("x", UNSENT, 3), 30),
            Sent("u", (UNSENT, "y", 4), 40),
        ],
        ("x", "y", 4),
        [("a", "b", 1), ("a", "b", 2), ("x", "b", 3), ("x", "y", 4)],
        [],
    ),
    "a stored null": (
        [Sent("c", (None, "b", 1), 10), Sent("u", (UNSENT, None, 2), 20)],
        (None, None, 2),
        [(None, "b", 1), (None, None, 2)],
        [],
    ),
    "no row, then a row of a snapshot": (
        [
            Sent("u", (UNSENT, "b", 1), 10),
            Sent("u", ("a", UNSENT, 2), 20),
            Sent("r", ("a", "b", 2), None, 25),
            Sent("u", (UNSENT, "c", 3), 30),
        ],
        ("a", "c", 3),
        [("a", "b", 2), ("a", "c", 3)],
        [0, 1],
    ),
    "a deleted row": (
        [
            Sent("c", ("a", "b", 1), 10),
            Sent("d", None, 20),
            Sent("tombstone", None, None),
            Sent("u", (UNSENT, "c", 2), 30),
            Sent("c", ("n", "m", 3), 40),
        ],
        ("n", "m", 3),
        [("a", "b", 1), ("n", "m", 3)],
        [3],
    ),
    "a change that is sent again": (
        [
            Sent("c", ("a", "b", 1), 10),
            Sent("u", (UNSENT, "c", 2), 20),
            Sent("u", ("z", "c", 3), 30),
            Sent("u", (UNSENT, "c", 2), 20),
        ],
        ("z", "c", 3),
        [("a", "b", 1), ("a", "c", 2), ("z", "c", 3)],
        [],
    ),
    "a change of a deleted row that is sent again": (
        [
            Sent("c", ("a", "b", 1), 10),
            Sent("u", (UNSENT, "c", 2), 20),
            Sent("d", None, 30),
            Sent("u", (UNSENT, "c", 2), 20),
        ],
        None,
        [("a", "b", 1), ("a", "c", 2)],
        [],
    ),
    "a value after one that was sent late": (
        [
            Sent("c", ("a", "b", 1), 10),
            Sent("u", ("x", "b", 3), 30),
            Sent("u", ("old", "b", 2), 20),
            Sent("u", (UNSENT, "b", 4), 40),
        ],
        ("x", "b", 4),
        [("a", "b", 1), ("old", "b", 2), ("x", "b", 3), ("x", "b", 4)],
        [],
    ),
    "a late change, which cannot take the value of a later one": (
        [
            Sent("c", ("a", "b", 1), 10),
            Sent("u", ("x", "b", 3), 30),
            Sent("u", (UNSENT, "b", 2), 20),
        ],
        ("x", "b", 3),
        [("a", "b", 1), ("x", "b", 3)],
        [2],
    ),
}


def decoded(spark: SparkSession, records: Sequence[tuple[int, int, Sent]]) -> DataFrame:
    """Return the changes of records (key, offset, record), as a job with these tables has them."""
    rows = []
    for key, offset, sent in records:
        content = sent.content(key)
        value = None if content is None else bytearray(content)
        record_key = bytearray(json.dumps({"id": key}).encode())
        rows.append(("t", 0, offset, at(offset), record_key, value, None))
    columns = "id INT NOT NULL, note STRING, text STRING, n INT"
    changes = debezium_format(columns, key="id").passing_unavailable()
    found = changes.decode(spark.createDataFrame(rows, RAW_SCHEMA))
    assert found.where("bad").count() == 0
    return found.select("record.*")


@contextmanager
def accepted(sink: Sink, changes: DataFrame) -> Iterator[tuple[dict[str, DataFrame], list[int]]]:
    """Yield what a job writes of a batch, and the offsets of the changes that it does not."""
    with sink.accepted({"rows": changes}, batch(0).plan) as found:
        offsets: list[int] = []
        for rows, reason in found.rejections:
            rejected = RejectedRows.find(rows, reason)
            assert rejected is not None
            letters = rejected.dead_letters.select("value", "stage", "reason").collect()
            assert {row["stage"] for row in letters} == {"sink"}
            assert all("no row before it: " in row["reason"] for row in letters)
            offsets += [json.loads(row["value"])["position"]["offset"] for row in letters]
        yield dict(found.frames), offsets


def written(
    spark: SparkSession, folder: Path, batches: Iterator[list[tuple[int, int, Sent]]]
) -> tuple[Expected, list[int]]:
    """Write batches; return what the tables have, and the offsets of the dead letters."""
    current, history = CurrentTable(str(folder / "c")), HistoryTable(str(folder / "h"))
    sink = FanOut(current, other_sinks=[history])
    dead: list[int] = []
    for number, records in enumerate(batches):
        changes = decoded(spark, records).persist()
        with accepted(sink, changes) as (frames, offsets):
            sink.write(frames, batch(number))
        dead += offsets
        changes.unpersist()
    found = Expected()
    for row in current.rows(spark).collect():
        found.current[row["id"]] = (row["note"], row["text"], row["n"])
    for row in history.rows(spark).orderBy("id", "valid_from").collect():
        found.versions.setdefault(row["id"], []).append((row["note"], row["text"], row["n"]))
    return found, sorted(dead)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_value_that_was_not_sent_is_that_of_the_row_before(
    one_by_one: bool, spark: SparkSession, tmp_path: Path
) -> None:
    records = [
        (key, 100 * key + index, sent)
        for key, (log, *_) in enumerate(LOGS.values(), 1)
        for index, sent in enumerate(log)
    ]
    batches = [records]
    if one_by_one:
        steps = max(len(log) for log, *_ in LOGS.values())
        batches = [[each for each in records if each[1] % 100 == step] for step in range(steps)]
    found, dead = written(spark, tmp_path, iter(batches))
    for key, (name, (_, current, versions, unusable)) in enumerate(LOGS.items(), 1):
        assert found.current.get(key) == current, name
        assert found.versions[key] == versions, name
        assert [offset - 100 * key for offset in dead if offset // 100 == key] == unusable, name


def drawn_log(chance: random.Random, keys: int, count: int) -> list[tuple[int, int, Sent]]:
    """Return changes of keys that are inserted, updated, deleted, truncated, and sent again."""
    log: list[tuple[int, int, Sent]] = []
    values: tuple[Any, ...] = ("a", "b", None, UNSENT, UNSENT)
    for offset in range(count):
        key, op = chance.randint(1, keys), chance.choice("uuuuuuuucrd")
        past = [sent for each, _, sent in log if each == key and sent.lsn is not None]
        if past and chance.random() < 0.15:
            log.append((key, offset, chance.choice(past)))
            continue
        row: Values | None = (chance.choice(values), chance.choice(values), offset)
        if op == "d":
            row = None
        elif op != "u":
            row = ("c", None, offset)
        log.append((key, offset, Sent(op, row, None if op == "r" else 10 + offset, 10 + offset)))
    return log


def expected_of(log: Sequence[tuple[int, int, Sent]]) -> tuple[Expected, list[int]]:
    """Return what the tables must have, change by change."""
    expected = Expected()
    dead: list[int] = []
    newest: dict[int, int] = {}
    applied: set[tuple[int, int | None]] = set()
    for key, offset, sent in log:
        row, values = expected.current.get(key), sent.values
        has_gap = values is not None and UNSENT in values
        if sent.lsn is not None and sent.lsn <= newest.get(key, -1):
            # The history has no version that precedes this one.
            if has_gap and (key, sent.lsn) not in applied:
                dead.append(offset)
            continue
        if values is not None and has_gap:
            if row is None:
                dead.append(offset)
                continue
            filled = [
                before if value == UNSENT else value
                for before, value in zip(row, values, strict=True)
            ]
            values = (filled[0], filled[1], filled[2])  # type: ignore[assignment]
        applied.add((key, sent.lsn))
        newest[key] = sent.lsn if sent.lsn is not None else newest.get(key, -1)
        if values is None:
            expected.current.pop(key, None)
        else:
            expected.current[key] = values
            expected.versions.setdefault(key, []).append(values)
    return expected, dead


@pytest.mark.draws("seeds", short=[range(1)], long=[range(1, 20)], ids=len)
def test_random_changes_leave_the_rows_of_the_oracle(
    seeds: range, spark: SparkSession, tmp_path: Path
) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        log = drawn_log(chance, keys=12, count=150)
        expected, dead = expected_of(log)
        cut = chance.randrange(1, len(log))
        batches = iter([log[:cut], log[cut:]])
        found, found_dead = written(spark, tmp_path / str(seed), batches)
        assert found.current == expected.current, seed
        assert found.versions == expected.versions, seed
        assert found_dead == dead, seed


def test_a_table_that_is_written_without_a_job_never_has_a_null_for_such_a_value(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = decoded(spark, [(1, 0, Sent("c", ("a", "b", 1), 10)), (2, 1, Sent("d", None, 20))])
    unfilled = {
        "no row": decoded(spark, [(3, 5, Sent("u", (UNSENT, "b", 2), 30))]),
        "a deleted row": decoded(spark, [(2, 5, Sent("u", (UNSENT, "b", 2), 30))]),
        "a row that the batch deletes": decoded(
            spark, [(1, 4, Sent("d", None, 25)), (1, 5, Sent("u", (UNSENT, "b", 2), 30))]
        ),
    }
    for sink_type in (CurrentTable, HistoryTable):
        sink = sink_type(str(tmp_path / sink_type.__name__))
        assert sink.write({"rows": first}, batch(0)) == "written"
        for changes in unfilled.values():
            with pytest.raises((SparkRuntimeException, Py4JJavaError), match="no row before"):
                sink.write({"rows": changes}, batch(1))
        new_table = sink_type(str(tmp_path / f"new_{sink_type.__name__}"))
        with pytest.raises((SparkRuntimeException, Py4JJavaError), match="no row before"):
            new_table.write({"rows": unfilled["no row"]}, batch(0))
        stored = [(row["id"], row["note"]) for row in sink.rows(spark).collect()]
        assert stored == [(1, "a")]
