"""Documents run past standing queries, beside an oracle in plain Python."""

from __future__ import annotations

import unicodedata
from collections import Counter
from datetime import datetime, timedelta
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.patterns import SearchFields, matches, parse_query, read_queries

from .oracle import FIELDS, SCHEMA, START, document, fits, query


def named(row: tuple[object, ...]) -> dict[str, object]:
    return dict(zip([part.split()[0] for part in SCHEMA.split(", ")], row, strict=True))


def pairs(found: DataFrame, *names: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in found.select(*names).collect())


@pytest.mark.draws("seed", short=[0], long=list(range(6)))
@pytest.mark.slow
def test_a_document_meets_just_the_queries_that_an_oracle_names(
    spark: SparkSession, seed: int
) -> None:
    random = Random(seed)
    documents = [document(random, number) for number in range(40)]
    queries = [(str(number), query(random)) for number in range(300)]
    texts = [(name, str(one)) for name, one in queries]
    assert [parse_query(text, FIELDS) for _, text in texts] == [one for _, one in queries]

    found = matches(
        spark.createDataFrame(documents, SCHEMA),
        spark.createDataFrame(texts, "query_id string, query string"),
        FIELDS,
    )

    expected = Counter(
        (row[0], name) for row in documents for name, one in queries if fits(one, named(row))
    )
    assert pairs(found, "doc", "query_id") == expected
    assert len(expected) > 1_000


HISTORY = "query_id string, query string, valid_from timestamp, valid_to timestamp, number int"


def history() -> list[tuple[str, str, datetime | None, datetime | None, int]]:
    def at(seconds: int) -> datetime:
        return START + timedelta(seconds=seconds)

    return [
        ("a", "oil", at(0), None, 1),
        ("a", "gas", at(10), None, 2),
        ("a", "NOT oil", at(10), None, 3),
        ("a", "", at(20), at(20), 4),
        ("b", "oil OR gas*", at(5), at(15), 5),
        ("b", "oil", None, None, 6),
    ]


@pytest.mark.slow
def test_a_document_meets_the_version_of_its_time(spark: SparkSession) -> None:
    rows = [
        (second, "oil" if second % 2 else "gasoline", START + timedelta(seconds=second))
        for second in range(25)
    ]
    documents = spark.createDataFrame(
        [*rows, (99, "oil", None)], "second int, title string, at timestamp"
    )
    fields = SearchFields(text="title")
    versions = spark.createDataFrame(history(), HISTORY)
    compiled = read_queries(versions.where("query != ''"), fields)
    ended = versions.where("query = ''").selectExpr(
        "*", f"CAST(NULL AS {compiled.schema['compiled'].dataType.simpleString()}) AS compiled"
    )

    found = matches(
        documents,
        compiled.drop("fault").unionByName(ended),
        fields,
        as_of="at",
        order="number",
    )

    first = [(second, 1) for second in range(1, 10, 2)]
    second = [(second, 3) for second in range(10, 20, 2)]
    other = [(second, 5) for second in range(5, 15)]
    assert pairs(found, "second", "number") == Counter([*first, *second, *other])
    assert found.columns == [*documents.columns, "query_id", "valid_from", "number"]


@pytest.mark.slow
def test_documents_that_are_equal_are_all_found(spark: SparkSession) -> None:
    documents = spark.createDataFrame([("oil gas",)] * 3, "title string")
    queries = spark.createDataFrame([("a", "oil OR gas")], "query_id string, query string")
    assert matches(documents, queries, SearchFields(text="title")).count() == 3


@pytest.mark.slow
def test_a_range_that_is_wider_than_its_rounded_width_has_all_of_its_buckets(
    spark: SparkSession,
) -> None:
    documents = spark.createDataFrame([(-1e-20,), (0.5,), (1.0,)], "price double")
    queries = spark.createDataFrame([("price:[-1e-20 TO 1]",)], "query string")
    assert matches(documents, queries, SearchFields(fraction="price")).count() == 3


@pytest.mark.slow
def test_every_letter_is_the_same_term_in_a_query_and_in_a_document(spark: SparkSession) -> None:
    # Letters of later versions of Unicode are known to one of Python and Java, or to both.
    known = unicodedata.ucd_3_2_0
    signs = [chr(code) for code in range(0x3000) if known.category(chr(code))[0] in "LN"]
    rows = spark.createDataFrame(
        [(sign, f'"{sign}"') for sign in signs], "title string, query string"
    )
    queries = rows.selectExpr("query", "title AS own")
    found = matches(rows.select("title"), queries, SearchFields(text="title"))
    met = {row.title for row in found.where("title = own").collect()}
    assert set(signs) - met == set()


def test_a_text_that_is_no_query_stops_a_batch_with_its_place(spark: SparkSession) -> None:
    documents = spark.createDataFrame([("oil",)], "title string")
    queries = spark.createDataFrame(
        [
            ("a", "oil AND ("),
        ],
        "query_id string, query string",
    )
    found = matches(documents, queries, SearchFields(text="title"))
    with pytest.raises(Exception, match="at character 10: its end is no word"):
        found.collect()


@pytest.mark.slow
def test_queries_compiled_for_other_fields_are_refused(spark: SparkSession) -> None:
    documents = spark.createDataFrame([("oil", "gas")], "title string, body string")
    queries = spark.createDataFrame([("a", "title:oil")], "query_id string, query string")
    compiled = read_queries(queries, SearchFields(text=["body", "title"]))
    found = matches(documents, compiled, SearchFields(text=["title", "body"]))
    with pytest.raises(Exception, match="compiled is for other fields"):
        found.collect()


@pytest.mark.slow
def test_a_stream_of_documents_gives_the_rows_of_a_batch(
    spark: SparkSession, tmp_path: object
) -> None:
    random = Random(7)
    documents = spark.createDataFrame([document(random, number) for number in range(30)], SCHEMA)
    texts = [(str(number), str(query(random))) for number in range(60)]
    queries = spark.createDataFrame(texts, "query_id string, query string")
    documents.repartition(3).write.parquet(f"{tmp_path}/documents")
    stream = spark.readStream.schema(documents.schema).option("maxFilesPerTrigger", 1)
    found = matches(stream.parquet(f"{tmp_path}/documents"), queries, FIELDS)
    name = "standing_matches"
    writer = found.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    writer.start().awaitTermination()
    expected = pairs(matches(documents, queries, FIELDS), "doc", "query_id")
    assert pairs(spark.table(name), "doc", "query_id") == expected
