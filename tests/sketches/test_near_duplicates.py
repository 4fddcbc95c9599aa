"""Near duplicates equal those of exact comparison, on a batch and on a stream, each pair once."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import ArgumentError, ColumnError, TidegateError, WatermarkError
from tidegate.sketches import NearDuplicates, minhash, near_duplicates, to_datasketch_minhash
from tidegate.sketches.near_duplicates import rows_per_band
from tidegate.testing import StreamDriver
from tidegate.transform import Transform

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "event_time timestamp, id int, text string"
Document = tuple[datetime, int, str | None]


def shingles(text: str, size: int = 3) -> set[str]:
    words = text.lower().split()
    starts = range(max(1, len(words) - size + 1))
    return {" ".join(words[start : start + size]) for start in starts} if words else set()


def similarity(one: str | None, other: str | None) -> float:
    left, right = shingles(one or ""), shingles(other or "")
    return len(left & right) / len(left | right) if left and right else 0.0


def corpus(originals: int, seed: int = 3) -> list[Document]:
    """Return texts of 60 words and copies with up to 12 changed words, ten seconds apart."""
    rng = random.Random(seed)
    texts: list[str | None] = [None, "", "   ", "alone", "Alone"]
    for _ in range(originals):
        words = [f"w{rng.randrange(5_000)}" for _ in range(60)]
        for changes in (0, 0, 1, 2, 4, 12):
            copy = list(words)
            for at in rng.sample(range(60), changes):
                copy[at] = f"x{rng.randrange(5_000)}"
            texts.append((" " if changes else "  ").join(copy).upper())
    rng.shuffle(texts)
    return [
        (START + timedelta(seconds=10 * number), number, text) for number, text in enumerate(texts)
    ]


def pairs(frame: DataFrame) -> dict[tuple[int, int], float]:
    result = [(row.duplicate_of, row.document, row.similarity) for row in frame.collect()]
    assert len({pair[:2] for pair in result}) == len(result)
    return {(one, other): similar for one, other, similar in result}


def near(documents: DataFrame, **more: Any) -> DataFrame:
    arguments: dict[str, Any] = {
        "key": "id",
        "threshold": 0.7,
        "within": "1 hour",
        "permutations": 64,
    } | more
    return near_duplicates(documents, "text", **arguments)


@pytest.mark.slow
def test_pairs_equal_those_of_exact_comparison_and_are_unique(spark: SparkSession) -> None:
    documents = corpus(15)
    result = pairs(near(spark.createDataFrame(documents, SCHEMA)))
    exact = {(a[1], b[1]): similarity(a[2], b[2]) for a, b in combinations(documents, 2)}
    # Four standard errors of a signature of 64 elements: 0.2 at a similarity of 0.8.
    assert all(abs(exact[pair] - similar) < 0.25 for pair, similar in result.items())
    assert {pair for pair, similar in exact.items() if similar == 1.0} <= set(result)
    similar_pairs = {pair for pair, similar in exact.items() if similar >= 0.85}
    assert len(similar_pairs) > 40
    assert len(similar_pairs & set(result)) >= 0.95 * len(similar_pairs)


def test_pairs_are_within_the_time_and_document_is_the_later_one(spark: SparkSession) -> None:
    same = "the very same text each time"
    documents: list[Document] = [(START + timedelta(seconds=s), s, same) for s in (0, 10, 20, 40)]
    documents += [(START, 100, same), (START, -5, same), (START + timedelta(seconds=10), 10, same)]
    frame = near(spark.createDataFrame(documents, SCHEMA), within="10 seconds")
    result = sorted(
        (row.duplicate_of, row.document, row.event_time.astimezone(UTC)) for row in frame.collect()
    )
    later = START + timedelta(seconds=10)
    # Two rows have key 10: they do not form a pair, but each has pairs with other documents.
    expected = [
        (-5, 0, START),
        (-5, 10, later),
        (-5, 10, later),
        (-5, 100, START),
        (0, 10, later),
        (0, 10, later),
    ]
    expected += [(0, 100, START), (100, 10, later), (100, 10, later)]
    expected += [(10, 20, START + timedelta(seconds=20))] * 2
    assert result == sorted(expected)


@pytest.mark.slow
def test_a_stream_in_any_order_gives_the_pairs_of_a_batch(spark: SparkSession) -> None:
    documents = corpus(4, seed=9)
    batch = pairs(near(spark.createDataFrame(documents, SCHEMA), within="3 minutes"))
    assert len(batch) > 10
    shuffled = random.Random(1).sample(documents, len(documents))
    with StreamDriver(
        spark,
        SCHEMA,
        lambda stream: near(stream, within="3 minutes"),
        watermark_delay=f"{10 * len(documents)} seconds",
    ) as stream:
        stream.feed(shuffled[:12])
        stream.feed(shuffled[12:])
        assert pairs(stream.results()) == batch


def test_a_signature_equals_that_of_datasketch(spark: SparkSession) -> None:
    texts = ["The tide comes in twice a day", "ünï cödé", "one"]
    frame = spark.createDataFrame([(text,) for text in [*texts, None, " "]], "text string")
    rows = frame.select(minhash("text", shingle_size=2, permutations=32)).collect()
    assert [row[0] for row in rows[3:]] == [None, None]
    for text, row in zip(texts, rows, strict=False):
        expected = to_datasketch_minhash([-1] * 32)
        assert expected.is_empty()
        expected.update_batch(sorted(shingles(text, 2)))
        assert to_datasketch_minhash(row[0]) == expected


def test_bands_have_the_requested_recall() -> None:
    for threshold in (0.3, 0.5, 0.8, 0.95, 1.0):
        for recall in (0.5, 0.9, 0.99):
            rows = rows_per_band(threshold, permutations=128, recall=recall)
            assert 1 - (1 - threshold**rows) ** (128 // rows) >= recall
            more = rows + 1
            assert more > 128 or 1 - (1 - threshold**more) ** (128 // more) < recall
    with pytest.raises(ArgumentError, match="permutations=32"):
        rows_per_band(0.1, permutations=8)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"key": "nowhere"}, ColumnError, "invalid key: no column 'nowhere'"),
        ({"time": "nowhere"}, ColumnError, "invalid time: no column 'nowhere'"),
        ({"threshold": 0.0}, ArgumentError, "invalid threshold: 0.0"),
        ({"recall": 1.0}, ArgumentError, "invalid recall: 1.0"),
        ({"within": "-1 second"}, ArgumentError, "invalid within"),
        ({"shingle_size": 0}, ArgumentError, "invalid shingle_size: 0"),
    ],
)
def test_invalid_arguments_are_rejected_at_the_call(
    spark: SparkSession, arguments: dict[str, Any], error: type[TidegateError], message: str
) -> None:
    with pytest.raises(error, match=message):
        near(spark.createDataFrame([], SCHEMA), **arguments)


def test_a_stream_without_a_watermark_is_rejected(spark: SparkSession) -> None:
    stream = (
        spark.readStream.format("rate")
        .load()
        .selectExpr("timestamp event_time", "value id", "'a' text")
    )
    with pytest.raises(WatermarkError, match="withWatermark"):
        near(stream)


@pytest.mark.slow
def test_a_document_is_late_exactly_at_or_before_the_watermark(spark: SparkSession) -> None:
    pairs = NearDuplicates("text", key="id", threshold=0.7, within="1 hour", permutations=64)
    same = "the very same text each time"
    reached = START + timedelta(minutes=5)
    with StreamDriver(spark, SCHEMA, pairs, watermark_delay="10 seconds") as stream:
        stream.feed([(reached, 0, same)])
        stream.feed([(reached + timedelta(seconds=10), 9, "another text, of one more writer")])
        stream.feed([(reached, 1, same), (reached + timedelta(milliseconds=1), 2, same)])
        assert {(row.duplicate_of, row.document) for row in stream.results().collect()} == {(0, 2)}
    late = spark.range(1).select(pairs.late_at(F.lit(reached)) <= F.lit(reached))
    assert late.first() == (True,)
    assert isinstance(pairs, Transform)
