"""The plan of a batch, as the checkpoint tells it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.commit import Batch, planned
from tidegate.errors import CheckpointError

META = '{"batchWatermarkMs":%d,"batchTimestampMs":5,"conf":{}}'


def write(checkpoint: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        file = checkpoint / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return str(checkpoint)


def plan(spark: SparkSession, checkpoint: str, number: int) -> Batch:
    return planned(spark, checkpoint, job="j", query_id="q", run_id="r", number=number)


def test_a_batch_reads_from_the_one_before_and_a_new_partition_from_its_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    second = f'v1\n{META % 7}\n{{"t":{{"0":9,"1":4}}}}'
    where = write(
        tmp_path,
        {
            "sources/0/0": '\0v1\n{"t":{"0":2}}',
            "offsets/0": f'v1\n{META % 0}\n{{"t":{{"0":5}}}}',
            "offsets/1": second,
        },
    )
    first = plan(spark, where, 0)
    assert (first.start, first.end) == ({"t": {0: 2}}, {"t": {0: 5}})
    then = plan(spark, f"file://{where}", 1)
    assert (then.start, then.end) == ({"t": {0: 5, 1: 0}}, {"t": {0: 9, 1: 4}})
    assert then.offsets_hash == hashlib.sha256(second.encode()).hexdigest()
    assert then.watermark == datetime(1970, 1, 1, 0, 0, 0, 7000, tzinfo=UTC)
    assert then.late_watermark == datetime(1970, 1, 1, tzinfo=UTC)


def test_two_sources_are_read_together_and_one_that_has_nothing_yet_is_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    where = write(
        tmp_path,
        {
            "sources/0/0": '\0v1\n{"a":{"0":0}}',
            "sources/1/0": '\0v1\n{"b":{"0":3}}',
            "offsets/0": f'v1\n{META % 0}\n{{"a":{{"0":5}}}}\n-',
            "offsets/1": f'v1\n{META % 0}\n{{"a":{{"0":6}}}}\n{{"b":{{"0":4}}}}',
            "offsets/2": f"v1\n{META % 0}\n17",
        },
    )
    assert (plan(spark, where, 0).start, plan(spark, where, 0).end) == (
        {"a": {0: 0}},
        {"a": {0: 5}},
    )
    assert plan(spark, where, 1).start == {"a": {0: 5}, "b": {0: 3}}
    assert (plan(spark, where, 2).start, plan(spark, where, 2).end) == ({}, {})


def test_a_source_that_is_used_twice_has_one_file_and_two_places(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of [a, a, b] Spark keeps what a began with as source 0, and what b began with as source 1."""
    a = '{"a":{"0":7}}'
    where = write(
        tmp_path,
        {
            "sources/0/0": '\0v1\n{"a":{"0":5}}',
            "sources/1/0": '\0v1\n{"b":{"0":3}}',
            "offsets/0": f'v1\n{META % 0}\n{a}\n{a}\n{{"b":{{"0":4}}}}',
        },
    )
    first = plan(spark, where, 0)
    assert first.start == {"a": {0: 5}, "b": {0: 3}}
    assert first.end == {"a": {0: 7}, "b": {0: 4}}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "offsets/1 is missing"),
        ({"offsets/1": ""}, "offsets/1 begins with ''"),
        ({"offsets/1": "v9\n{}\n{}"}, "begins with 'v9'"),
        ({"offsets/1": "v1\n{\n{}"}, "metadata that is no JSON"),
        ({"offsets/1": 'v1\n{}\n{"t":'}, "offsets that cannot be read"),
        ({"offsets/1": 'v1\n{}\n{"t":{"0":1}}'}, "offsets/0 is missing"),
        (
            {"offsets/1": 'v1\n{}\n{"t":{"0":1}}', "offsets/0": "v1\n{}\n-"},
            "sources/0/0 is missing",
        ),
    ],
)
def test_a_damaged_checkpoint_is_named_with_its_file(
    spark: SparkSession, tmp_path: Path, files: dict[str, str], says: str
) -> None:
    with pytest.raises(CheckpointError, match=says):
        plan(spark, write(tmp_path, files), 1)
