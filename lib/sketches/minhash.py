"""MinHash signatures of texts, made per Arrow batch by `datasketch`, with shingles hashed by
Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F

from ..columns import column
from ..errors import ArgumentError
from .datasketch import imported
from .hashing import spark_hash

if TYPE_CHECKING:
    from datasketch import MinHash

SCHEME, SEED = "affine32", 1
_MASK = 2**32 - 1


def signature(text: str | Column, *, words: int = 3, permutations: int = 128) -> Column:
    """Return a text's MinHash signature, an array of `permutations` ints; null where the text is null or has no word.

    A text is taken as the set of all runs of `words` words that follow one another, in small
    letters and without regard to white space; a shorter text is one such run. The share of equal
    places of two signatures estimates the share of runs that two texts have in common (Jaccard),
    with a standard error of at most 0.5 / sqrt(permutations). The hashes are Spark's xxhash64, its
    lower 32 bits; the permutations are those of datasketch, scheme affine32, seed 1. So
    `to_minhash` turns it into a `datasketch.MinHash`. Needs the package datasketch on driver and
    workers.

    Source: Broder, On the Resemblance and Containment of Documents (1997).
    """
    if words < 1 or permutations < 1:
        raise ArgumentError(
            f"words is {words} and permutations {permutations}.", "1 or more.", "words=3"
        )
    imported()
    # The overloads of Spark's declaration leave out the call that tells the kind by the function's
    # own annotations.
    udf: Any = F.arrow_udf  # type: ignore[attr-defined]
    made: Column = udf(_signatures(permutations), "array<int>")(_runs(column(text), words))
    return made


def to_minhash(values: Sequence[int]) -> MinHash:
    """Turn a signature into a `datasketch.MinHash`, whose `update` takes further runs of words, in small letters.

    >>> row = spark.createDataFrame([("the tide is high",)], "text string").select(signature("text", words=2)).head()
    >>> found = to_minhash(row[0])
    >>> alone = to_minhash([-1] * 128)  # empty
    >>> alone.update_batch(["the tide", "tide is", "is high"])
    >>> found.jaccard(alone)
    1.0
    """
    unsigned = np.array(values, np.int32).view(np.uint32)
    return imported().MinHash(hashvalues=unsigned, seed=SEED, scheme=SCHEME, hashfunc=run_hash)


def run_hash(run: str) -> int:
    """Return the hash of a run of words that `signature` takes."""
    return spark_hash(run) & _MASK


def _runs(text: Column, words: int) -> Column:
    """Hash all runs of words of a text; empty where there is no word."""
    said = F.filter(F.split(F.lower(text), r"\s+"), lambda word: word != "")
    starts = F.sequence(F.lit(1), F.greatest(F.size(said) - words + 1, F.lit(1)))

    def hashed(said: Column, start: Column) -> Column:
        return F.xxhash64(F.array_join(F.slice(said, start, F.lit(words)), " ")).bitwiseAND(
            F.lit(_MASK)
        )

    runs = F.transform(starts, lambda start: hashed(said, start))
    return F.when(F.size(said) > 0, runs)


def _signatures(permutations: int) -> Callable[[pa.Array], pa.Array]:
    def signed(runs: pa.Array) -> pa.Array:
        empty = imported().MinHash(num_perm=permutations, seed=SEED, scheme=SCHEME, hashfunc=int)

        def one(hashes: pa.Scalar) -> NDArray[np.int32] | None:
            if not hashes.is_valid:
                return None
            made = empty.copy()
            made.update_batch(hashes.values.to_numpy(zero_copy_only=False))
            values: NDArray[np.int32] = made.hashvalues.view(np.int32)
            return values

        return pa.array([one(hashes) for hashes in runs], pa.list_(pa.int32()))

    return signed
