"""The language of standing queries: what reads, what does not, and where."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import ArgumentError
from tidegate.patterns import And, Not, Or, Prefix, Range, SearchFields, Words, parse_query
from tidegate.patterns.standing._program import READY, program

from .oracle import query

FIELDS = SearchFields(text=["title", "body"], whole="views", fraction="price", time="at")
OIL, GAS, RAIN = Words("oil"), Words("gas"), Words("rain")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oil", OIL),
        ("oil gas OR rain", Or((And((OIL, GAS)), RAIN))),
        ("oil AND (gas OR rain)", And((OIL, Or((GAS, RAIN))))),
        ("NOT NOT oil", Not(Not(OIL))),
        ("title:(oil OR body:gas*)", Or((Words("oil", "title"), Prefix("gas", "body")))),
        ('"and" AND "OR"', And((Words("and"), Words("OR")))),
        ("e-mail", Words("e-mail")),
        ("price:-1.5e3", Range("price", at_least=-1500.0, at_most=-1500.0)),
        ("views:{1 TO *]", Range("views", above=1)),
        (
            "views:(1 OR >=7)",
            Or((Range("views", at_least=1, at_most=1), Range("views", at_least=7))),
        ),
        ("at:<2026-01-31T10:00+01:00", parse_query("at:<2026-01-31T09:00:00Z", FIELDS)),
        ("at:>=2026-01-31", parse_query("at:>=2026-01-31T00:00Z", FIELDS)),
    ],
)
def test_a_text_is_a_value(text: str, expected: object) -> None:
    assert parse_query(text, FIELDS) == expected


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("", 0, "its end is all there is"),
        ("oil AND", 7, "its end is no word"),
        ("oil or gas", 4, "'or' is no operator"),
        ("oil -gas", 4, "'-gas' is no word"),
        ("oil && gas", 4, "'&&' is no word"),
        ("o?l", 0, "'o?l' is no word"),
        ("*", 0, "'*' is no word"),
        ("o*l", 0, "'o*l' is no word"),
        ("e-mai*", 0, "'e-mai*' is no prefix"),
        ('oil "gas', 4, "'\"' opens quotes that nothing closes"),
        ('"--"', 0, "'--' has no term"),
        ("(oil", 4, "its end stands where a ( is open"),
        ("oil)", 3, "')' cannot stand here"),
        ("oil ()", 5, "')' closes an empty ( )"),
        ("prise:5", 0, "'prise' is no field"),
        ("price=5", 5, "'=' is no word"),
        ("price:five", 6, "'five' is no number"),
        ("price:1e999", 6, "'1e999' is no number"),
        ("price:٣", 6, "'٣' is no number"),
        ("price:[5 TO 1]", 6, "'[' begins a range that holds nothing"),
        ("price:{5 TO 5]", 6, "'{' begins a range that holds nothing"),
        ("price:[* TO *]", 6, "'[' begins a range without bounds"),
        ("price:[1 2]", 9, "'2' stands in a range"),
        ("price:[1 TO 2", 13, "its end stands at the end of a range"),
        ("title:[a TO b]", 6, "'[' begins a range of texts"),
        ("at:2026-02-30", 3, "'2026-02-30' is no time"),
        ("at:2026-02-03T10:00", 3, "'2026-02-03T10' is no time"),
        ("(" * 41 + "oil", 40, "'(' is too deep"),
        ("oil " * 501, 2000, "'oil' is one too many"),
    ],
)
def test_a_text_that_is_no_query_is_refused_at_its_place(text: str, place: int, told: str) -> None:
    with pytest.raises(ArgumentError) as error:
        parse_query(text, FIELDS)
    said, line, mark = error.value.given.split("\n")
    assert said.endswith(f"where {told}:")
    assert line.removeprefix("    ") == text
    assert mark.index("^") == place + 4


@given(st.randoms(use_true_random=False))
def test_the_text_of_a_value_reads_back_as_the_value(random: Random) -> None:
    drawn = query(random)
    fields = SearchFields(
        text=["title", "body", "tag"],
        whole="views",
        fraction="price",
        time="at",
        default=["title", "body"],
    )
    assert parse_query(str(drawn), fields) == drawn


@given(st.text('ab:"()[]{}<>=*ANDORT 0123.-e', max_size=40))
def test_any_text_reads_or_is_refused(text: str) -> None:
    try:
        found = parse_query(text, FIELDS)
    except ArgumentError:
        return
    assert parse_query(str(found), FIELDS) == found


def test_values_that_cannot_match_are_refused() -> None:
    for made in (
        lambda: Words("--"),
        lambda: Prefix("a b"),
        lambda: Range("price"),
        lambda: Range("price", at_least=1, above=2),
        lambda: Range("price", at_least=float("nan")),
        lambda: And((OIL,)),
    ):
        with pytest.raises(ArgumentError):
            made()


def test_a_range_that_is_wider_than_its_rounded_width_has_all_of_its_buckets() -> None:
    wide = program(parse_query("price:[-1e-20 TO 1]", FIELDS), FIELDS)
    assert wide.covers == [[(READY, 0, f"f0 0 {bucket}") for bucket in (-1, 0, 1)]]
