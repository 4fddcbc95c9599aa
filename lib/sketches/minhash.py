"""MinHash signatures of texts, computed by `datasketch` in Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F

from ..arrow_kernels import arrow_udf
from ..columns import as_column, require_integer
from .datasketch_bridge import import_datasketch
from .hashing import spark_hash

if TYPE_CHECKING:
    from datasketch import MinHash

SCHEME = "affine32"
SEED = 1
_MASK = 2**32 - 1


def minhash(text: str | Column, *, shingle_size: int = 3, permutations: int = 128) -> Column:
    """Return the MinHash signature of a text, an array of `permutations` ints.

    Null for a null text and for a text without words. A text is the set of its shingles: all
    sequences of `shingle_size` successive words, in lower case and regardless of white space; a
    shorter text is one shingle. The fraction of equal elements of two signatures estimates the
    Jaccard similarity of the texts, with a standard error of at most 0.5 / sqrt(permutations).

    The hash of a shingle is the lower 32 bits of Spark's xxhash64; the permutations are those of
    datasketch, scheme affine32, seed 1. `to_datasketch_minhash` converts a signature to a
    `datasketch.MinHash`. Requires the package datasketch on driver and workers.

    Raises:
        ArgumentError: if `shingle_size` or `permutations` is below 1.
        SetupError: without the package.

    Source: Broder, On the Resemblance and Containment of Documents (1997).

    >>> texts = spark.createDataFrame([("the tide is high",)], "text string")
    >>> len(texts.select(minhash("text", permutations=32)).head()[0])
    32
    """
    require_shingles(shingle_size, permutations)
    import_datasketch()
    signatures = arrow_udf(_signature_function(permutations), "array<int>")
    return signatures(_shingles(as_column(text, "text"), shingle_size))


def require_shingles(shingle_size: object, permutations: object) -> None:
    """Raise ArgumentError unless both are whole numbers of 1 or more."""
    for name, value, hint in (
        ("shingle_size", shingle_size, 3),
        ("permutations", permutations, 128),
    ):
        require_integer(value, name, 1, 1_000_000, f"{name}={hint}")


def to_datasketch_minhash(values: Sequence[int]) -> MinHash:
    """Convert a MinHash signature to a `datasketch.MinHash`, whose `update` adds shingles.

    A shingle is its words in lower case, separated by single spaces. Requires the package
    datasketch.

    Raises:
        SetupError: without the package.

    >>> texts = spark.createDataFrame([("the tide is high",)], "text string")
    >>> row = texts.select(minhash("text", shingle_size=2)).head()
    >>> by_spark = to_datasketch_minhash(row[0])
    >>> by_python = to_datasketch_minhash([-1] * 128)  # empty
    >>> by_python.update_batch(["the tide", "tide is", "is high"])
    >>> by_spark.jaccard(by_python)
    1.0
    """
    hash_values = np.array(values, np.int32).view(np.uint32)
    return import_datasketch().MinHash(
        hashvalues=hash_values, seed=SEED, scheme=SCHEME, hashfunc=shingle_hash
    )


def shingle_hash(shingle: str) -> int:
    """Return the hash of a shingle in `minhash`."""
    return spark_hash(shingle) & _MASK


def _shingles(text: Column, shingle_size: int) -> Column:
    """Return an array of the hashes of the shingles of a text; null for a text without words."""
    tokens = F.filter(F.split(F.lower(text), r"\s+"), lambda word: word != "")
    last = F.greatest(F.size(tokens) - shingle_size + 1, F.lit(1))

    def hashed(start: Column) -> Column:
        shingle = F.array_join(F.slice(tokens, start, F.lit(shingle_size)), " ")
        return F.xxhash64(shingle).bitwiseAND(F.lit(_MASK))

    hashes = F.transform(F.sequence(F.lit(1), last), hashed)
    return F.when(F.size(tokens) > 0, hashes)


def _signature_function(permutations: int) -> Callable[[pa.Array], pa.Array]:
    def signatures(batch: pa.Array) -> pa.Array:
        empty = import_datasketch().MinHash(
            num_perm=permutations, seed=SEED, scheme=SCHEME, hashfunc=int
        )

        def minhash_of(hashes: pa.Scalar) -> NDArray[np.int32] | None:
            if not hashes.is_valid:
                return None
            sketch = empty.copy()
            sketch.update_batch(hashes.values.to_numpy(zero_copy_only=False))
            values: NDArray[np.int32] = sketch.hashvalues.view(np.int32)
            return values

        return pa.array([minhash_of(hashes) for hashes in batch], pa.list_(pa.int32()))

    return signatures
