"""Records of any schema, whole and damaged, read as another reader of Avro reads them."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from tidegate.formats import avro_format
from tidegate.formats.avro._reader import AvroReader

from .avro_corpus import Drawn, damaged, same

STRICTER = ("wrong type", "malformed record", "invalid UTF-8")
"""What the other reader may let pass: dates and decimals out of bounds, truths of 2."""


def read(drawn: Drawn, values: list[bytes]) -> tuple[list[object], list[str | None]]:
    form = avro_format(drawn.text)
    reader = AvroReader(form.reader, form.writer, form.registry)
    records, reasons = reader.read(pa.array(values, pa.binary()))
    records.validate(full=True)
    return records.to_pylist(), reasons.to_pylist()


def damaged_read(seed: int, count: int) -> Counter[str]:
    """Draw a schema and records of it, most of them damaged; return how many were good and dead."""
    chance = random.Random(seed)
    drawn = Drawn(chance)
    whole = [drawn.written(drawn.record()) for _ in range(count)]
    values = [value if chance.random() < 0.3 else damaged(chance, value) for value in whole]
    found, reasons = read(drawn, values)
    for one, value, reason in zip(found, values, reasons, strict=True):
        assert (one is None) == (reason is not None), (seed, value)
        try:
            other = drawn.read(value)
        except Exception:
            assert reason is not None, (seed, drawn.text, value, one)
            continue
        if reason is None:
            assert same(one, other), (seed, drawn.text, value, one, other)
        else:
            assert reason.startswith(STRICTER), (seed, drawn.text, value, reason, other)
    return Counter("dead" if reason else "good" for reason in reasons)


@pytest.mark.draws("count", short=[60], long=[6_000])
def test_whole_records_are_read_as_they_were_written(count: int) -> None:
    for seed in range(count):
        drawn = Drawn(random.Random(seed))
        records = [drawn.record() for _ in range(30)]
        values = [drawn.written(record) for record in records]
        found, reasons = read(drawn, values)
        assert reasons == [None] * len(values), (seed, drawn.text, reasons)
        for one, value in zip(found, values, strict=True):
            assert same(one, drawn.read(value)), (seed, drawn.text, value)


@pytest.mark.draws("count", short=[60], long=[6_000])
def test_a_damaged_record_is_what_another_reader_makes_of_it_or_dead_and_harms_no_other(
    count: int,
) -> None:
    for seed in range(count):
        damaged_read(-seed - 1, 60)
