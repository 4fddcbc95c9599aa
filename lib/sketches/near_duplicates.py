"""Near-duplicate documents, by locality-sensitive hashing of MinHash signatures."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from operator import eq
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from ..columns import quoted_column, require_columns, require_event_time
from ..durations import microseconds
from ..errors import ArgumentError, ColumnTypeError
from .minhash import minhash, require_shingles

_TIME = "time"
_KEY = "key"
_SIGNATURE = "__signature"
_BUCKETS = "__buckets"
_BAND = "__band"
_BUCKET = "__bucket"


@dataclass(frozen=True)
class NearDuplicates:
    """Near-duplicate detection as the transform of a job; see `near_duplicates`.

    A changed argument requires a new checkpoint.

    Raises:
        ArgumentError, ColumnTypeError: at construction, for an argument out of range.

    >>> pairs = NearDuplicates("text", key="id", threshold=0.8, within="1 hour")
    >>> pairs.lookback
    datetime.timedelta(seconds=3600)
    """

    plan_name: ClassVar[str] = "near_duplicates"
    text: str
    _: KW_ONLY
    key: str
    threshold: float
    within: str | timedelta
    time: str = "event_time"
    shingle_size: int = 3
    permutations: int = 128
    recall: float = 0.95

    def __post_init__(self) -> None:
        microseconds(self.within, "within", min_value=0)
        require_shingles(self.shingle_size, self.permutations)
        rows_per_band(self.threshold, permutations=self.permutations, recall=self.recall)

    def __call__(self, documents: DataFrame) -> DataFrame:
        """Return one row per pair."""
        require_event_time(documents, self.time)
        require_columns(documents, [self.text], "text")
        text_type = documents.schema[self.text].dataType
        if not isinstance(text_type, StringType):
            raise ColumnTypeError(
                f"invalid text: {self.text!r} has type {text_type.simpleString()}",
                "a column of text",
                f"withColumn({self.text!r}, F.col({self.text!r}).cast('string'))",
            )
        require_columns(documents, [self.key], "key")
        bands = self._bands(documents)
        earlier, later = (
            bands.select(*[F.col(name).alias(f"{side}{name}") for name in bands.columns])
            for side in ("earlier", "later")
        )
        equal = F.zip_with(_earlier(_SIGNATURE), _later(_SIGNATURE), eq)
        equal_count = F.size(F.filter(equal, lambda is_equal: is_equal))
        pairs = earlier.join(later, self._is_candidate_pair()).select(
            _later(_TIME).alias(self.time),
            _later(_KEY).alias("document"),
            _earlier(_KEY).alias("duplicate_of"),
            (equal_count / self.permutations).alias("similarity"),
        )
        return pairs.where(F.col("similarity") >= self.threshold)

    def late_at(self, time: Column) -> Column:
        """Return the time of the document: a document at or before the watermark is late."""
        return time

    @property
    def lookback(self) -> timedelta:
        """The maximum event-time distance of an earlier document to its duplicate: `within`."""
        return timedelta(microseconds=microseconds(self.within, "within", min_value=0))

    @property
    def result_time(self) -> Column:
        """The time of the later document of a pair."""
        return quoted_column(self.time)

    def _bands(self, documents: DataFrame) -> DataFrame:
        """Return one row per document and band of its signature, with the bucket of the band."""
        signature = minhash(
            quoted_column(self.text), shingle_size=self.shingle_size, permutations=self.permutations
        )
        with_signatures = documents.select(
            quoted_column(self.time).alias(_TIME),
            quoted_column(self.key).alias(_KEY),
            signature.alias(_SIGNATURE),
        )
        usable = with_signatures.where(F.col(_SIGNATURE).isNotNull() & F.col(_KEY).isNotNull())
        numbered = F.posexplode(_BUCKETS).alias(_BAND, _BUCKET)
        return usable.withColumn(_BUCKETS, self._buckets()).select("*", numbered)

    def _buckets(self) -> Column:
        """Return a hash per band; the band number in the hash separates the bands."""
        rows = rows_per_band(self.threshold, permutations=self.permutations, recall=self.recall)
        bands = range(self.permutations // rows)
        values = [F.slice(_SIGNATURE, band * rows + 1, rows) for band in bands]
        return F.array(*[F.xxhash64(F.lit(band), values[band]) for band in bands])

    def _is_candidate_pair(self) -> Column:
        """Return whether two bands produce the pair of their documents."""
        same_bucket = _earlier(_BUCKET) == _later(_BUCKET)
        in_order = _later(_TIME) >= _earlier(_TIME)
        in_range = _later(_TIME) <= _earlier(_TIME) + F.lit(self.lookback)
        is_later = (_later(_TIME) > _earlier(_TIME)) & (_earlier(_KEY) != _later(_KEY))
        # At equal times, the document with the greater key is the later one.
        is_tie = (_later(_TIME) == _earlier(_TIME)) & (_earlier(_KEY) < _later(_KEY))
        # Documents can share several bands; only the first shared band produces the pair.
        equal_bands = F.zip_with(_earlier(_BUCKETS), _later(_BUCKETS), eq)
        first_band = F.array_position(equal_bands, True) == _later(_BAND) + 1
        return same_bucket & in_order & in_range & (is_later | is_tie) & first_band


def near_duplicates(
    documents: DataFrame,
    text: str,
    *,
    key: str,
    threshold: float,
    within: str | timedelta,
    time: str = "event_time",
    shingle_size: int = 3,
    permutations: int = 128,
    recall: float = 0.95,
) -> DataFrame:
    """Pair each document with the earlier documents of similar text.

    Similarity is the Jaccard index of the shingles (sequences of `shingle_size` successive words)
    of two texts. It is estimated from MinHash signatures, with a standard error of
    sqrt(s * (1 - s) / permutations): 0.035 at 0.8 with 128. The result contains each pair whose
    estimate is at least `threshold` once. A pair is a candidate only if the signatures agree in a
    band. The bands are chosen so that a pair of similarity `threshold` is a candidate with a
    probability of at least `recall`; the probability grows with the similarity. Null texts, texts
    without words, null keys, and two rows of the same key do not form pairs.

    Bounds: the documents of a pair are at most `within` apart in event time.

    Lateness: on a stream, a document at or before the watermark is late and forms no pairs.

    State: a stream-stream self-join, which reads the source and computes signatures twice. The
    state has two rows per band for each document of the last `within` plus the watermark delay,
    each of some 5 * permutations bytes: 24 kB per document with 128 permutations. A pair is
    appended in the micro-batch that reads the second of its documents. A changed argument requires
    a new checkpoint.

    `NearDuplicates` is the transform of a job.

    Args:
        documents: a batch, or a stream with a watermark on `time`.
        text: the text column.
        key: the column that identifies a document, of an orderable type.
        threshold: the minimum similarity, above 0 and at most 1.
        within: the maximum event-time distance of the documents of a pair.
        time: the event-time column.
        shingle_size: the number of words per shingle; 1 compares sets of words.
        permutations: the length of the signatures.
        recall: the minimum probability of finding a pair of similarity `threshold`, below 1.

    Returns:
        `time` of the later document, `document` and `duplicate_of` (the keys of the later and the
        earlier document; at equal times, `document` is the greater key), `similarity`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.
        SetupError: at the call, without datasketch.

    Source: Indyk, Motwani, Approximate Nearest Neighbors (1998); Broder (1997).

    >>> news = ["the tide comes in twice a day", "The tide comes in  twice a day", "another text"]
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> rows = [(at, number, text) for number, text in enumerate(news)]
    >>> texts = spark.createDataFrame(rows, "event_time timestamp, id int, text string")
    >>> pairs = near_duplicates(texts, "text", key="id", threshold=0.8, within="1 hour")
    >>> pairs.select("document", "duplicate_of").head()
    Row(document=1, duplicate_of=0)
    """
    pairs = NearDuplicates(
        text,
        key=key,
        threshold=threshold,
        within=within,
        time=time,
        shingle_size=shingle_size,
        permutations=permutations,
        recall=recall,
    )
    return pairs(documents)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def rows_per_band(threshold: float, *, permutations: int = 128, recall: float = 0.95) -> int:
    """Return the number of signature elements (rows) per band.

    This is the maximum that finds a pair of similarity `threshold` with probability `recall`; more
    rows produce fewer false candidates. With b bands of r rows, a pair of similarity s agrees in a
    band with probability 1 - (1 - s^r)^b.

    Raises:
        ArgumentError: for a threshold or recall out of range, and for too few permutations.

    >>> rows_per_band(0.8)
    7
    """
    if not _is_number(threshold) or not 0 < threshold <= 1:
        raise ArgumentError(
            f"invalid threshold: {threshold!r}", "above 0 and at most 1", "threshold=0.8"
        )
    if not _is_number(recall) or not 0 < recall < 1:
        raise ArgumentError(f"invalid recall: {recall!r}", "between 0 and 1", "recall=0.95")
    for rows in range(permutations, 0, -1):
        bands = permutations // rows
        if 1 - (1 - threshold**rows) ** bands >= recall:
            return rows
    raise ArgumentError(
        f"invalid permutations: {permutations}",
        f"enough permutations to find pairs of similarity {threshold} with recall={recall}",
        f"permutations={4 * permutations}",
    )


def _earlier(name: str) -> Column:
    return F.col(f"earlier{name}")


def _later(name: str) -> Column:
    return F.col(f"later{name}")
