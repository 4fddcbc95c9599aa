"""Durations with long and abbreviated units."""

from __future__ import annotations

import pytest

from tidegate.durations import duration_text, microseconds
from tidegate.errors import ArgumentError

SECOND = 1_000_000
MINUTE = 60 * SECOND


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5m", 5 * MINUTE),
        ("5 min", 5 * MINUTE),
        ("5 minutes", 5 * MINUTE),
        ("5 Minutes", 5 * MINUTE),
        ("10s", 10 * SECOND),
        ("10 secs", 10 * SECOND),
        ("250ms", 250_000),
        ("7us", 7),
        ("1h30m", 90 * MINUTE),
        ("1 hour 30 minutes", 90 * MINUTE),
        ("interval 2 days", 2 * 24 * 60 * MINUTE),
        ("1w", 7 * 24 * 60 * MINUTE),
    ],
)
def test_durations_have_long_or_abbreviated_units(text: str, expected: int) -> None:
    assert microseconds(text) == expected


@pytest.mark.parametrize("text", ["5", "m", "5S", "5 sm", "5 parsecs", "1h x", "1 hour,", ""])
def test_an_invalid_duration_raises(text: str) -> None:
    with pytest.raises(ArgumentError, match="or '5m'; the units are"):
        microseconds(text)


@pytest.mark.parametrize("text", ["1 month", "2 months", "5M"])
def test_a_month_has_no_fixed_length(text: str) -> None:
    with pytest.raises(ArgumentError, match="a month has no fixed length"):
        microseconds(text)


def test_the_remedy_for_a_duration_that_is_too_short_is_valid() -> None:
    with pytest.raises(ArgumentError) as error:
        microseconds("1 minute", "max_duration", min_value=30 * MINUTE)
    assert error.value.detail.startswith("at least 30 minutes")
    assert error.value.remedy == "max_duration='30 minutes'"


@pytest.mark.parametrize(
    "micros", [0, 1, 999, 1_000, 90_061_001_001, 604_800_000_000, 86_399_999_999]
)
def test_the_text_of_a_duration_is_read_as_the_same_duration(micros: int) -> None:
    assert microseconds(duration_text(micros), min_value=0) == micros
