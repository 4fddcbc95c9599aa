"""Near-duplicate documents, by locality-sensitive hashing of MinHash signatures, on batches and on
streams."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import microseconds, quoted, require, require_event_time
from ..errors import ArgumentError
from .minhash import signature

_BAND, _BUCKET, _BUCKETS, _SIGNATURE = "__band", "__bucket", "__buckets", "__signature"


def near_duplicates(
    documents: DataFrame,
    text: str,
    *,
    key: str,
    threshold: float,
    within: str | timedelta,
    time: str = "event_time",
    words: int = 3,
    permutations: int = 128,
    recall: float = 0.95,
) -> DataFrame:
    """Pair each document with the earlier ones, up to `within` before it, whose text is nearly the same.

    Similarity is the share of runs of `words` words that two texts have in common (Jaccard),
    estimated from their signatures with a standard error of sqrt(s * (1 - s) / permutations): 0.035
    at 0.8 with 128. Pairs whose estimate is at least `threshold` come out, each once. A pair is
    only looked at when a whole band of its signatures agrees; bands are made so that a pair as
    similar as `threshold` is looked at with a chance of at least `recall`, and a more similar one
    with a greater. Texts that are null or have no word, and null keys, are in no pair; rows of one
    key are no pair either.

    On a stream it is a join of the stream with itself: the source is read, and signatures are made,
    twice. State: for each document of the last `within` and the watermark's delay, two rows a band,
    each of some 5 * permutations bytes: 24 kB a document with 128 permutations. A pair comes out,
    in append mode, in the micro-batch of whichever of the two is read last. A document behind the
    watermark may be left out. A checkpoint is bound to all arguments.

    Args:
        documents: a batch, or a stream with a watermark on `time`.
        text: the column with the text.
        key: the column that names a document, of a type with an order.
        threshold: the least similarity, above 0 and at most 1.
        within: how far apart in event time two documents of a pair may be.
        time: the event-time column.
        words: how many words make a run; 1 takes a text as a set of words.
        permutations: the length of signatures.
        recall: the least chance of finding a pair that is as similar as `threshold`.

    Returns:
        `time` of the later document, `document` and `duplicate_of` (keys; of documents at one
        instant the greater key is the document), `similarity`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.
        SetupError: at the call, without datasketch.

    Source: Indyk, Motwani, Approximate Nearest Neighbors (1998); Broder (1997).

    >>> said = ["the tide comes in twice a day", "The tide comes in  twice a day", "nothing like it at all, is it"]
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> rows = [(at, number, text) for number, text in enumerate(said)]
    >>> texts = spark.createDataFrame(rows, "event_time timestamp, id int, text string")
    >>> pairs = near_duplicates(texts, "text", key="id", threshold=0.8, within="1 hour")
    >>> pairs.select("document", "duplicate_of").head()
    Row(document=1, duplicate_of=0)
    """
    require_event_time(documents, time)
    require(documents, [text], "text")
    require(documents, [key], "key")
    rows_a_band = band_rows(threshold, permutations=permutations, recall=recall)
    reach = timedelta(microseconds=microseconds(within, "within", least=0))
    banded = _banded(
        documents, quoted(text), quoted(key), quoted(time), words, permutations, rows_a_band
    )
    earlier = banded.select(*[quoted(name).alias(f"earlier{name}") for name in banded.columns])
    later = banded.select(*[quoted(name).alias(f"later{name}") for name in banded.columns])

    def both(name: str) -> tuple[Column, Column]:
        return F.col(f"earlier{name}"), F.col(f"later{name}")

    (first, second), (one, other) = both("time"), both("key")
    agree = F.zip_with(*both(_BUCKETS), lambda left, right: left == right)
    pairs = earlier.join(
        later,
        (F.col(f"earlier{_BUCKET}") == F.col(f"later{_BUCKET}"))
        & (second >= first)
        & (second <= first + F.lit(reach))
        & ((second > first) & (one != other) | (second == first) & (one < other))
        # Of all bands in which two documents agree, the first alone makes the pair.
        & (F.array_position(agree, True) == F.col(f"later{_BAND}") + 1),
    )
    same = F.size(
        F.filter(
            F.zip_with(*both(_SIGNATURE), lambda left, right: left == right), lambda equal: equal
        )
    )
    found = pairs.select(
        second.alias(time),
        other.alias("document"),
        one.alias("duplicate_of"),
        (same / permutations).alias("similarity"),
    )
    return found.where(F.col("similarity") >= threshold)


def band_rows(threshold: float, *, permutations: int = 128, recall: float = 0.95) -> int:
    """Return how many places of a signature make a band: as many as leave the wanted chance of finding a pair.

    With b bands of r places, a pair of similarity s agrees in a band with the chance 1 - (1 -
    s^r)^b.

    >>> band_rows(0.8)
    7
    """
    if not 0 < threshold <= 1 or not 0 < recall < 1:
        raise ArgumentError(
            f"threshold is {threshold} and recall {recall}.", "from 0 to 1.", "threshold=0.8"
        )
    for rows in range(permutations, 0, -1):
        if 1 - (1 - threshold**rows) ** (permutations // rows) >= recall:
            return rows
    raise ArgumentError(
        f"{permutations} permutations find a pair of similarity {threshold} with a chance below "
        f"{recall}.",
        "a greater threshold, more permutations, or a smaller recall.",
        f"permutations={4 * permutations}",
    )


def _banded(
    documents: DataFrame,
    text: Column,
    key: Column,
    time: Column,
    words: int,
    permutations: int,
    rows: int,
) -> DataFrame:
    """Return a row for each document and band."""
    signed = documents.select(
        time.alias("time"),
        key.alias("key"),
        signature(text, words=words, permutations=permutations).alias(_SIGNATURE),
    ).where(F.col(_SIGNATURE).isNotNull() & F.col("key").isNotNull())
    bands = range(permutations // rows)
    buckets = F.array(
        *[F.xxhash64(F.lit(band), F.slice(_SIGNATURE, band * rows + 1, rows)) for band in bands]
    )
    return signed.withColumn(_BUCKETS, buckets).select(
        "*", F.posexplode(_BUCKETS).alias(_BAND, _BUCKET)
    )
