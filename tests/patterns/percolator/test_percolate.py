"""Percolation compared with an oracle in plain Python."""

from __future__ import annotations

import unicodedata
from collections import Counter
from datetime import datetime, timedelta
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.percolator_oracle import FIELDS, SCHEMA, START, document, fits, query
from tidegate.patterns import SearchFields, compile_queries, parse_query, percolate


def as_document(row: tuple[object, ...]) -> dict[str, object]:
    return dict(zip([part.split()[0] for part in SCHEMA.split(", ")], row, strict=True))


def count_rows(rows: DataFrame, *names: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in rows.select(*names).collect())


@pytest.mark.draws("seed", short=[0], long=list(range(6)))
@pytest.mark.slow
def test_matches_equal_the_oracle(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    documents = [document(random, number) for number in range(40)]
    queries = [(str(number), query(random)) for number in range(300)]
    texts = [(name, str(one)) for name, one in queries]
    assert [parse_query(text, FIELDS) for _, text in texts] == [one for _, one in queries]

    matches = percolate(
        spark.createDataFrame(documents, SCHEMA),
        spark.createDataFrame(texts, "query_id string, query string"),
        FIELDS,
    )

    expected = Counter(
        (row[0], name) for row in documents for name, one in queries if fits(one, as_document(row))
    )
    assert count_rows(matches, "doc", "query_id") == expected
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
def test_as_of_matches_the_query_version_valid_at_the_time_of_the_document(
    spark: SparkSession,
) -> None:
    rows = [
        (second, "oil" if second % 2 else "gasoline", START + timedelta(seconds=second))
        for second in range(25)
    ]
    documents = spark.createDataFrame(
        [*rows, (99, "oil", None)], "second int, title string, at timestamp"
    )
    fields = SearchFields(text="title")
    versions = spark.createDataFrame(history(), HISTORY)
    compiled = compile_queries(versions.where("query != ''"), fields)
    ended = versions.where("query = ''").selectExpr(
        "*", f"CAST(NULL AS {compiled.schema['compiled'].dataType.simpleString()}) AS compiled"
    )

    matches = percolate(
        documents,
        compiled.drop("fault").unionByName(ended),
        fields,
        as_of="at",
        order="number",
    )

    first = [(second, 1) for second in range(1, 10, 2)]
    second = [(second, 3) for second in range(10, 20, 2)]
    other = [(second, 5) for second in range(5, 15)]
    assert count_rows(matches, "second", "number") == Counter([*first, *second, *other])
    assert matches.columns == [*documents.columns, "query_id", "valid_from", "number"]


@pytest.mark.slow
def test_equal_documents_all_match(spark: SparkSession) -> None:
    documents = spark.createDataFrame([("oil gas",)] * 3, "title string")
    queries = spark.createDataFrame([("a", "oil OR gas")], "query_id string, query string")
    assert percolate(documents, queries, SearchFields(text="title")).count() == 3


@pytest.mark.slow
def test_a_range_wider_than_its_rounded_width_matches_in_all_buckets(
    spark: SparkSession,
) -> None:
    documents = spark.createDataFrame([(-1e-20,), (0.5,), (1.0,)], "price double")
    queries = spark.createDataFrame([("price:[-1e-20 TO 1]",)], "query string")
    assert percolate(documents, queries, SearchFields(double="price")).count() == 3


@pytest.mark.slow
def test_every_letter_is_the_same_term_in_a_query_and_in_a_document(spark: SparkSession) -> None:
    # Python and Java may support different versions of Unicode; both support 3.2.
    unicode_3_2 = unicodedata.ucd_3_2_0
    letters = [chr(code) for code in range(0x3000) if unicode_3_2.category(chr(code))[0] in "LN"]
    rows = spark.createDataFrame(
        [(letter, f'"{letter}"') for letter in letters], "title string, query string"
    )
    queries = rows.selectExpr("query", "title AS letter")
    matches = percolate(rows.select("title"), queries, SearchFields(text="title"))
    matched = {row.title for row in matches.where("title = letter").collect()}
    assert set(letters) - matched == set()


def test_an_invalid_query_fails_the_batch_with_its_position(spark: SparkSession) -> None:
    documents = spark.createDataFrame([("oil",)], "title string")
    queries = spark.createDataFrame([("a", "oil AND (")], "query_id string, query string")
    matches = percolate(documents, queries, SearchFields(text="title"))
    with pytest.raises(Exception, match="invalid query at character 10: the end is not a word"):
        matches.collect()


@pytest.mark.slow
def test_queries_compiled_for_other_fields_fail_the_batch(spark: SparkSession) -> None:
    documents = spark.createDataFrame([("oil", "gas")], "title string, body string")
    queries = spark.createDataFrame([("a", "title:oil")], "query_id string, query string")
    compiled = compile_queries(queries, SearchFields(text=["body", "title"]))
    matches = percolate(documents, compiled, SearchFields(text=["title", "body"]))
    with pytest.raises(Exception, match="invalid compiled query: compiled for other fields"):
        matches.collect()


@pytest.mark.slow
def test_matches_of_a_stream_equal_those_of_a_batch(spark: SparkSession, tmp_path: object) -> None:
    random = Random(7)
    documents = spark.createDataFrame([document(random, number) for number in range(30)], SCHEMA)
    texts = [(str(number), str(query(random))) for number in range(60)]
    queries = spark.createDataFrame(texts, "query_id string, query string")
    documents.repartition(3).write.parquet(f"{tmp_path}/documents")
    stream = spark.readStream.schema(documents.schema).option("maxFilesPerTrigger", 1)
    matches = percolate(stream.parquet(f"{tmp_path}/documents"), queries, FIELDS)
    name = "standing_matches"
    writer = matches.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    writer.start().awaitTermination()
    expected = count_rows(percolate(documents, queries, FIELDS), "doc", "query_id")
    assert count_rows(spark.table(name), "doc", "query_id") == expected
