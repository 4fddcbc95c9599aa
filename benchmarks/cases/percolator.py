"""Measure documents matched against 1 to 100,000 stored queries.

python -m benchmarks.cases.percolator [--documents 20000] [--output PATH]

The comparison is with a test of each query, and with the monitor of Lucene, which stores its
queries in memory and has no stream and no table.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.peers.lucene_monitor import available, run_monitor
from benchmarks.support.harness import Output
from benchmarks.support.key_sweep import Measurement, program, timed
from tidegate.patterns import SearchFields, compile_queries, percolate
from tidegate.patterns.percolator._tokenizer import MATCH_ALL_KEY, hash_key

FIELDS = SearchFields(text="body", integer="price")
COUNTS = (1, 100, 10_000, 100_000)
TERMS = 100
WORDS = 50_000
MAX_PAIRS = 4_000_000
"""The maximum number of pairs of documents and queries that are tested one by one."""


def documents(spark: SparkSession, count: int) -> DataFrame:
    """Return documents of 100 terms with the frequencies of a natural language."""
    # The logarithm of a term's number is uniform: Zipf's law.
    terms = [
        F.concat(F.lit("w"), F.floor(F.exp(F.rand(seed) * F.log(F.lit(float(WORDS))))))
        for seed in range(TERMS)
    ]
    price = F.floor(F.rand(TERMS) * 1_000).cast("bigint")
    return spark.range(count).select(
        "id", F.concat_ws(" ", *terms).alias("body"), price.alias("price")
    )


def texts(count: int, seed: int = 3) -> list[tuple[int, str]]:
    """Return queries of a few terms: AND, OR, a phrase, a prefix or a range.

    They avoid the 75 most common terms, as searches do.
    """
    random = Random(seed)

    def word() -> str:
        return f"w{int(WORDS ** random.uniform(0.4, 1))}"

    shapes = [
        lambda: f"{word()} AND {word()} AND {word()}",
        lambda: f"({word()} OR {word()}) AND {word()} AND NOT {word()}",
        lambda: f'"{word()} {word()}"',
        lambda: f"{word()} AND price:[{(low := random.randrange(1000))} TO {low + 20}]",
        lambda: f"w{random.randrange(1000, WORDS)}* AND price:<500",
    ]
    return [(number, shapes[number % len(shapes)]()) for number in range(count)]


def match_each_query(rows: DataFrame, queries: DataFrame) -> DataFrame:
    """Return the same matches by testing every query with every document."""
    cover = F.array(F.array(hash_key(F.lit(MATCH_ALL_KEY))))
    every = queries.withColumn("compiled", F.col("compiled").withField("covers", cover))
    return percolate(rows, every, FIELDS)


def measure(spark: SparkSession, count: int, folder: Path) -> list[Measurement]:
    """Match the documents against growing numbers of queries, indexed and one by one."""
    documents(spark, count).write.parquet(str(folder / "documents"))
    rows = spark.read.parquet(str(folder / "documents"))
    runs = []
    has_lucene = available()
    for number in COUNTS:
        path = str(folder / f"queries-{number}")
        query_texts = texts(number)
        query_rows = spark.createDataFrame(query_texts, "query_id bigint, query string")
        compile_queries(query_rows, FIELDS).drop("fault").write.parquet(path)
        queries = spark.read.parquet(path)
        aggregates = F.count("*"), F.sum(F.hash("id", "query_id").cast("bigint"))
        results, first = timed(
            "indexed", number, count, percolate(rows, queries, FIELDS).agg(*aggregates)
        )
        runs.append(results)
        # One by one is linear in both, so fewer documents give a comparable speed.
        few = min(count, MAX_PAIRS // number)
        some = rows.where(F.col("id") < few)
        tested, every = timed(
            "one by one", number, few, match_each_query(some, queries).agg(*aggregates)
        )
        runs.append(tested)
        same = percolate(some, queries, FIELDS).agg(*aggregates).first()
        if every != same or (few == count and every != first):
            raise SystemExit(f"{number} queries: {every} one by one, {same} indexed")
        if has_lucene:
            results, pairs = run_monitor(rows, query_texts, folder / f"lucene-{number}")
            runs.append(results)
            if (lucene := pairs.agg(*aggregates).first()) != first:
                raise SystemExit(f"{number} queries: {lucene} by Lucene, {first} indexed")
    return runs


def main(
    documents: Annotated[int, typer.Option(help="Documents of 100 terms.")] = 20_000,
    output: Output = Path("benchmarks/results/percolator.json"),
) -> None:
    """Measure, print a table, and write JSON."""
    title = f"{documents:,} documents; fewer one by one"
    program(measure, documents, output, title=title, what="matches")


if __name__ == "__main__":
    typer.run(main)
