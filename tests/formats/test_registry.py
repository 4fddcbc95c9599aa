"""A schema registry that is asked, and what becomes of records when it does not answer."""

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

from tidegate.errors import ArgumentError, RegistryError, SourceError
from tidegate.formats import Registry, avro_format
from tidegate.formats.avro._reader import AvroReader
from tidegate.runtime.process.failures import plain

from ..sources.raw import raw
from .registry_server import Recorded, registry_server
from .test_avro import record, under, written

CLICK = record(page="string")
VALUE = written(CLICK, {"page": "/a"})[0]


@pytest.fixture
def served() -> Iterator[Recorded]:
    with registry_server() as recorded:
        recorded.register(1, "clicks-value", CLICK)
        yield recorded


def registry(served: Recorded, **how: Any) -> Registry:
    return Registry(served.url, pause="0 seconds", attempts=3, **how)


def test_a_schema_is_asked_for_once_and_an_unknown_one_each_time(served: Recorded) -> None:
    asked = registry(served)
    found = [asked.by_id(number) for number in (1, 1, 9, 9)]
    assert [None if each is None else each.text for each in found] == [CLICK, CLICK, None, None]
    assert served.asked == ["/schemas/ids/1", "/schemas/ids/9", "/schemas/ids/9"]
    served.register(9, "clicks-value", CLICK)
    assert asked.by_id(9) is not None


def test_the_newest_schema_of_a_subject_is_found_by_its_name(served: Recorded) -> None:
    served.register(2, "a/b-value", record(page="string", ms="int"))
    assert registry(served).latest("a/b-value") == record(page="string", ms="int")
    with pytest.raises(RegistryError, match="has no subject 'gone-value'"):
        registry(served).latest("gone-value")


def test_schemas_that_a_schema_names_are_fetched_before_it(served: Recorded) -> None:
    place = {"type": "record", "name": "Place", "namespace": "geo"}
    place["fields"] = [{"name": "at", "type": "geo.Point"}]  # type: ignore[assignment]
    point = {"type": "record", "name": "geo.Point", "fields": [{"name": "x", "type": "int"}]}
    served.register(3, "point", json.dumps(point))
    to_point = [{"name": "geo.Point", "subject": "point", "version": 1}]
    served.register(4, "place", json.dumps(place), references=to_point)
    to_place = [{"name": "geo.Place", "subject": "place", "version": 1}]
    served.register(5, "visit", record(where="geo.Place"), references=to_place)
    point_type = StructType([StructField("x", IntegerType())])
    place_type = StructType([StructField("at", point_type)])
    wanted = StructType([StructField("where", place_type)])
    form = avro_format(wanted, registry=registry(served))
    records, reasons = AvroReader(form.reader, form.writer, form.registry).read(
        pa.array([under(5, b"\x0e")])
    )
    assert reasons.to_pylist() == [None]
    assert records.to_pylist() == [{"where": {"at": {"x": 7}}}]


@pytest.mark.parametrize("planned", [[503, None], [None, 429], [500, 502]])
def test_a_registry_that_fails_for_a_while_is_asked_again(
    served: Recorded, planned: list[int | bytes | None]
) -> None:
    served.answers = planned
    assert registry(served).by_id(1) is not None


@pytest.mark.parametrize(
    ("planned", "why"),
    [
        ([503] * 3, "does not answer: status 503, 3 times"),
        ([401], "refuses who asks: status 401"),
        ([404], "answers not as a schema registry does: status 404"),
        ([302], "status 302"),
        ([b"<html>"], "no JSON object"),
        ([b"[]"], "no JSON object"),
        ([b"{}"], "no schema in its answer"),
        ([b'{"schema": "x", "references": [1]}'], "a reference 1"),
        (
            [b'{"schema":"x","references":[{"name":"n","subject":"gone","version":1}]}'],
            "/subjects/gone/versions/1, which it does not have",
        ),
    ],
)
def test_no_answer_and_a_wrong_one_are_errors_and_no_missing_schema(
    served: Recorded, planned: list[int | bytes | None], why: str
) -> None:
    served.answers = planned
    with pytest.raises(RegistryError, match=why):
        registry(served).by_id(1)


def test_a_registry_that_is_not_there_is_named() -> None:
    with pytest.raises(SourceError, match=r"http://127\.0\.0\.1:9 does not answer"):
        Registry("http://127.0.0.1:9", attempts=2, pause="0 seconds").by_id(1)


def test_who_asks_says_who_they_are_and_tells_nobody_else(served: Recorded) -> None:
    pair = base64.b64encode(b"reader:canary").decode()
    served.authorization = f"Basic {pair}"
    asked = registry(served, user="reader", password="canary")
    assert asked.by_id(1) is not None
    assert "canary" not in repr(asked)
    assert pickle.loads(pickle.dumps(asked)).by_id(1) is not None
    served.authorization = "Bearer canary"
    assert registry(served, token="canary").latest("clicks-value") == CLICK
    with pytest.raises(RegistryError, match="refuses who asks") as refused:
        registry(served, token="other-canary").latest("clicks-value")
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "more"),
    [
        ("localhost:8081", {}),
        ("ftp://localhost", {}),
        ("http://user:canary@localhost", {}),
        ("http://localhost", {"user": "u"}),
        ("http://localhost", {"user": "u", "password": "canary", "token": "canary"}),
    ],
)
def test_an_address_or_secrets_that_do_not_go_together_are_refused(
    url: str, more: dict[str, str]
) -> None:
    with pytest.raises(ArgumentError) as refused:
        Registry(url, **more)  # type: ignore[arg-type]
    assert "canary" not in str(refused.value)


def test_an_unknown_id_is_a_dead_letter_and_a_silent_registry_stops_the_query(
    spark: SparkSession, served: Recorded
) -> None:
    form = avro_format(CLICK, registry=registry(served))
    served.register(6, "clicks-value", CLICK)
    values = [under(6, VALUE), under(8, VALUE), b"\x01"]
    decoded = form.decode(raw(spark, values))
    rows = decoded.orderBy("offset").select("record.page", "bad").collect()
    assert [tuple(row) for row in rows] == [("/a", False), (None, True), (None, True)]
    reasons = form.diagnose(decoded.where("bad")).orderBy("offset").collect()
    assert [row.reason for row in reasons] == ["unknown schema id: 8", "wrong magic byte"]
    served.answers = [503] * 100
    with pytest.raises(PythonException) as stopped:
        decoded.collect()
    told = plain(stopped.value)
    assert isinstance(told, RegistryError)
    assert told.given == f"the schema registry {served.url} does not answer: status 503, 3 times."
