"""Near-duplicate documents: what exact comparison finds, on a batch and on a stream, each pair
once."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import ArgumentError, ColumnError, TidegateError, WatermarkError
from tidegate.sketches import NearDuplicates, near_duplicates, signature, to_minhash
from tidegate.sketches.near_duplicates import band_rows
from tidegate.testing import StreamDriver
from tidegate.transform import Transform

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "event_time timestamp, id int, text string"
Document = tuple[datetime, int, str | None]


def runs(text: str, words: int = 3) -> set[str]:
    said = text.lower().split()
    return (
        {" ".join(said[at : at + words]) for at in range(max(1, len(said) - words + 1))}
        if said
        else set()
    )


def similarity(one: str | None, other: str | None) -> float:
    left, right = runs(one or ""), runs(other or "")
    return len(left & right) / len(left | right) if left and right else 0.0


def corpus(originals: int, seed: int = 3) -> list[Document]:
    """Return texts of 60 words, each followed by copies with ever more words changed, ten seconds
    apart."""
    chance = random.Random(seed)
    texts: list[str | None] = [None, "", "   ", "alone", "Alone"]
    for _ in range(originals):
        said = [f"w{chance.randrange(5_000)}" for _ in range(60)]
        for changes in (0, 0, 1, 2, 4, 12):
            copy = list(said)
            for at in chance.sample(range(60), changes):
                copy[at] = f"x{chance.randrange(5_000)}"
            texts.append((" " if changes else "  ").join(copy).upper())
    chance.shuffle(texts)
    return [
        (START + timedelta(seconds=10 * number), number, text) for number, text in enumerate(texts)
    ]


def pairs(frame: DataFrame) -> dict[tuple[int, int], float]:
    found = [(row.duplicate_of, row.document, row.similarity) for row in frame.collect()]
    assert len({pair[:2] for pair in found}) == len(found)
    return {(one, other): similar for one, other, similar in found}


def near(documents: DataFrame, **more: Any) -> DataFrame:
    arguments: dict[str, Any] = {
        "key": "id",
        "threshold": 0.7,
        "within": "1 hour",
        "permutations": 64,
    } | more
    return near_duplicates(documents, "text", **arguments)


@pytest.mark.slow
def test_pairs_are_those_that_exact_comparison_finds_and_come_once(spark: SparkSession) -> None:
    documents = corpus(15)
    found = pairs(near(spark.createDataFrame(documents, SCHEMA)))
    exact = {(a[1], b[1]): similarity(a[2], b[2]) for a, b in combinations(documents, 2)}
    # A signature of 64 tells a similarity to four standard errors: 0.2 at 0.8.
    assert all(abs(exact[pair] - similar) < 0.25 for pair, similar in found.items())
    assert {pair for pair, similar in exact.items() if similar == 1.0} <= set(found)
    sure = {pair for pair, similar in exact.items() if similar >= 0.85}
    assert len(sure) > 40
    assert len(sure & set(found)) >= 0.95 * len(sure)


def test_pairs_lie_within_the_time_and_the_later_one_is_the_document(spark: SparkSession) -> None:
    same = "the very same text each time"
    documents: list[Document] = [(START + timedelta(seconds=s), s, same) for s in (0, 10, 20, 40)]
    documents += [(START, 100, same), (START, -5, same), (START + timedelta(seconds=10), 10, same)]
    frame = near(spark.createDataFrame(documents, SCHEMA), within="10 seconds")
    found = sorted(
        (row.duplicate_of, row.document, row.event_time.astimezone(UTC)) for row in frame.collect()
    )
    later = START + timedelta(seconds=10)
    # The document 10 is there twice, which is no pair, but each of its rows has its pairs.
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
    assert found == sorted(expected)


@pytest.mark.slow
def test_a_stream_gives_what_the_batch_gives_in_any_order(spark: SparkSession) -> None:
    documents = corpus(4, seed=9)
    batch = pairs(near(spark.createDataFrame(documents, SCHEMA), within="3 minutes"))
    assert len(batch) > 10
    arrived = random.Random(1).sample(documents, len(documents))
    with StreamDriver(
        spark,
        SCHEMA,
        lambda stream: near(stream, within="3 minutes"),
        lateness=f"{10 * len(documents)} seconds",
    ) as stream:
        stream.feed(arrived[:12])
        stream.feed(arrived[12:])
        assert pairs(stream.results()) == batch


def test_a_signature_is_datasketch_s_own(spark: SparkSession) -> None:
    texts = ["The tide comes in twice a day", "ünï cödé", "one"]
    frame = spark.createDataFrame([(text,) for text in [*texts, None, " "]], "text string")
    rows = frame.select(signature("text", words=2, permutations=32)).collect()
    assert [row[0] for row in rows[3:]] == [None, None]
    for text, row in zip(texts, rows, strict=False):
        alone = to_minhash([-1] * 32)
        assert alone.is_empty()
        alone.update_batch(sorted(runs(text, 2)))
        assert to_minhash(row[0]) == alone


def test_bands_leave_the_chance_that_was_asked_for() -> None:
    for threshold in (0.3, 0.5, 0.8, 0.95, 1.0):
        for recall in (0.5, 0.9, 0.99):
            rows = band_rows(threshold, permutations=128, recall=recall)
            assert 1 - (1 - threshold**rows) ** (128 // rows) >= recall
            more = rows + 1
            assert more > 128 or 1 - (1 - threshold**more) ** (128 // more) < recall
    with pytest.raises(ArgumentError, match="permutations=32"):
        band_rows(0.1, permutations=8)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"key": "nowhere"}, ColumnError, "key names 'nowhere'"),
        ({"time": "nowhere"}, ColumnError, "time names"),
        ({"threshold": 0.0}, ArgumentError, "threshold is 0.0"),
        ({"recall": 1.0}, ArgumentError, "recall 1.0"),
        ({"within": "-1 second"}, ArgumentError, "within is"),
        ({"words": 0}, ArgumentError, "words is 0"),
    ],
)
def test_what_can_not_be_is_refused_at_the_call(
    spark: SparkSession, arguments: dict[str, Any], error: type[TidegateError], says: str
) -> None:
    with pytest.raises(error, match=says):
        near(spark.createDataFrame([], SCHEMA), **arguments)


def test_a_stream_without_a_watermark_is_refused(spark: SparkSession) -> None:
    stream = (
        spark.readStream.format("rate")
        .load()
        .selectExpr("timestamp event_time", "value id", "'a' text")
    )
    with pytest.raises(WatermarkError, match="withWatermark"):
        near(stream)


@pytest.mark.slow
def test_a_document_is_late_exactly_where_the_value_says_so(spark: SparkSession) -> None:
    pairs = NearDuplicates("text", key="id", threshold=0.7, within="1 hour", permutations=64)
    same = "the very same text each time"
    reached = START + timedelta(minutes=5)
    with StreamDriver(spark, SCHEMA, pairs, lateness="10 seconds") as stream:
        stream.feed([(reached, 0, same)])
        stream.feed([(reached + timedelta(seconds=10), 9, "another text, of one more writer")])
        stream.feed([(reached, 1, same), (reached + timedelta(milliseconds=1), 2, same)])
        assert {(row.duplicate_of, row.document) for row in stream.results().collect()} == {(0, 2)}
    # As `late_at` has it: late is what the watermark has reached.
    late = spark.range(1).select(pairs.late_at(F.lit(reached)) <= F.lit(reached))
    assert late.first() == (True,)
    assert isinstance(pairs, Transform)
