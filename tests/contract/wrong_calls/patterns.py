"""Wrong calls of pattern matching, percolation and deviation detection."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.contract.wrong_calls.fixtures import Call, CallInputs
from tidegate import aggregates as a
from tidegate import windows
from tidegate.patterns import (
    DeviationDetection,
    DeviationRule,
    MatchSequence,
    PastWindows,
    Phrase,
    SearchFields,
    compare,
    deviations,
    events_of,
    match_sequence,
    next_,
    not_followed_by,
    parse_query,
    percolate,
    sequence,
    step,
)

ANY = step("a")
B = step("b", "ms > 1")


def pattern(*parts: Any, within: Any = "1 minute") -> Call:
    return lambda g: sequence(*parts, within=within)


def matched(*parts: Any, **options: Any) -> Call:
    return lambda g: match_sequence(g.clicks, sequence(*parts, within="1 minute"), **options)


def searched(**options: Any) -> Call:
    fields = {"text": "page", "integer": "ms", **options.pop("fields", {})}
    queries = options.pop("queries", "'page:a' AS query, 'x' AS query_id")

    def call(g: CallInputs) -> object:
        table = g.clicks.selectExpr(*queries.split(", "))
        return percolate(g.clicks, table, SearchFields(**fields), **options)

    return call


PATTERNS: dict[str, tuple[Call, str]] = {
    "SearchFields, nothing": (lambda g: SearchFields(), "invalid fields: none"),
    "SearchFields, a field twice": (
        lambda g: SearchFields(text="a", time="a"),
        "invalid fields: repeated a",
    ),
    "SearchFields, a name with a dot": (lambda g: SearchFields(text="a.b"), "'a.b'"),
    "SearchFields, default unknown": (
        lambda g: SearchFields(text="a", default="b"),
        "invalid default: 'b'",
    ),
    "Phrase, no term": (lambda g: Phrase("--"), "invalid text: '--'"),
    "parse_query, no text": (
        lambda g: parse_query(None, SearchFields(text="a")),
        "invalid query: None",
    ),
    "percolate, unknown field": (searched(fields={"text": "pag"}), "no column 'pag'"),
    "percolate, a field of another type": (
        searched(fields={"integer": "user"}),
        "'user' in integer",
    ),
    "percolate, no queries": (searched(query="q"), "query: no column 'q'"),
    "percolate, columns in both": (
        searched(queries="'a' AS query, 1 AS ms"),
        "invalid queries: duplicate result column 'ms'",
    ),
    "percolate, order without as_of": (searched(order="query_id"), "no order without as_of"),
    "percolate, no history": (searched(as_of="event_time"), "no column 'valid_from'"),
    "percolate, a stream of queries": (
        lambda g: percolate(
            g.clicks, g.stream.selectExpr("'a' AS query"), SearchFields(text="page")
        ),
        "invalid queries: a stream",
    ),
    "sequence, of nothing": (pattern(), "no steps"),
    "sequence, of a text": (pattern("ms > 1"), "invalid part of a sequence: 'ms > 1'"),
    "sequence, within of zero": (pattern(ANY, within="0s"), "within"),
    "sequence, within no duration": (pattern(ANY, within="soon"), "within"),
    "sequence, negation first": (
        pattern(not_followed_by("ms > 1"), ANY),
        "not_followed_by is its first part",
    ),
    "sequence, only a negation": (pattern(not_followed_by("ms > 1")), "no steps"),
    "sequence, a name twice": (pattern(ANY, ANY), "repeated step names a"),
    "sequence, first optional": (pattern(step("a", times=(0, 1)), B), "first step 'a': optional"),
    "sequence, first contiguous": (pattern(next_(ANY), B), "wrapped in next_"),
    "sequence, last reluctant": (pattern(ANY, step("b", times=(1, 3), greedy=False)), "'b'"),
    "sequence, forbidden and required": (
        pattern(ANY, not_followed_by("ms > 1"), B),
        "invalid step 'b'",
    ),
    "sequence, compared with a later step": (
        pattern(ANY, step("b", compare("ms", ">", events_of("c").first("ms"))), step("c")),
        "comparison in step 'b': step 'c' is not an earlier step",
    ),
    "sequence, compared with itself": (
        pattern(ANY, step("b", compare("ms", ">", events_of("b").first("ms")))),
        "step 'b'",
    ),
    "sequence, the first compared": (
        pattern(step("a", compare("ms", ">", events_of().last("ms")))),
        "step 'a'",
    ),
    "step, no name": (lambda g: step(""), "invalid name: ''"),
    "step, times of none": (lambda g: step("a", times=0), "invalid times of step 'a': 0"),
    "step, times reversed": (
        lambda g: step("a", times=(3, 2)),
        "invalid times of step 'a': (3, 2)",
    ),
    "step, times a text": (lambda g: step("a", times="+"), "invalid times of step 'a': '+'"),
    "step, condition a number": (lambda g: step("a", 1), "invalid condition of step 'a': 1"),
    "not_followed_by, no condition": (
        lambda g: not_followed_by(),
        "invalid conditions of not_followed_by",
    ),
    "compare, unknown": (lambda g: compare("ms", "~", events_of("a").first("ms")), "'~'"),
    "compare, with a count": (
        lambda g: compare("ms", ">", events_of("a").count()),
        "invalid earlier_value",
    ),
    "MatchSequence, no pattern": (lambda g: MatchSequence("a b"), "invalid pattern: 'a b'"),
    "MatchSequence, skip": (
        lambda g: MatchSequence(sequence(ANY, within="1s"), skip="on"),
        "invalid skip: 'on'",
    ),
    "match_sequence, unknown column": (matched(ANY, step("b", "mss > 1")), "'mss > 1' of step 'b'"),
    "match_sequence, no condition": (matched(ANY, step("b", "ms + 1")), "'ms + 1' of step 'b'"),
    "match_sequence, broken SQL": (matched(ANY, step("b", "ms >")), "'ms >' of step 'b'"),
    "match_sequence, negation of an unknown column": (
        matched(ANY, not_followed_by("mss > 1")),
        "of negation 1 after step 'a'",
    ),
    "match_sequence, compared with a text": (
        matched(ANY, step("b", compare("event_time", ">", events_of("a").first("array(page)")))),
        "compare('event_time'",
    ),
    "match_sequence, measure of an unknown step": (
        matched(ANY, measures={"n": events_of("b").count()}),
        "invalid step in measures['n']: 'b'",
    ),
    "match_sequence, measure of an unknown column": (
        matched(ANY, measures={"n": events_of("a").first("mss")}),
        "measures['n']",
    ),
    "match_sequence, sum of a text": (
        matched(ANY, measures={"n": events_of("a").sum("page")}),
        "type of the sum in measures['n']: string",
    ),
    "match_sequence, measure a text": (
        matched(ANY, measures={"n": "ms"}),
        "invalid measures['n']: 'ms'",
    ),
    "match_sequence, name taken": (
        matched(ANY, measures={"started": events_of("a").count()}),
        "started",
    ),
    "match_sequence, by unknown": (matched(ANY, by="pag"), "by: no column 'pag'"),
    "match_sequence, no watermark": (
        lambda g: match_sequence(g.stream, sequence(ANY, within="1s")),
        "watermark",
    ),
}


def of_minutes(column: str) -> Call:
    """Detect deviations of windows of one minute by a column."""
    aggs = {"page": a.max("page"), "ms": a.sum("ms")}
    rules = {"r": DeviationRule(column, WEEKS, ratio=2)}
    return lambda g: deviations(windows.tumbling(g.clicks, "1m", aggs=aggs), "1m", rules=rules)


WEEKS = PastWindows(4, every="1 week")
TWICE = {"twice": DeviationRule("ms", WEEKS, ratio=2)}
PAST: dict[str, tuple[Call, str]] = {
    "PastWindows, count 0": (lambda g: PastWindows(0), "count: 0"),
    "PastWindows, skip a text": (
        lambda g: PastWindows(1, skip=["2026-12-25"]),
        "invalid date in skip: '2026-12-25'",
    ),
    "PastWindows, zero_from without a zone": (
        lambda g: PastWindows(1, zero_from=datetime(2026, 1, 1)),
        "invalid zero_from",
    ),
    "DeviationRule, no past": (lambda g: DeviationRule("ms", 4, ratio=2), "invalid past: 4"),
    "DeviationRule, no limit": (
        lambda g: DeviationRule("ms", WEEKS),
        "invalid limits: none is set",
    ),
    "DeviationRule, ratio 1": (lambda g: DeviationRule("ms", WEEKS, ratio=1), "invalid ratio: 1"),
    "DeviationRule, limit a text": (
        lambda g: DeviationRule("ms", WEEKS, absolute="5"),
        "invalid absolute: '5'",
    ),
    "DeviationRule, direction": (
        lambda g: DeviationRule("ms", WEEKS, ratio=2, direction="up"),
        "invalid direction: 'up'",
    ),
    "DeviationRule, robust_z of a mean": (
        lambda g: DeviationRule("ms", WEEKS, robust_z=3, baseline="mean"),
        "invalid baseline with robust_z: 'mean'",
    ),
    "DeviationRule, min_samples above count": (
        lambda g: DeviationRule("ms", WEEKS, ratio=2, min_samples=5),
        "min_samples: 5",
    ),
    "DeviationDetection, no rules": (lambda g: DeviationDetection("1 hour"), "invalid rules: {}"),
    "DeviationDetection, by a rule": (
        lambda g: DeviationDetection("1 hour", by="rule", rules=TWICE),
        "'rule'",
    ),
    "DeviationDetection, size that does not divide an hour": (
        lambda g: DeviationDetection("7 hours", rules=TWICE, zone="Europe/Berlin"),
        "'7 hours'",
    ),
    "DeviationDetection, distance that is not a multiple": (
        lambda g: DeviationDetection("5 hours", rules=TWICE),
        "invalid every: '1 week'",
    ),
    "DeviationDetection, days and months": (
        lambda g: DeviationDetection("1 month", rules=TWICE, zone="UTC"),
        "invalid every: '1 week'",
    ),
    "deviations, unknown column": (of_minutes("mss"), "'mss'"),
    "deviations, no number": (of_minutes("page"), "invalid type of column 'page': string"),
    "deviations, no windows": (lambda g: deviations(g.clicks, "1 hour", rules=TWICE), "'window'"),
}
