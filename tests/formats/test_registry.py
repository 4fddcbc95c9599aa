"""Requests to a schema registry, and its failures."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from tests.support.avro_corpus import encode_records, record_schema, with_header
from tests.support.raw_records import raw
from tests.support.registry_server import FakeRegistry, registry_server
from tidegate.errors import ArgumentError, RegistryError, SourceError
from tidegate.formats import SchemaRegistry, avro_format
from tidegate.formats.avro._avro_format import AvroReader
from tidegate.spark.spark_errors import translate_error

CLICK = record_schema(page="string")
VALUE = encode_records(CLICK, {"page": "/a"})[0]


@pytest.fixture
def served() -> Iterator[FakeRegistry]:
    with registry_server() as registry:
        registry.register(1, "clicks-value", CLICK)
        yield registry


def client(served: FakeRegistry, **arguments: Any) -> SchemaRegistry:
    return SchemaRegistry(served.url, retry_delay="0 seconds", attempts=3, **arguments)


def test_a_schema_is_fetched_once_and_an_unknown_id_each_time(served: FakeRegistry) -> None:
    registry = client(served)
    schemas = [registry.by_id(schema_id) for schema_id in (1, 1, 9, 9)]
    texts = [None if schema is None else schema.text for schema in schemas]
    assert texts == [CLICK, CLICK, None, None]
    assert served.requested_paths == ["/schemas/ids/1", "/schemas/ids/9", "/schemas/ids/9"]
    served.register(9, "clicks-value", CLICK)
    assert registry.by_id(9) is not None


def test_the_latest_schema_of_a_subject_is_returned(served: FakeRegistry) -> None:
    served.register(2, "a/b-value", record_schema(page="string", ms="int"))
    registry = client(served)
    assert registry.latest_schema("a/b-value") == record_schema(page="string", ms="int")
    served.register(3, "a/b-value", CLICK)
    assert registry.latest_schema("a/b-value") == CLICK
    with pytest.raises(RegistryError, match="unknown subject 'missing-value'"):
        client(served).latest_schema("missing-value")


def test_referenced_schemas_are_fetched_first(served: FakeRegistry) -> None:
    place = {"type": "record", "name": "Place", "namespace": "geo"}
    place["fields"] = [{"name": "at", "type": "geo.Point"}]  # type: ignore[assignment]
    point = {"type": "record", "name": "geo.Point", "fields": [{"name": "x", "type": "int"}]}
    served.register(3, "point", json.dumps(point))
    to_point = [{"name": "geo.Point", "subject": "point", "version": 1}]
    served.register(4, "place", json.dumps(place), references=to_point)
    to_place = [{"name": "geo.Place", "subject": "place", "version": 1}]
    served.register(5, "visit", record_schema(where="geo.Place"), references=to_place)
    point_type = StructType([StructField("x", IntegerType())])
    place_type = StructType([StructField("at", point_type)])
    columns = StructType([StructField("where", place_type)])
    value_format = avro_format(columns, registry=client(served))
    records, reasons = AvroReader(
        value_format.reader, value_format.writer, value_format.registry
    ).read(pa.array([with_header(5, b"\x0e")]))
    assert reasons.to_pylist() == [None]
    assert records.to_pylist() == [{"where": {"at": {"x": 7}}}]


@pytest.mark.parametrize("planned", [[503, None], [None, 429], [500, 502]])
def test_transient_failures_are_retried(
    served: FakeRegistry, planned: list[int | bytes | None]
) -> None:
    served.planned_responses = planned
    assert client(served).by_id(1) is not None


@pytest.mark.parametrize(
    ("planned", "message"),
    [
        ([503] * 3, "is unavailable\n  cause: status 503, 3 attempts"),
        ([401], "denies access\n  cause: status 401"),
        ([404], "unexpected response from the schema registry .*\n  cause: status 404"),
        ([302], "status 302"),
        ([b"<html>"], "not a schema in JSON"),
        ([b"[]"], "not a schema in JSON"),
        ([b"{}"], "no schema"),
        ([b'{"schema": "x", "references": [1]}'], "not a schema in JSON"),
        ([b'{"schema": "x", "references": [{"name": "n"}]}'], "invalid reference"),
        (
            [b'{"schema":"x","references":[{"name":"n","subject":"missing","version":1}]}'],
            "reference to version 1 of missing, which does not exist",
        ),
    ],
)
def test_failures_and_unexpected_responses_are_errors(
    served: FakeRegistry, planned: list[int | bytes | None], message: str
) -> None:
    served.planned_responses = planned
    with pytest.raises(RegistryError, match=message):
        client(served).by_id(1)


def test_an_unreachable_registry_is_an_error_with_its_address() -> None:
    with pytest.raises(SourceError, match=r"http://127\.0\.0\.1:9 is unavailable"):
        SchemaRegistry("http://127.0.0.1:9", attempts=2, retry_delay="0 seconds").by_id(1)


def test_credentials_are_sent_and_never_shown(served: FakeRegistry) -> None:
    pair = base64.b64encode(b"reader:canary").decode()
    served.authorization = f"Basic {pair}"
    registry = client(served, user="reader", password="canary")
    assert registry.by_id(1) is not None
    assert "canary" not in repr(registry)
    assert pickle.loads(pickle.dumps(registry)).by_id(1) is not None
    served.authorization = "Bearer canary"
    assert client(served, token="canary").latest_schema("clicks-value") == CLICK
    with pytest.raises(RegistryError, match="denies access") as error_info:
        client(served, token="other-canary").latest_schema("clicks-value")
    assert "canary" not in str(error_info.value)


@pytest.mark.parametrize(
    ("url", "credentials"),
    [
        ("localhost:8081", {}),
        ("ftp://localhost", {}),
        ("http://user:canary@localhost", {}),
        ("http://localhost", {"user": "u"}),
        ("http://localhost", {"user": "u", "password": "canary", "token": "canary"}),
    ],
)
def test_invalid_addresses_and_credentials_are_rejected(
    url: str, credentials: dict[str, str]
) -> None:
    with pytest.raises(ArgumentError) as error_info:
        SchemaRegistry(url, **credentials)  # type: ignore[arg-type]
    assert "canary" not in str(error_info.value)


def test_an_unknown_id_is_a_dead_letter_and_an_unavailable_registry_stops_the_query(
    spark: SparkSession, served: FakeRegistry
) -> None:
    value_format = avro_format(CLICK, registry=client(served))
    served.register(6, "clicks-value", CLICK)
    values = [with_header(6, VALUE), with_header(8, VALUE), b"\x01"]
    decoded = value_format.decode(raw(spark, values))
    rows = decoded.orderBy("offset").select("record.page", "bad").collect()
    assert [tuple(row) for row in rows] == [("/a", False), (None, True), (None, True)]
    reasons = value_format.explain_failures(decoded.where("bad")).orderBy("offset").collect()
    assert [row.reason for row in reasons] == ["unknown schema id: 8", "wrong magic byte"]
    served.planned_responses = [503] * 100
    with pytest.raises(PythonException) as failure:
        decoded.collect()
    error = translate_error(failure.value)
    assert isinstance(error, RegistryError)
    assert error.problem == f"the schema registry {served.url} is unavailable"
    assert error.detail == "status 503, 3 attempts."
