"""The plan of a batch in the checkpoint."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.commit.batch import BatchPlan, read_batch_plan
from tidegate.errors import CheckpointError

META = '{"batchWatermarkMs":%d,"batchTimestampMs":5,"conf":{}}'


def write(checkpoint: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        file = checkpoint / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return str(checkpoint)


def plan(spark: SparkSession, checkpoint: str, number: int) -> BatchPlan:
    return read_batch_plan(spark, checkpoint, job="j", query_id="q", run_id="r", number=number)


def test_a_batch_starts_at_the_end_of_the_previous_one_and_a_new_partition_at_0(
    spark: SparkSession, tmp_path: Path
) -> None:
    second = f'v1\n{META % 7}\n{{"t":{{"0":9,"1":4}}}}'
    checkpoint = write(
        tmp_path,
        {
            "sources/0/0": '\0v1\n{"t":{"0":2}}',
            "offsets/0": f'v1\n{META % 0}\n{{"t":{{"0":5}}}}',
            "offsets/1": second,
        },
    )
    first = plan(spark, checkpoint, 0)
    assert (first.start, first.end) == ({"t": {0: 2}}, {"t": {0: 5}})
    second_batch = plan(spark, f"file://{checkpoint}", 1)
    assert (second_batch.start, second_batch.end) == ({"t": {0: 5, 1: 0}}, {"t": {0: 9, 1: 4}})
    assert second_batch.offsets_hash == hashlib.sha256(second.encode()).hexdigest()
    assert second_batch.watermark == datetime(1970, 1, 1, 0, 0, 0, 7000, tzinfo=UTC)
    assert second_batch.late_watermark == datetime(1970, 1, 1, tzinfo=UTC)


def test_a_batch_has_the_offsets_of_all_sources_that_have_any(
    spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = write(
        tmp_path,
        {
            "sources/0/0": '\0v1\n{"a":{"0":0}}',
            "sources/1/0": '\0v1\n{"b":{"0":3}}',
            "offsets/0": f'v1\n{META % 0}\n{{"a":{{"0":5}}}}\n-',
            "offsets/1": f'v1\n{META % 0}\n{{"a":{{"0":6}}}}\n{{"b":{{"0":4}}}}',
            "offsets/2": f"v1\n{META % 0}\n17",
        },
    )
    assert (plan(spark, checkpoint, 0).start, plan(spark, checkpoint, 0).end) == (
        {"a": {0: 0}},
        {"a": {0: 5}},
    )
    assert plan(spark, checkpoint, 1).start == {"a": {0: 5}, "b": {0: 3}}
    assert (plan(spark, checkpoint, 2).start, plan(spark, checkpoint, 2).end) == ({}, {})


def test_a_source_that_is_used_twice_has_one_file_of_initial_offsets(
    spark: SparkSession, tmp_path: Path
) -> None:
    """For [a, a, b] Spark stores the initial offsets of a as source 0, of b as source 1."""
    a = '{"a":{"0":7}}'
    checkpoint = write(
        tmp_path,
        {
            "sources/0/0": '\0v1\n{"a":{"0":5}}',
            "sources/1/0": '\0v1\n{"b":{"0":3}}',
            "offsets/0": f'v1\n{META % 0}\n{a}\n{a}\n{{"b":{{"0":4}}}}',
        },
    )
    first = plan(spark, checkpoint, 0)
    assert first.start == {"a": {0: 5}, "b": {0: 3}}
    assert first.end == {"a": {0: 7}, "b": {0: 4}}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "offsets/1 is missing"),
        ({"offsets/1": ""}, "offsets/1 starts with ''"),
        ({"offsets/1": "v9\n{}\n{}"}, "starts with 'v9'"),
        ({"offsets/1": "v1\n{\n{}"}, "metadata that is not JSON"),
        ({"offsets/1": 'v1\n{}\n{"t":'}, "offsets that cannot be read"),
        ({"offsets/1": 'v1\n{}\n{"t":{"0":1}}'}, "offsets/0 is missing"),
        (
            {"offsets/1": 'v1\n{}\n{"t":{"0":1}}', "offsets/0": "v1\n{}\n-"},
            "sources/0/0 is missing",
        ),
    ],
)
def test_a_damaged_file_is_named(
    spark: SparkSession, tmp_path: Path, files: dict[str, str], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        plan(spark, write(tmp_path, files), 1)
