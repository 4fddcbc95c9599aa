"""Measure documents run past 1 to 100,000 standing queries, beside a test of each query, and beside
Lucene's monitor, which holds its queries in memory and has no more to do: no stream, no table.

python -m benchmarks.standing_queries [--documents 20000] [--output PATH]
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.patterns import SearchFields, matches, read_queries
from tidegate.patterns.standing._program import ALL
from tidegate.patterns.standing._terms import hashed

from .by_keys import Found, program, timed
from .harness import Output
from .percolator import available, percolated

FIELDS = SearchFields(text="body", whole="price")
COUNTS = (1, 100, 10_000, 100_000)
TERMS = 100
WORDS = 50_000
EACH = 4_000_000
"""Pairs of documents and queries beyond which testing each takes too long to be measured."""


def documents(spark: SparkSession, count: int) -> DataFrame:
    """Make documents of 100 terms, a few of which are in nearly all of them, as in a language."""
    # The number of a term is spread evenly in its logarithm: Zipf's law.
    terms = [
        F.concat(F.lit("w"), F.floor(F.exp(F.rand(seed) * F.log(F.lit(float(WORDS))))))
        for seed in range(TERMS)
    ]
    price = F.floor(F.rand(TERMS) * 1_000).cast("bigint")
    return spark.range(count).select(
        "id", F.concat_ws(" ", *terms).alias("body"), price.alias("price")
    )


def texts(count: int, seed: int = 3) -> list[tuple[int, str]]:
    """Make queries of a few such terms: by AND, by OR, as a phrase, with a prefix or a range.

    None asks for one of the 75 most common words: nobody searches for "the".
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


def each_tested(rows: DataFrame, queries: DataFrame) -> DataFrame:
    """Return the same matches with every query tested with every document."""
    cover = F.array(F.array(hashed(F.lit(ALL))))
    every = queries.withColumn("compiled", F.col("compiled").withField("covers", cover))
    return matches(rows, every, FIELDS)


def measure(spark: SparkSession, count: int, folder: Path) -> list[Found]:
    """Run the documents past more and more queries, indexed and each tested."""
    documents(spark, count).write.parquet(str(folder / "documents"))
    rows = spark.read.parquet(str(folder / "documents"))
    runs = []
    rival = available()
    for number in COUNTS:
        place = str(folder / f"queries-{number}")
        asked_for = texts(number)
        given = spark.createDataFrame(asked_for, "query_id bigint, query string")
        read_queries(given, FIELDS).drop("fault").write.parquet(place)
        queries = spark.read.parquet(place)
        asked = F.count("*"), F.sum(F.hash("id", "query_id").cast("bigint"))
        found, first = timed("indexed", number, count, matches(rows, queries, FIELDS).agg(*asked))
        runs.append(found)
        # Fewer documents for what is linear in both, so that the speed can be compared.
        few = min(count, EACH // number)
        some = rows.where(F.col("id") < few)
        tested, every = timed("each tested", number, few, each_tested(some, queries).agg(*asked))
        runs.append(tested)
        same = matches(some, queries, FIELDS).agg(*asked).first()
        if every != same or (few == count and every != first):
            raise SystemExit(f"{number} queries: {every} with each tested, {same} indexed")
        if rival:
            found, pairs = percolated(rows, asked_for, folder / f"lucene-{number}")
            runs.append(found)
            if (lucene := pairs.agg(*asked).first()) != first:
                raise SystemExit(f"{number} queries: {lucene} by Lucene, {first} indexed")
    return runs


def main(
    documents: Annotated[int, typer.Option(help="Documents of 100 terms.")] = 20_000,
    output: Output = Path("benchmarks/results/standing_queries.json"),
) -> None:
    """Measure, print a table, and keep the figures as JSON."""
    title = f"{documents:,} documents; fewer where each query is tested"
    program(measure, documents, output, title=title, what="matches")


if __name__ == "__main__":
    typer.run(main)
