"""Columns of a configuration are compared with the declared schema before Spark starts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from pyspark.sql import SparkSession

import tidegate
from tidegate.columns import as_schema
from tidegate.config import load_config
from tidegate.config.input_sections import declared_fields
from tidegate.errors import ConfigError
from tidegate.jobs import Enrich, Join, Windows

CONF = Path(tidegate.__file__).resolve().parents[1] / "conf" / "jobs"
SCHEMAS = [
    "a int",
    "a INT NOT NULL, b string comment 'one, two', c decimal(10, 2)",
    "a: int, b: struct<c: int, d: array<map<string, decimal(3,1)>>>",
    "`a b` int, `c``d` string, `e,f` double",
    'a struct<b: struct<c: int>> COMMENT "it\'s, here", d date',
    "event_time timestamp, `ÄÖ` string",
]


def shipped_schemas() -> Iterator[str]:
    for file in CONF.glob("*.toml"):
        for section in tomllib.loads(file.read_text()).values():
            if isinstance(section, dict) and "schema" in section:
                yield section["schema"]


@pytest.mark.parametrize("schema", [*SCHEMAS, *sorted(set(shipped_schemas()))])
def test_the_names_of_a_schema_are_those_that_spark_reads(schema: str, spark: SparkSession) -> None:
    assert declared_fields(schema) == as_schema(schema).fieldNames()


@pytest.mark.parametrize(
    "schema", ["", ",", "a int,", "struct<a: int>", "(a int)", "a int, b array<"]
)
def test_a_text_of_another_form_is_left_to_spark(schema: str) -> None:
    assert declared_fields(schema) is None


@pytest.mark.parametrize(
    ("model", "override", "message", "hint"),
    [
        (Windows, "window.by=sensors", "invalid window.by: unknown columns sensors", "'sensor'"),
        (Windows, "input.time=att", "invalid input.time: unknown columns att", "'at'"),
        (Windows, "aggregates.x=avg(valu)", "the input has no field 'valu'", "value"),
        (Join, "join.on=order", "invalid join.on in [left]: unknown columns order", "'order_id'"),
        (Join, "right.time=event_tim", "invalid right.time: unknown columns", "'event_time'"),
        (Enrich, "enrich.on=customers", "invalid enrich.on: unknown columns", "'customer'"),
        (Enrich, "input.time=tim", "invalid input.time: unknown columns tim", ""),
    ],
)
def test_an_unknown_column_is_refused_when_the_configuration_is_loaded(
    model: type[BaseModel], override: str, message: str, hint: str
) -> None:
    file = CONF / f"{model.name}.toml"  # type: ignore[attr-defined]
    with pytest.raises(ConfigError) as error:
        load_config(model, file, [override], {})
    assert message in error.value.problem
    assert error.value.remedy == hint
