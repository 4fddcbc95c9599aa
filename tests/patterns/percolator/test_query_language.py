"""The query language: parsed queries, and the positions of syntax errors."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.percolator_oracle import query
from tidegate.errors import ArgumentError
from tidegate.patterns import And, Not, Or, Phrase, Prefix, Range, SearchFields, parse_query
from tidegate.patterns.percolator._compiler import LITERAL, compile_program

FIELDS = SearchFields(text=["title", "body"], integer="views", double="price", time="at")
OIL, GAS, RAIN = Phrase("oil"), Phrase("gas"), Phrase("rain")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oil", OIL),
        ("oil gas OR rain", Or((And((OIL, GAS)), RAIN))),
        ("oil AND (gas OR rain)", And((OIL, Or((GAS, RAIN))))),
        ("NOT NOT oil", Not(Not(OIL))),
        ("title:(oil OR body:gas*)", Or((Phrase("oil", "title"), Prefix("gas", "body")))),
        ('"and" AND "OR"', And((Phrase("and"), Phrase("OR")))),
        ("e-mail", Phrase("e-mail")),
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
def test_a_text_parses_to_a_query(text: str, expected: object) -> None:
    assert parse_query(text, FIELDS) == expected


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "the end is at the start"),
        ("oil AND", 7, "the end is not a word"),
        ("oil or gas", 4, "'or' is not an operator"),
        ("oil -gas", 4, "'-gas' is not a word"),
        ("oil && gas", 4, "'&&' is not a word"),
        ("o?l", 0, "'o?l' is not a word"),
        ("*", 0, "'*' is not a word"),
        ("o*l", 0, "'o*l' is not a word"),
        ("e-mai*", 0, "'e-mai*' is not a prefix"),
        ('oil "gas', 4, "'\"' is an unclosed quote"),
        ('"--"', 0, "'--' has no term"),
        ("(oil", 4, "the end follows an unclosed ("),
        ("oil)", 3, "')' is unexpected"),
        ("oil ()", 5, "')' closes an empty ( )"),
        ("prise:5", 0, "'prise' is not a field"),
        ("price=5", 5, "'=' is not a word"),
        ("price:five", 6, "'five' is not a number"),
        ("price:1e999", 6, "'1e999' is not a number"),
        ("price:٣", 6, "'٣' is not a number"),
        ("price:[5 TO 1]", 6, "'[' begins an empty range"),
        ("price:{5 TO 5]", 6, "'{' begins an empty range"),
        ("price:[* TO *]", 6, "'[' begins a range without bounds"),
        ("price:[1 2]", 9, "'2' is not TO between the bounds of a range"),
        ("price:[1 TO 2", 13, "the end does not close a range"),
        ("title:[a TO b]", 6, "'[' begins a range of text"),
        ("at:2026-02-30", 3, "'2026-02-30' is not a time"),
        ("at:2026-02-03T10:00", 3, "'2026-02-03T10' is not a time"),
        ("(" * 41 + "oil", 40, "'(' is nested too deeply"),
        ("oil " * 501, 2000, "'oil' exceeds the limit of clauses"),
    ],
)
def test_a_syntax_error_marks_its_position(text: str, position: int, problem: str) -> None:
    with pytest.raises(ArgumentError) as error:
        parse_query(text, FIELDS)
    first_line, line, marker = error.value.problem.split("\n")
    assert first_line == f"invalid query: {problem}"
    assert line.removeprefix("    ") == text
    assert marker.index("^") == position + 4


@given(st.randoms(use_true_random=False))
def test_the_text_of_a_query_parses_to_an_equal_query(random: Random) -> None:
    drawn = query(random)
    fields = SearchFields(
        text=["title", "body", "tag"],
        integer="views",
        double="price",
        time="at",
        default=["title", "body"],
    )
    assert parse_query(str(drawn), fields) == drawn


@given(st.text('ab:"()[]{}<>=*ANDORT 0123.-e', max_size=40))
def test_any_text_parses_or_raises_an_argument_error(text: str) -> None:
    try:
        parsed = parse_query(text, FIELDS)
    except ArgumentError:
        return
    assert parse_query(str(parsed), FIELDS) == parsed


def test_invalid_terms_raise() -> None:
    for construct in (
        lambda: Phrase("--"),
        lambda: Prefix("a b"),
        lambda: Range("price"),
        lambda: Range("price", at_least=1, above=2),
        lambda: Range("price", at_least=float("nan")),
        lambda: And((OIL,)),
    ):
        with pytest.raises(ArgumentError):
            construct()


def test_a_range_wider_than_its_rounded_width_has_three_buckets() -> None:
    wide = compile_program(parse_query("price:[-1e-20 TO 1]", FIELDS), FIELDS)
    assert wide.covers == [[(LITERAL, 0, f"f0 0 {bucket}") for bucket in (-1, 0, 1)]]
