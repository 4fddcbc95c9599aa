"""Random records, intact and corrupt, are decoded as by fastavro."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from tests.support.avro_corpus import RandomSchema, corrupt_bytes, is_same_value
from tidegate.formats import avro_format
from tidegate.formats.avro._avro_format import AvroReader

STRICTER_REASONS = ("wrong type", "out of range", "not finite", "malformed record", "invalid UTF-8")
"""Reasons for values that fastavro may accept: dates and decimals out of range, booleans of 2."""


def decode(schema: RandomSchema, values: list[bytes]) -> tuple[list[object], list[str | None]]:
    value_format = avro_format(schema.text)
    reader = AvroReader(value_format.reader, value_format.writer, value_format.registry)
    records, reasons = reader.read(pa.array(values, pa.binary()))
    records.validate(full=True)
    return records.to_pylist(), reasons.to_pylist()


def check_corrupt_records(seed: int, count: int) -> Counter[str]:
    """Decode random records, most of them corrupt; return the number of good and dead ones."""
    rng = random.Random(seed)
    schema = RandomSchema(rng)
    intact = [schema.encode(schema.random_record()) for _ in range(count)]
    values = [value if rng.random() < 0.3 else corrupt_bytes(rng, value) for value in intact]
    records, reasons = decode(schema, values)
    for record, value, reason in zip(records, values, reasons, strict=True):
        assert (record is None) == (reason is not None), (seed, value)
        try:
            expected = schema.decode(value)
        except Exception:
            assert reason is not None, (seed, schema.text, value, record)
            continue
        if reason is None:
            assert is_same_value(record, expected), (seed, schema.text, value, record, expected)
        else:
            assert reason.startswith(STRICTER_REASONS), (seed, schema.text, value, reason, expected)
    return Counter("dead" if reason else "good" for reason in reasons)


@pytest.mark.draws("count", short=[60], long=[6_000])
def test_intact_records_are_decoded_as_written(count: int) -> None:
    for seed in range(count):
        schema = RandomSchema(random.Random(seed))
        values = [schema.encode(schema.random_record()) for _ in range(30)]
        records, reasons = decode(schema, values)
        assert reasons == [None] * len(values), (seed, schema.text, reasons)
        for record, value in zip(records, values, strict=True):
            assert is_same_value(record, schema.decode(value)), (seed, schema.text, value)


@pytest.mark.draws("count", short=[60], long=[6_000])
def test_a_corrupt_record_matches_fastavro_or_is_dead_and_affects_no_other_record(
    count: int,
) -> None:
    for seed in range(count):
        check_corrupt_records(-seed - 1, 60)
