"""The size of a Bloom filter, by the keys and the rate that it is for."""

from __future__ import annotations

import random

import pytest

from tidegate.errors import ArgumentError
from tidegate.sketches.bloom_size import (
    BLOCK_BITS,
    SLICE_BITS,
    BloomSize,
    many_blocks,
    most_keys,
    one_block,
)

RATES = (0.5, 0.1, 0.01, 0.001, 1e-6)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("keys", [1, 10, 1_000, 10_000, 1_000_000, 20_000_000, 1_000_000_000])
def test_a_filter_keeps_its_rate_and_a_bit_less_would_not(keys: int, rate: float) -> None:
    size = many_blocks(keys, rate)
    assert size.rate(keys) <= rate
    assert size.bits * size.slices <= BLOCK_BITS
    fewer = BloomSize(size.blocks, size.slices, size.bits - 1)
    assert fewer.bits == 0 or fewer.rate(keys) > rate
    if keys >= 1_000:
        assert size.rate(keys) == pytest.approx(rate, rel=0.03)
        # Half of the bits are set when a filter is best: 1.44 bits a key for each halving of the
        # rate.
        assert 8 * size.total_bytes / keys == pytest.approx(1.4427 * size.slices, rel=0.12)


def test_one_in_a_hundred_takes_nine_and_six_tenths_bits_a_key() -> None:
    for keys in (10_000, 1_000_000, 20_000_000):
        assert 8 * many_blocks(keys, 0.01).total_bytes / keys == pytest.approx(9.6, abs=0.05)


def test_the_rate_grows_with_the_keys() -> None:
    size = many_blocks(100_000, 0.01)
    rates = [size.rate(keys) for keys in (0, 50_000, 100_000, 115_000, 200_000)]
    assert rates == sorted(rates)
    assert rates[0] == 0
    assert rates[3] == pytest.approx(0.02, rel=0.05)
    assert rates[4] == pytest.approx(0.157, rel=0.02)


def test_the_expected_rate_is_that_of_filters_thrown_by_dice() -> None:
    size, keys, chance = BloomSize(blocks=4, slices=3, bits=40), 100, random.Random(7)
    found = 0.0
    for _ in range(2_000):
        filled = [[set[int]() for _ in range(size.slices)] for _ in range(size.blocks)]
        for _ in range(keys):
            for bits in chance.choice(filled):
                bits.add(chance.randrange(size.bits))
        shares = [[len(bits) / size.bits for bits in block] for block in filled]
        found += sum(a * b * c for a, b, c in shares) / size.blocks
    assert size.rate(keys) == pytest.approx(found / 2_000, rel=0.02)


def test_one_value_holds_what_it_says_and_more_is_for_a_table() -> None:
    for rate in RATES:
        most = most_keys(rate)
        assert one_block(most, rate).bits <= SLICE_BITS
        with pytest.raises(ArgumentError, match="BloomTable"):
            one_block(most + most // 100, rate)


@pytest.mark.parametrize(
    ("keys", "rate"), [(0, 0.01), (-1, 0.01), (True, 0.01), (10, 0.0), (10, 1.0), (10, 1e-12)]
)
def test_measures_out_of_range_are_refused(keys: int, rate: float) -> None:
    with pytest.raises(ArgumentError, match="allowed"):
        many_blocks(keys, rate)
