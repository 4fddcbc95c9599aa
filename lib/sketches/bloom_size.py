"""The arithmetic of Bloom filters: how many bits, and how often an unknown key passes for known."""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, log1p, log2, sqrt

from ..errors import ArgumentError

SLICE_BITS = 32_768
"""What one of Spark's bitmaps holds, and so the longest slice."""
BLOCK_BITS = 32_768
"""The largest block of many: a join copies a block for each key that is asked for, so that smaller
blocks are faster. A block holds some 3,400 keys at 0.01, enough that the uneven fill of blocks
costs no more than a thousandth of the bits."""
RAREST = 1e-9
"""The least rate of false positives that can be asked for."""


@dataclass(frozen=True)
class BloomSize:
    """The measures of a filter: `blocks` blocks, each of `slices` bitmaps of `bits` bits.

    A key belongs to one block and sets one bit in each of its slices. It is taken for known when
    all of these bits are set.
    """

    blocks: int
    slices: int
    bits: int

    @property
    def total_bytes(self) -> int:
        """The bytes of all bitmaps."""
        return self.blocks * self.slices * slice_bytes(self.bits)

    def rate(self, keys: int) -> float:
        """Return the rate of false positives that is to be expected with `keys` different keys.

        The rate of one block is fill^slices, exactly in the mean, since slices fill independently.
        The rate of many blocks is the mean over the blocks, whose numbers of keys are binomial:
        three points (Gauss-Hermite) stand for that distribution.
        """
        mean = keys / self.blocks
        spread = sqrt(3 * mean * (1 - 1 / self.blocks))
        rates = [
            1 / 6 * self._block_rate(max(0.0, mean - spread)),
            2 / 3 * self._block_rate(mean),
            1 / 6 * self._block_rate(mean + spread),
        ]
        return sum(rates)

    def _block_rate(self, keys: float) -> float:
        return self._fill(keys) ** self.slices

    def _fill(self, keys: float) -> float:
        """Return the share of a slice's bits that is set, 1 - (1 - 1 / bits)^keys."""
        if self.bits == 1:
            return float(keys > 0)
        return -expm1(keys * log1p(-1 / self.bits))


def slice_bytes(bits: int) -> int:
    """Return the bytes of a slice."""
    return (bits + 7) // 8


def one_block(keys: int, false_positives: float) -> BloomSize:
    """Return the smallest single block that holds the keys at the rate.

    Raises:
        ArgumentError: for more keys than a block can hold, or an argument out of its range.

    >>> one_block(1_000, 0.01)
    BloomSize(blocks=1, slices=7, bits=1371)
    """
    found = _fitted(keys, false_positives, 1, _slices(keys, false_positives), SLICE_BITS)
    if found is None:
        raise ArgumentError(
            f"keys is {keys:,}, at false_positives={false_positives:g}.",
            f"at most {most_keys(false_positives):,} keys in one value.",
            "a filter in a table: BloomTable(key=..., keys=...) of tidegate.sketches.",
        )
    return found


def many_blocks(keys: int, false_positives: float) -> BloomSize:
    """Return the smallest filter of as many blocks as the keys need at the rate.

    >>> many_blocks(20_000_000, 0.01)
    BloomSize(blocks=5860, slices=7, bits=4680)
    """
    slices = _slices(keys, false_positives)
    longest = BLOCK_BITS // slices
    blocks = max(1, keys * SLICE_BITS // (longest * most_keys(false_positives)))
    while (found := _fitted(keys, false_positives, blocks, slices, longest)) is None:
        blocks += max(1, blocks // 1_000)
    return found


def most_keys(false_positives: float) -> int:
    """Return how many keys one block can hold at the rate.

    >>> most_keys(0.01)
    23910
    """
    fill = false_positives ** (1 / _slices(1, false_positives))
    return int(log1p(-fill) / log1p(-1 / SLICE_BITS))


def _fitted(
    keys: int, false_positives: float, blocks: int, slices: int, longest: int
) -> BloomSize | None:
    """Return the size of the fewest bits that keep the rate; None where `longest` are too few."""
    if BloomSize(blocks, slices, longest).rate(keys) > false_positives:
        return None
    least = 1
    most = longest
    while least < most:
        middle = (least + most) // 2
        if BloomSize(blocks, slices, middle).rate(keys) > false_positives:
            least = middle + 1
        else:
            most = middle
    return BloomSize(blocks, slices, most)


def _slices(keys: int, false_positives: float) -> int:
    if isinstance(keys, bool) or not isinstance(keys, int) or keys < 1:
        raise ArgumentError(
            f"keys is {keys!r}.",
            "how many different keys there will be, 1 or more.",
            "keys=1_000_000",
        )
    if not RAREST <= false_positives < 1:
        raise ArgumentError(
            f"false_positives is {false_positives!r}.",
            f"a share from {RAREST:g} to below 1.",
            "false_positives=0.01",
        )
    return max(1, round(-log2(false_positives)))
