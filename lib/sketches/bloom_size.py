"""The arithmetic of Bloom filters: how many bits, and how often an unknown key is taken for a known
one."""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, log1p, log2, sqrt

from ..errors import ArgumentError

SLICE_BITS = 32_768
"""What one of Spark's bitmaps holds, and so the longest slice."""
BLOCK_BITS = 32_768
"""The largest block of many: a join copies a block for each key that is asked for, so smaller ones
are faster. One holds some 3,400 keys at 0.01, enough that the uneven fill of blocks costs no more
than a thousandth of the bits."""
RAREST = 1e-9


@dataclass(frozen=True)
class BloomSize:
    """The measures of a filter: `blocks` filters, in which each key belongs to one, of `slices` bitmaps of `bits` bits.

    A key sets one bit in each slice of its block. It is taken for known when all of these bits are
    set."""

    blocks: int
    slices: int
    bits: int

    @property
    def total_bytes(self) -> int:
        """The bytes of all bitmaps."""
        return self.blocks * self.slices * slice_bytes(self.bits)

    def rate(self, keys: int) -> float:
        """Return the false-positive rate that is to be expected with so many different keys.

        In one block it is fill^slices, exactly in the mean, as slices fill independently. Of many
        blocks it is the mean over their numbers of keys, which are binomial; three points
        (Gauss-Hermite) stand for those."""
        mean = keys / self.blocks
        spread = sqrt(3 * mean * (1 - 1 / self.blocks))
        points = ((1 / 6, max(0.0, mean - spread)), (2 / 3, mean), (1 / 6, mean + spread))
        return sum(weight * self._filled(count) ** self.slices for weight, count in points)

    def _filled(self, keys: float) -> float:
        return -expm1(keys * log1p(-1 / self.bits)) if self.bits > 1 else float(keys > 0)


def slice_bytes(bits: int) -> int:
    """Return the bytes of a slice."""
    return (bits + 7) // 8


def one_block(keys: int, false_positives: float) -> BloomSize:
    """Return the smallest single block that holds the keys at the rate.

    >>> one_block(1_000, 0.01)
    BloomSize(blocks=1, slices=7, bits=1371)

    Raises ArgumentError where the keys are more than a block can hold, or an argument is out of its
    range."""
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
    """Find the fewest bits that keep the rate; None where a slice of the longest has too few."""
    least, most = 1, longest
    if BloomSize(blocks, slices, most).rate(keys) > false_positives:
        return None
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
