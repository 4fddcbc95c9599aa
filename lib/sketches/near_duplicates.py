"""Near-duplicate documents, by locality-sensitive hashing of MinHash signatures."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..columns import quoted, require, require_event_time
from ..durations import microseconds
from ..errors import ArgumentError
from .minhash import signature

_TIME = "time"
_KEY = "key"
_SIGNATURE = "__signature"
_BUCKETS = "__buckets"
_BAND = "__band"
_BUCKET = "__bucket"


@dataclass(frozen=True)
class NearDuplicates:
    """Pairs of documents whose text is nearly the same: the transform of a job.

    The function `near_duplicates` says which pairs come out, and what the arguments are. The result
    is bound to them: with another argument a job needs a new checkpoint.

    Raises:
        ArgumentError, ColumnTypeError: at construction, for a value out of its range.

    >>> pairs = NearDuplicates("text", key="id", threshold=0.8, within="1 hour")
    >>> pairs.reach
    datetime.timedelta(seconds=3600)
    """

    text: str
    _: KW_ONLY
    key: str
    threshold: float
    within: str | timedelta
    time: str = "event_time"
    words: int = 3
    permutations: int = 128
    recall: float = 0.95

    def __post_init__(self) -> None:
        microseconds(self.within, "within", least=0)
        band_rows(self.threshold, permutations=self.permutations, recall=self.recall)

    def __call__(self, documents: DataFrame) -> DataFrame:
        """Return a row for each pair, as `near_duplicates` has it."""
        require_event_time(documents, self.time)
        require(documents, [self.text], "text")
        require(documents, [self.key], "key")
        bands = self._bands(documents)
        earlier = _renamed(bands, "earlier")
        later = _renamed(bands, "later")
        pairs = earlier.join(later, self._is_looked_at()).select(
            _later(_TIME).alias(self.time),
            _later(_KEY).alias("document"),
            _earlier(_KEY).alias("duplicate_of"),
            self._similarity().alias("similarity"),
        )
        return pairs.where(F.col("similarity") >= self.threshold)

    def late_at(self, time: Column) -> Column:
        """Return the document's own time: Spark's join drops what the watermark has reached."""
        return time

    @property
    def reach(self) -> timedelta:
        """How far before a document an earlier one can be that makes a pair with it: `within`."""
        return timedelta(microseconds=microseconds(self.within, "within", least=0))

    @property
    def result_time(self) -> Column:
        """The time of the pair's later document."""
        return quoted(self.time)

    def _bands(self, documents: DataFrame) -> DataFrame:
        """Return a row for each document and band of its signature, with the band's bucket."""
        signed = documents.select(
            quoted(self.time).alias(_TIME),
            quoted(self.key).alias(_KEY),
            self._signature().alias(_SIGNATURE),
        )
        usable = signed.where(F.col(_SIGNATURE).isNotNull() & F.col(_KEY).isNotNull())
        numbered = F.posexplode(_BUCKETS).alias(_BAND, _BUCKET)
        return usable.withColumn(_BUCKETS, self._buckets()).select("*", numbered)

    def _signature(self) -> Column:
        return signature(quoted(self.text), words=self.words, permutations=self.permutations)

    def _buckets(self) -> Column:
        """Return a hash for each band; the band's number keeps equal bands apart."""
        rows = band_rows(self.threshold, permutations=self.permutations, recall=self.recall)
        buckets = []
        for band in range(self.permutations // rows):
            places = F.slice(_SIGNATURE, band * rows + 1, rows)
            buckets.append(F.xxhash64(F.lit(band), places))
        return F.array(*buckets)

    def _is_looked_at(self) -> Column:
        """Return whether two bands make the pair of their documents."""
        same_bucket = _earlier(_BUCKET) == _later(_BUCKET)
        in_order = _later(_TIME) >= _earlier(_TIME)
        in_reach = _later(_TIME) <= _earlier(_TIME) + F.lit(self.reach)
        is_later = (_later(_TIME) > _earlier(_TIME)) & (_earlier(_KEY) != _later(_KEY))
        # Of two documents at one instant, the one with the greater key is the later.
        is_tie = (_later(_TIME) == _earlier(_TIME)) & (_earlier(_KEY) < _later(_KEY))
        # Documents may agree in several bands, and only the first of these makes the pair.
        agree = F.zip_with(_earlier(_BUCKETS), _later(_BUCKETS), _equal)
        first_band = F.array_position(agree, True) == _later(_BAND) + 1
        return same_bucket & in_order & in_reach & (is_later | is_tie) & first_band

    def _similarity(self) -> Column:
        equal = F.zip_with(_earlier(_SIGNATURE), _later(_SIGNATURE), _equal)
        places = F.size(F.filter(equal, lambda is_equal: is_equal))
        return places / self.permutations


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
    """Pair each document with the earlier ones whose text is nearly the same.

    Similarity is the share of shingles (runs of `words` successive words) that two texts have in
    common (Jaccard). It is estimated from the texts' MinHash signatures, with a standard error of
    sqrt(s * (1 - s) / permutations): 0.035 at 0.8 with 128. Pairs whose estimate is at least
    `threshold` come out, each once. A pair is only looked at where a whole band of the two
    signatures agrees. Bands are made so that a pair of the similarity `threshold` is looked at with
    a chance of at least `recall`, and a more similar pair with a greater one. Texts that are null
    or have no word, and null keys, are in no pair; neither are two rows of one key.

    Bounds: a pair's documents lie at most `within` apart in event time.

    Lateness: on a stream, a document is late once the watermark has reached its time. It is in no
    pair then.

    State: the stream is joined with itself, so that the source is read, and signatures are made,
    twice. Two rows a band are kept for each document of the last `within` and the watermark's
    delay, each of some 5 * permutations bytes: 24 kB a document with 128 permutations. A pair comes
    out, in append mode, in the micro-batch of whichever of the two documents is read last. A
    checkpoint is bound to all arguments.

    `NearDuplicates` is the same as a job's transform.

    Args:
        documents: a batch, or a stream with a watermark on `time`.
        text: the column with the text.
        key: the column that names a document, of a type with an order.
        threshold: the least similarity, above 0 and at most 1.
        within: how far apart in event time two documents of a pair may be.
        time: the event-time column.
        words: how many words make a shingle; 1 takes a text as a set of words.
        permutations: the length of signatures.
        recall: the least chance of finding a pair of the similarity `threshold`, below 1.

    Returns:
        `time` of the later document, `document` and `duplicate_of` (keys; of documents at one
        instant the greater key is the document), `similarity`.

    Raises:
        ArgumentError, ColumnError, ColumnTypeError, WatermarkError: at the call.
        SetupError: at the call, without datasketch.

    Source: Indyk, Motwani, Approximate Nearest Neighbors (1998); Broder (1997).

    >>> said = ["the tide comes in twice a day", "The tide comes in  twice a day", "nothing alike"]
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> rows = [(at, number, text) for number, text in enumerate(said)]
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
        words=words,
        permutations=permutations,
        recall=recall,
    )
    return pairs(documents)


def band_rows(threshold: float, *, permutations: int = 128, recall: float = 0.95) -> int:
    """Return how many places of a signature make a band.

    The more places, the fewer pairs are looked at in vain: this is the greatest number that leaves
    the chance `recall` of finding a pair. With b bands of r places, a pair of similarity s agrees
    in a band with the chance 1 - (1 - s^r)^b.

    Raises:
        ArgumentError: for a threshold or recall out of range, and where no number leaves the
            chance.

    >>> band_rows(0.8)
    7
    """
    if not 0 < threshold <= 1 or not 0 < recall < 1:
        raise ArgumentError(
            f"threshold is {threshold} and recall {recall}.", "from 0 to 1.", "threshold=0.8"
        )
    for rows in range(permutations, 0, -1):
        bands = permutations // rows
        if 1 - (1 - threshold**rows) ** bands >= recall:
            return rows
    raise ArgumentError(
        f"{permutations} permutations find a pair of similarity {threshold} with a chance below "
        f"{recall}.",
        "a greater threshold, more permutations, or a smaller recall.",
        f"permutations={4 * permutations}",
    )


def _renamed(bands: DataFrame, side: str) -> DataFrame:
    return bands.select(*[quoted(name).alias(f"{side}{name}") for name in bands.columns])


def _earlier(name: str) -> Column:
    return F.col(f"earlier{name}")


def _later(name: str) -> Column:
    return F.col(f"later{name}")


def _equal(left: Column, right: Column) -> Column:
    return left == right
