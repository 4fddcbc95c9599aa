"""The size of a Bloom filter for a number of keys and a false positive rate."""

from __future__ import annotations

import random

import pytest

from tidegate.errors import ArgumentError
from tidegate.sketches.bloom_size import (
    BLOCK_BITS,
    SLICE_BITS,
    BloomSize,
    fit_blocks,
    fit_single_block,
    max_items,
)

RATES = (0.5, 0.1, 0.01, 0.001, 1e-6)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("keys", [1, 10, 1_000, 10_000, 1_000_000, 20_000_000, 1_000_000_000])
def test_a_filter_has_the_fewest_bits_for_its_rate(keys: int, rate: float) -> None:
    size = fit_blocks(keys, rate)
    assert size.false_positive_rate(keys) <= rate
    assert size.bits * size.slices <= BLOCK_BITS
    fewer = BloomSize(size.blocks, size.slices, size.bits - 1)
    assert fewer.bits == 0 or fewer.false_positive_rate(keys) > rate
    if keys >= 1_000:
        assert size.false_positive_rate(keys) == pytest.approx(rate, rel=0.03)
        # An optimal filter has half of its bits set: 1.44 bits per key per halving of the rate.
        assert 8 * size.total_bytes / keys == pytest.approx(1.4427 * size.slices, rel=0.12)


def test_a_rate_of_one_percent_takes_9_6_bits_per_key() -> None:
    for keys in (10_000, 1_000_000, 20_000_000):
        assert 8 * fit_blocks(keys, 0.01).total_bytes / keys == pytest.approx(9.6, abs=0.05)


def test_the_rate_grows_with_the_keys() -> None:
    size = fit_blocks(100_000, 0.01)
    rates = [size.false_positive_rate(keys) for keys in (0, 50_000, 100_000, 115_000, 200_000)]
    assert rates == sorted(rates)
    assert rates[0] == 0
    assert rates[3] == pytest.approx(0.02, rel=0.05)
    assert rates[4] == pytest.approx(0.157, rel=0.02)


def test_the_expected_rate_equals_that_of_simulated_filters() -> None:
    size, keys, rng = BloomSize(blocks=4, slices=3, bits=40), 100, random.Random(7)
    total_rate = 0.0
    for _ in range(2_000):
        filled = [[set[int]() for _ in range(size.slices)] for _ in range(size.blocks)]
        for _ in range(keys):
            for bits in rng.choice(filled):
                bits.add(rng.randrange(size.bits))
        shares = [[len(bits) / size.bits for bits in block] for block in filled]
        total_rate += sum(a * b * c for a, b, c in shares) / size.blocks
    assert size.false_positive_rate(keys) == pytest.approx(total_rate / 2_000, rel=0.02)


def test_a_single_value_has_a_limit_and_the_error_names_bloom_table() -> None:
    for rate in RATES:
        limit = max_items(rate)
        assert fit_single_block(limit, rate).bits <= SLICE_BITS
        with pytest.raises(ArgumentError, match="BloomTable"):
            fit_single_block(limit + limit // 100, rate)


@pytest.mark.parametrize(
    ("keys", "rate", "problem"),
    [
        (0, 0.01, "invalid expected_items: 0"),
        (-1, 0.01, "invalid expected_items: -1"),
        (True, 0.01, "invalid expected_items: True"),
        (10, 0.0, "invalid fpp: 0.0"),
        (10, 1.0, "invalid fpp: 1.0"),
        (10, 1e-12, "invalid fpp: 1e-12"),
    ],
)
def test_arguments_out_of_range_are_rejected(keys: int, rate: float, problem: str) -> None:
    with pytest.raises(ArgumentError, match=rf"{problem}\n  expected: "):
        fit_blocks(keys, rate)
