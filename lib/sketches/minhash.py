"""MinHash signatures of texts, by `datasketch` in Arrow batches, with shingles hashed by Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F

from ..arrow_function import arrow_function
from ..columns import column
from ..errors import ArgumentError
from .datasketch import imported
from .hashing import spark_hash

if TYPE_CHECKING:
    from datasketch import MinHash

SCHEME = "affine32"
SEED = 1
_MASK = 2**32 - 1


def signature(text: str | Column, *, words: int = 3, permutations: int = 128) -> Column:
    """Return a text's MinHash signature, an array of `permutations` ints.

    Null where the text is null or has no word. A text is taken as its set of shingles: all runs of
    `words` successive words, in lower case and without regard to white space; a shorter text is one
    shingle. The share of equal places of two signatures estimates the share of shingles that two
    texts have in common (Jaccard), with a standard error of at most 0.5 / sqrt(permutations).

    A shingle's hash is the lower 32 bits of Spark's xxhash64; the permutations are those of
    datasketch, scheme affine32, seed 1. So `to_minhash` turns a signature into a
    `datasketch.MinHash`. Needs the package datasketch on driver and workers.

    Raises:
        ArgumentError: for words or permutations below 1.
        SetupError: without the package.

    Source: Broder, On the Resemblance and Containment of Documents (1997).
    """
    if words < 1 or permutations < 1:
        raise ArgumentError(
            f"words is {words} and permutations {permutations}.", "1 or more.", "words=3"
        )
    imported()
    signatures = arrow_function(_signatures(permutations), "array<int>")
    return signatures(_shingles(column(text), words))


def to_minhash(values: Sequence[int]) -> MinHash:
    """Turn a signature into a `datasketch.MinHash`, whose `update` takes further shingles.

    A shingle is given as its words in lower case, with a space between them. Needs the package
    datasketch.

    Raises:
        SetupError: without the package.

    >>> texts = spark.createDataFrame([("the tide is high",)], "text string")
    >>> row = texts.select(signature("text", words=2)).head()
    >>> by_spark = to_minhash(row[0])
    >>> by_python = to_minhash([-1] * 128)  # empty
    >>> by_python.update_batch(["the tide", "tide is", "is high"])
    >>> by_spark.jaccard(by_python)
    1.0
    """
    places = np.array(values, np.int32).view(np.uint32)
    return imported().MinHash(hashvalues=places, seed=SEED, scheme=SCHEME, hashfunc=shingle_hash)


def shingle_hash(shingle: str) -> int:
    """Return the hash by which `signature` takes a shingle."""
    return spark_hash(shingle) & _MASK


def _shingles(text: Column, words: int) -> Column:
    """Return the hashes of a text's shingles, as an array; null where there is no word."""
    said = F.filter(F.split(F.lower(text), r"\s+"), lambda word: word != "")
    last = F.greatest(F.size(said) - words + 1, F.lit(1))

    def hashed(start: Column) -> Column:
        shingle = F.array_join(F.slice(said, start, F.lit(words)), " ")
        return F.xxhash64(shingle).bitwiseAND(F.lit(_MASK))

    hashes = F.transform(F.sequence(F.lit(1), last), hashed)
    return F.when(F.size(said) > 0, hashes)


def _signatures(permutations: int) -> Callable[[pa.Array], pa.Array]:
    """Return the function that makes a batch's signatures of its arrays of hashes."""

    def signatures(batch: pa.Array) -> pa.Array:
        empty = imported().MinHash(num_perm=permutations, seed=SEED, scheme=SCHEME, hashfunc=int)

        def signed(hashes: pa.Scalar) -> NDArray[np.int32] | None:
            if not hashes.is_valid:
                return None
            minhash = empty.copy()
            minhash.update_batch(hashes.values.to_numpy(zero_copy_only=False))
            values: NDArray[np.int32] = minhash.hashvalues.view(np.int32)
            return values

        return pa.array([signed(hashes) for hashes in batch], pa.list_(pa.int32()))

    return signatures
