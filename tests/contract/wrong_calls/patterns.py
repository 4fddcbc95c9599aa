"""Wrong calls of sequences, searches and comparisons with the past."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from datetime import datetime
from typing import Any

from tidegate import aggregates as a
from tidegate import windows
from tidegate.patterns import (
    Deviation,
    Deviations,
    Past,
    SearchFields,
    Sequences,
    Words,
    compare,
    deviations,
    directly,
    match_sequence,
    matches,
    not_,
    of,
    parse_query,
    sequence,
    step,
)

from .given import Call, Given

ANY = step("a")
B = step("b", "ms > 1")


def pattern(*parts: Any, within: Any = "1 minute") -> Call:
    return lambda g: sequence(*parts, within=within)


def matched(*parts: Any, **options: Any) -> Call:
    return lambda g: match_sequence(g.clicks, sequence(*parts, within="1 minute"), **options)


def searched(**options: Any) -> Call:
    fields = {"text": "page", "whole": "ms", **options.pop("fields", {})}
    queries = options.pop("queries", "'page:a' AS query, 'x' AS query_id")

    def call(g: Given) -> object:
        table = g.clicks.selectExpr(*queries.split(", "))
        return matches(g.clicks, table, SearchFields(**fields), **options)

    return call


PATTERNS: dict[str, tuple[Call, str]] = {
    "SearchFields, nothing": (lambda g: SearchFields(), "the fields are none"),
    "SearchFields, a field twice": (lambda g: SearchFields(text="a", time="a"), "more than once"),
    "SearchFields, a name with a dot": (lambda g: SearchFields(text="a.b"), "'a.b'"),
    "SearchFields, default unknown": (lambda g: SearchFields(text="a", default="b"), "names b"),
    "Words, no term": (lambda g: Words("--"), "text is '--'"),
    "parse_query, no text": (lambda g: parse_query(None, SearchFields(text="a")), "query is None"),
    "matches, unknown field": (searched(fields={"text": "pag"}), "names 'pag'"),
    "matches, a field of another type": (searched(fields={"whole": "user"}), "whole names 'user'"),
    "matches, no queries": (searched(query="q"), "query names 'q'"),
    "matches, columns in both": (searched(queries="'a' AS query, 1 AS ms"), "both have ms"),
    "matches, order without as_of": (searched(order="query_id"), "without as_of"),
    "matches, no history": (searched(as_of="event_time"), "names 'valid_from'"),
    "matches, a stream of queries": (
        lambda g: matches(g.clicks, g.stream.selectExpr("'a' AS query"), SearchFields(text="page")),
        "the queries are a stream",
    ),
    "sequence, of nothing": (pattern(), "no step"),
    "sequence, of a text": (pattern("ms > 1"), "a sequence holds 'ms > 1'"),
    "sequence, within of zero": (pattern(ANY, within="0s"), "within"),
    "sequence, within no duration": (pattern(ANY, within="soon"), "within"),
    "sequence, not_ first": (pattern(not_("ms > 1"), ANY), "begins with not_"),
    "sequence, not_ alone": (pattern(not_("ms > 1")), "no step"),
    "sequence, a name twice": (pattern(ANY, ANY), "named a"),
    "sequence, first left out": (pattern(step("a", times=(0, 1)), B), "'a' may be left out"),
    "sequence, first directly": (pattern(directly(ANY), B), "follows directly"),
    "sequence, last reluctant": (pattern(ANY, step("b", times=(1, 3), greedy=False)), "'b'"),
    "sequence, forbidden and wanted": (pattern(ANY, not_("ms > 1"), B), "step 'b' wants"),
    "sequence, compared with a later step": (
        pattern(ANY, step("b", compare("ms", ">", of("c").first("ms"))), step("c")),
        "step 'b' is compared with an event of 'c'",
    ),
    "sequence, compared with itself": (
        pattern(ANY, step("b", compare("ms", ">", of("b").first("ms")))),
        "step 'b'",
    ),
    "sequence, the first compared": (
        pattern(step("a", compare("ms", ">", of().last("ms")))),
        "step 'a'",
    ),
    "step, no name": (lambda g: step(""), "name is ''"),
    "step, times of none": (lambda g: step("a", times=0), "times is 0"),
    "step, times turned": (lambda g: step("a", times=(3, 2)), "times is (3, 2)"),
    "step, times a text": (lambda g: step("a", times="+"), "times is '+'"),
    "step, condition a number": (lambda g: step("a", 1), "the condition 1"),
    "not_, no condition": (lambda g: not_(), "not_ has no condition"),
    "compare, unknown": (lambda g: compare("ms", "~", of("a").first("ms")), "'~'"),
    "compare, with a count": (lambda g: compare("ms", ">", of("a").count()), "earlier is"),
    "Sequences, no pattern": (lambda g: Sequences("a b"), "pattern is 'a b'"),
    "Sequences, skip": (lambda g: Sequences(sequence(ANY, within="1s"), skip="on"), "skip is 'on'"),
    "match_sequence, unknown column": (matched(ANY, step("b", "mss > 1")), "step 'b': 'mss > 1'"),
    "match_sequence, no condition": (matched(ANY, step("b", "ms + 1")), "step 'b': 'ms + 1'"),
    "match_sequence, broken SQL": (matched(ANY, step("b", "ms >")), "step 'b': 'ms >'"),
    "match_sequence, not_ of an unknown column": (
        matched(ANY, not_("mss > 1")),
        "not_ number 1 after step 'a'",
    ),
    "match_sequence, compared with a text": (
        matched(ANY, step("b", compare("event_time", ">", of("a").first("array(page)")))),
        "compare('event_time'",
    ),
    "match_sequence, measure of an unknown step": (
        matched(ANY, measures={"n": of("b").count()}),
        "measures['n'] is of the step 'b'",
    ),
    "match_sequence, measure of an unknown column": (
        matched(ANY, measures={"n": of("a").first("mss")}),
        "measures['n']",
    ),
    "match_sequence, total of a text": (
        matched(ANY, measures={"n": of("a").total("page")}),
        "the total of type string",
    ),
    "match_sequence, measure a text": (matched(ANY, measures={"n": "ms"}), "measures['n'] is 'ms'"),
    "match_sequence, name taken": (
        matched(ANY, measures={"started": of("a").count()}),
        "started",
    ),
    "match_sequence, by unknown": (matched(ANY, by="pag"), "by names 'pag'"),
    "match_sequence, no watermark": (
        lambda g: match_sequence(g.stream, sequence(ANY, within="1s")),
        "watermark",
    ),
}


def of_minutes(column: str) -> Call:
    """Compare minutes by a column of theirs."""
    aggs = {"page": a.largest("page"), "ms": a.total("ms")}
    rules = {"r": Deviation(column, WEEKS, ratio=2)}
    return lambda g: deviations(windows.tumbling(g.clicks, "1m", aggs=aggs), "1m", rules=rules)


WEEKS = Past(4, every="1 week")
TWICE = {"twice": Deviation("ms", WEEKS, ratio=2)}
PAST: dict[str, tuple[Call, str]] = {
    "Past, none": (lambda g: Past(0), "count is 0"),
    "Past, skip a text": (lambda g: Past(1, skip=["2026-12-25"]), "skip holds '2026-12-25'"),
    "Past, zero_from without a zone": (
        lambda g: Past(1, zero_from=datetime(2026, 1, 1)),
        "has no zone",
    ),
    "Deviation, no past": (lambda g: Deviation("ms", 4, ratio=2), "past is 4"),
    "Deviation, no limit": (lambda g: Deviation("ms", WEEKS), "no limit is given"),
    "Deviation, ratio 1": (lambda g: Deviation("ms", WEEKS, ratio=1), "ratio is 1"),
    "Deviation, limit a text": (lambda g: Deviation("ms", WEEKS, absolute="5"), "absolute is '5'"),
    "Deviation, direction": (
        lambda g: Deviation("ms", WEEKS, ratio=2, direction="up"),
        "direction is 'up'",
    ),
    "Deviation, robust_z of a mean": (
        lambda g: Deviation("ms", WEEKS, robust_z=3, baseline="mean"),
        "baseline='mean'",
    ),
    "Deviation, at_least more than there are": (
        lambda g: Deviation("ms", WEEKS, ratio=2, at_least=5),
        "at_least is 5",
    ),
    "Deviations, no rules": (lambda g: Deviations("1 hour"), "rules is {}"),
    "Deviations, by a rule": (lambda g: Deviations("1 hour", by="rule", rules=TWICE), "'rule'"),
    "Deviations, size beside the clocks": (
        lambda g: Deviations("7 hours", rules=TWICE, zone="Europe/Berlin"),
        "size is '7 hours'",
    ),
    "Deviations, distance beside the windows": (
        lambda g: Deviations("5 hours", rules=TWICE),
        "every is '1 week'",
    ),
    "Deviations, days and months": (
        lambda g: Deviations("1 month", rules=TWICE, zone="UTC"),
        "every is '1 week'",
    ),
    "deviations, unknown column": (of_minutes("mss"), "'mss'"),
    "deviations, no number": (of_minutes("page"), "type string"),
    "deviations, no windows": (lambda g: deviations(g.clicks, "1 hour", rules=TWICE), "'window'"),
}
