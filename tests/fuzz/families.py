"""What is drawn: for each family of inputs how many of a hundred, and what reads a portion."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ..changes.test_fuzz import mutated_read
from ..formats import test_avro_fuzz, test_protobuf
from ..formats.test_alike import differing
from ..formats.test_arrow_json import SCHEMAS, different, drawn
from ..formats.test_fuzz import json_read, keyed_read
from ..runtime.test_config_fuzz import loaded
from ..sketches.test_stored import damaged_read, whole_ones

Read = Callable[[Any, int, int], "Counter[str]"]
"""Draws so many inputs by a seed and reads them, by a session of Spark's where that is needed;
returns how many were good and how many were not, and fails for an input that is neither."""


@dataclass(frozen=True)
class Family:
    """Inputs of one kind.

    share: how many of a hundred inputs are of it. portion: how many are read at a time.
    alone: whether they are read without Spark.
    """

    share: int
    portion: int
    read: Read
    alone: bool = False


def _parsers(spark: SparkSession, seed: int, count: int) -> Counter[str]:
    """Read values by Arrow's parser and by Spark's."""
    schemas = list(SCHEMAS.values())
    assert different(spark, schemas[seed % len(schemas)], drawn(seed, count)) == []
    return Counter(alike=count)


def _alike(spark: SparkSession, seed: int, count: int) -> Counter[str]:
    """Read values of a few templates by numpy and by Spark's parser."""
    names = ["flat", "odd", "required"]
    each = 500
    seeds = range(seed * 1_000, seed * 1_000 + count // each)
    assert differing(spark, SCHEMAS[names[seed % len(names)]], seeds, each) == []
    return Counter(alike=count)


def _avro(_: None, seed: int, count: int) -> Counter[str]:
    """Read records of many schemas."""
    each = 60
    found = Counter[str]()
    for at in range(0, count, each):
        found += test_avro_fuzz.damaged_read(seed * 100_003 + at, min(each, count - at))
    return found


def _protobuf(_: None, seed: int, count: int) -> Counter[str]:
    return test_protobuf.damaged_read(seed, count)


def _sketches(spark: SparkSession, seed: int, count: int) -> Counter[str]:
    """Read at least so many sketches; each of four kinds gives some 220 at a time."""
    times = max(1, count // 880)
    wanted = ("whole label", "kind alone")[seed % 2]
    return damaged_read(spark, whole_ones(spark), wanted, seed, times)


def _configuration(_: None, seed: int, count: int) -> Counter[str]:
    with tempfile.TemporaryDirectory(prefix="tidegate-fuzz-") as folder:
        return loaded(Path(folder), seed, count)


def _envelopes(name: str) -> Read:
    return partial(_enveloped, name)


def _enveloped(name: str, spark: SparkSession, seed: int, count: int) -> Counter[str]:
    return mutated_read(spark, name, seed, count)


FAMILIES: dict[str, Family] = {
    "json": Family(28, 20_000, json_read),
    "json with a key": Family(10, 20_000, keyed_read),
    "two parsers of json": Family(8, 20_000, _parsers),
    "json of a template": Family(6, 20_000, _alike),
    "avro": Family(14, 6_000, _avro, alone=True),
    "protobuf": Family(10, 10_000, _protobuf, alone=True),
    "debezium": Family(6, 10_000, _envelopes("debezium")),
    "maxwell": Family(6, 10_000, _envelopes("maxwell")),
    "sketches": Family(8, 10_000, _sketches),
    "configuration": Family(4, 2_000, _configuration, alone=True),
}
