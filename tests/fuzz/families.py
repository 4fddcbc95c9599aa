"""The families of fuzz inputs: the share of each, and the function that draws and checks inputs."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.changelogs.test_fuzz import decode_mutated
from tests.config.test_config_fuzz import load_random_configs
from tests.formats import test_avro_fuzz, test_protobuf
from tests.formats.test_fuzz import check_json_values, check_keyed_values
from tests.formats.test_json_arrow_reader import (
    SCHEMAS,
    parser_differences,
    random_values,
    uniform_value_differences,
)
from tests.sketches.test_envelope import build_sketches, read_damaged_sketches

Check = Callable[[Any, int, int], "Counter[str]"]
"""Draws inputs for a session, a seed and a count, and returns the number of inputs by outcome.

Raises an error for an input that is neither valid nor rejected with a reason."""


@dataclass(frozen=True)
class Family:
    """Inputs of one kind.

    share: the percentage of all inputs. chunk_size: the number of inputs per call of `check`.
    needs_spark: whether `check` needs a session.
    """

    share: int
    chunk_size: int
    check: Check
    needs_spark: bool = True


def _check_parsers(spark: SparkSession, seed: int, count: int) -> Counter[str]:
    schemas = list(SCHEMAS.values())
    schema = schemas[seed % len(schemas)]
    assert parser_differences(spark, schema, random_values(seed, count)) == []
    return Counter(alike=count)


def _check_uniform_objects(spark: SparkSession, seed: int, count: int) -> Counter[str]:
    names = ["flat", "odd", "required"]
    batch_size = 500
    seeds = range(seed * 1_000, seed * 1_000 + count // batch_size)
    schema = SCHEMAS[names[seed % len(names)]]
    assert uniform_value_differences(spark, schema, seeds, batch_size) == []
    return Counter(alike=count)


def _check_avro(_: None, seed: int, count: int) -> Counter[str]:
    records_per_schema = 60
    counts = Counter[str]()
    for start in range(0, count, records_per_schema):
        counts += test_avro_fuzz.check_corrupt_records(
            seed * 100_003 + start, min(records_per_schema, count - start)
        )
    return counts


def _check_protobuf(_: None, seed: int, count: int) -> Counter[str]:
    return test_protobuf.check_corrupt_messages(seed, count)


def _check_sketches(spark: SparkSession, seed: int, count: int) -> Counter[str]:
    """Check at least `count` sketches; each round has some 220 of each of four kinds."""
    rounds = max(1, count // 880)
    envelope_part = ("complete label", "kind")[seed % 2]
    return read_damaged_sketches(spark, build_sketches(spark), envelope_part, seed, rounds)


def _check_configuration(_: None, seed: int, count: int) -> Counter[str]:
    with tempfile.TemporaryDirectory(prefix="tidegate-fuzz-") as folder:
        return load_random_configs(Path(folder), seed, count)


def _check_envelopes(name: str, spark: SparkSession, seed: int, count: int) -> Counter[str]:
    return decode_mutated(spark, name, seed, count)


FAMILIES: dict[str, Family] = {
    "json": Family(28, 20_000, check_json_values),
    "json with a key": Family(10, 20_000, check_keyed_values),
    "two parsers of json": Family(8, 20_000, _check_parsers),
    "json with the same names": Family(6, 20_000, _check_uniform_objects),
    "avro": Family(14, 6_000, _check_avro, needs_spark=False),
    "protobuf": Family(10, 10_000, _check_protobuf, needs_spark=False),
    "debezium": Family(6, 10_000, partial(_check_envelopes, "debezium")),
    "maxwell": Family(6, 10_000, partial(_check_envelopes, "maxwell")),
    "sketches": Family(8, 10_000, _check_sketches),
    "configuration": Family(4, 2_000, _check_configuration, needs_spark=False),
}
