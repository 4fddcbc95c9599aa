"""Size and false positive rate of Bloom filters."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import expm1, log1p, log2, sqrt

from ..errors import ArgumentError

SLICE_BITS = 32_768
"""The bits of one Spark bitmap, and so the maximum size of a slice."""
BLOCK_BITS = 32_768
"""The maximum size of a block in a table of blocks.

A join copies one block per probed key, so smaller blocks are faster. A block stores some 3,400 keys
at a rate of 0.01; the uneven fill of blocks then costs at most 0.1 % of the bits."""
MIN_FPP = 1e-9
"""The minimum false positive probability."""


@dataclass(frozen=True)
class BloomSize:
    """The size of a filter: `blocks` blocks, each of `slices` bitmaps of `bits` bits.

    A key belongs to one block and sets one bit in each slice. The filter reports a key as present
    if all of its bits are set.

    >>> BloomSize(blocks=1, slices=7, bits=1371).total_bytes
    1204
    """

    blocks: int
    slices: int
    bits: int

    @property
    def total_bytes(self) -> int:
        """The total bytes of all bitmaps."""
        return self.blocks * self.slices * slice_bytes(self.bits)

    def false_positive_rate(self, item_count: int) -> float:
        """Return the expected false positive rate with `item_count` distinct keys.

        The expected rate of a block is fill^slices, because slices fill independently. The rate of
        several blocks is the mean over the binomial distribution of keys per block, approximated by
        Gauss-Hermite quadrature with three points.
        """
        avg_items = item_count / self.blocks
        spread = sqrt(3 * avg_items * (1 - 1 / self.blocks))
        rates = [
            1 / 6 * self._block_rate(max(0.0, avg_items - spread)),
            2 / 3 * self._block_rate(avg_items),
            1 / 6 * self._block_rate(avg_items + spread),
        ]
        return sum(rates)

    def _block_rate(self, item_count: float) -> float:
        return self._fill(item_count) ** self.slices

    def _fill(self, item_count: float) -> float:
        """Return the expected fraction of set bits in a slice, 1 - (1 - 1 / bits)^keys."""
        if self.bits == 1:
            return float(item_count > 0)
        return -expm1(item_count * log1p(-1 / self.bits))


def slice_bytes(bits: int) -> int:
    """Return the number of bytes of a slice."""
    return (bits + 7) // 8


def fit_single_block(expected_items: int, fpp: float) -> BloomSize:
    """Return the smallest single block with at most this rate for the expected keys.

    Raises:
        ArgumentError: for more keys than one block can store, or an argument out of range.

    >>> fit_single_block(1_000, 0.01)
    BloomSize(blocks=1, slices=7, bits=1371)
    """
    size = _fit_size(expected_items, fpp, 1, _slice_count(expected_items, fpp), SLICE_BITS)
    if size is None:
        raise ArgumentError(
            f"invalid expected_items: {expected_items}",
            f"at most {max_items(fpp):,} keys in one value at fpp={fpp:g}",
            f"tidegate.sketches.BloomTable(key=..., expected_items={expected_items})",
        )
    return size


def fit_blocks(expected_items: int, fpp: float) -> BloomSize:
    """Return the smallest filter of several blocks with at most this rate for the expected keys.

    >>> fit_blocks(20_000_000, 0.01)
    BloomSize(blocks=5860, slices=7, bits=4680)
    """
    slices = _slice_count(expected_items, fpp)
    max_bits = BLOCK_BITS // slices
    blocks = max(1, expected_items * SLICE_BITS // (max_bits * max_items(fpp)))
    while (size := _fit_size(expected_items, fpp, blocks, slices, max_bits)) is None:
        blocks += max(1, blocks // 1_000)
    return size


def max_items(fpp: float) -> int:
    """Return the maximum number of keys in one block at this rate.

    >>> max_items(0.01)
    23910
    """
    fill = fpp ** (1 / _slice_count(1, fpp))
    return int(log1p(-fill) / log1p(-1 / SLICE_BITS))


def _fit_size(
    expected_items: int, fpp: float, blocks: int, slices: int, max_bits: int
) -> BloomSize | None:
    """Return the size with the fewest bits for this rate; None if it exceeds `max_bits`."""
    if BloomSize(blocks, slices, max_bits).false_positive_rate(expected_items) > fpp:
        return None
    larger_sizes = bisect_left(
        range(1, max_bits),
        -fpp,
        key=lambda bits: -BloomSize(blocks, slices, bits).false_positive_rate(expected_items),
    )
    return BloomSize(blocks, slices, 1 + larger_sizes)


def _slice_count(expected_items: int, fpp: float) -> int:
    is_integer = isinstance(expected_items, int) and not isinstance(expected_items, bool)
    if not is_integer or expected_items < 1:
        raise ArgumentError(
            f"invalid expected_items: {expected_items!r}",
            "an integer of 1 or more",
            "expected_items=1_000_000",
        )
    if not MIN_FPP <= fpp < 1:
        raise ArgumentError(
            f"invalid fpp: {fpp!r}",
            f"a probability from {MIN_FPP:g} to below 1",
            "fpp=0.01",
        )
    return max(1, round(-log2(fpp)))
