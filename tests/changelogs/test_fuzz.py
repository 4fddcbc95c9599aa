"""Fuzzed records are either changes or dead letters with a reason, and never raise."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from tests.formats import test_debezium, test_maxwell
from tests.support.changelog_frames import Record, raw
from tidegate.changelogs import history_rows, latest_changes
from tidegate.formats import debezium_format, maxwell_format
from tidegate.formats._change_envelope import ChangeFormat

FORMATS = {
    "debezium": (
        debezium_format,
        test_debezium.COLUMNS,
        [record for record, *_ in test_debezium.GOOD],
    ),
    "maxwell": (maxwell_format, test_maxwell.COLUMNS, [record for record, _ in test_maxwell.GOOD]),
}
TOKENS = [
    b"null",
    b"{}",
    b"[",
    b"9" * 30,
    b"-1",
    b'"',
    b"\xff",
    b"1e999",
    b"true",
    b"\\u0000",
    b'"op":"t"',
    b"F:G:",
]


RECORDS_PER_SEED = 3_000
UNUSABLE = "position.offset is null or (op <> 'truncate' and key.id is null)"


def mutated(chance: random.Random, value: bytes) -> bytes:
    content = bytearray(value)
    for _ in range(chance.randint(0, 3)):
        at = chance.randrange(len(content) + 1)
        until = min(len(content), at + chance.choice([0, 1, 2, 9]))
        content[at:until] = chance.choice(
            [b"", bytes([chance.randrange(256)]), chance.choice(TOKENS)]
        )
    return bytes(content)


def corpus(seed: int, valid_records: list[Record], count: int) -> list[Record]:
    chance = random.Random(seed)

    def damaged(part: object) -> bytes | None:
        if chance.random() < 0.05:
            return None
        return mutated(chance, json.dumps(part).encode() if part is not None else b"")

    return [(damaged(key), damaged(value)) for key, value in chance.choices(valid_records, k=count)]


def decode_mutated(spark: SparkSession, name: str, seed: int, count: int) -> Counter[str]:
    """Decode damaged envelopes; return the numbers of changes and dead letters."""
    make, columns, valid_records = FORMATS[name]
    form: ChangeFormat = make(columns, key="id")
    decoded = form.decode(raw(spark, corpus(seed, valid_records, count))).persist()
    try:
        good = decoded.where("not bad").select("record.*")
        kinds = {row.op: row["count"] for row in good.groupBy("op").count().collect()}
        reasons = {
            row.reason: row["count"]
            for row in form.explain_failures(decoded.where("bad and not skipped"))
            .groupBy("reason")
            .count()
            .collect()
        }
        skipped = decoded.where("skipped").count()
        assert sum(kinds.values()) + sum(reasons.values()) + skipped == count
        assert {"create", "update", "delete", "tombstone"} <= set(kinds)
        assert None not in reasons
        assert len(reasons) > 8 or count < RECORDS_PER_SEED
        assert good.where(UNUSABLE).count() == 0
        assert latest_changes(good).count() > 0
        assert history_rows(good.where("event_time is not null")).count() > 0
        return Counter(good=sum(kinds.values()), dead=sum(reasons.values()))
    finally:
        decoded.unpersist()


@pytest.mark.jobs
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.draws("seeds", short=[range(17, 18)], long=[range(17, 67)], ids=len)
@pytest.mark.slow
def test_mutated_records_are_changes_or_dead_letters_and_never_raise(
    spark: SparkSession, name: str, seeds: range
) -> None:
    for seed in seeds:
        decode_mutated(spark, name, seed, RECORDS_PER_SEED)
