"""Folds: validation of declarations and expressions, and states compared with an oracle."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.scenarios.accounts import (
    START,
    Event,
    Sent,
    balances,
    ordered,
    snapshots,
    state_of_row,
    states,
)
from tests.support.changelog_events import (
    Batches,
    collect_states,
    frame,
    replayed_batches,
    with_log_positions,
)
from tidegate.changelogs import Fold, fold_events, fold_events_as_of
from tidegate.changelogs.fold_events import SNAPSHOTS, fold_batch
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError, TidegateError

EVERY = 3


def small_fold(handlers: dict[str, Any], **others: Any) -> Fold:
    initial = {"n": (0, "INT"), "m": (5, "INT"), "names": ((), "ARRAY<STRING>")}
    arguments = {"key": "account", "type_column": "type", "initial": initial, "handlers": handlers}
    return Fold(**{**arguments, **others})


def test_handlers_compute_columns_from_the_state_before_the_event(spark: SparkSession) -> None:
    log = frame(spark, with_log_positions([Event("a", kind, 1, "Ann", 0) for kind in "xyxx"]))
    fold = small_fold(
        {
            "x": {"n": "state.m", "m": "state.n"},
            "y": {"m": "NULL", "names": "concat(state.names, array(event.owner)) -- comment"},
        }
    )
    (row,) = fold_events(log.repartition(3), fold).collect()
    assert (row.n, row.m, row.names, row.events) == (5, None, ["Ann"], 4)
    (row,) = fold_events(log.where("offset < 5"), fold).collect()
    assert (row.n, row.m, row.offset) == (None, 5, 4)


@pytest.mark.slow
@pytest.mark.draws("examples", short=[1], long=[40])
def test_states_and_snapshots_equal_the_oracle_for_any_batches_and_replays(
    spark: SparkSession, examples: int
) -> None:
    fold = balances()

    @settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(batches=replayed_batches())
    def agree(batches: Batches) -> None:
        log = list(dict.fromkeys(sent for part in batches for sent in part))
        stored: DataFrame | None = None
        taken = []
        for part in batches:
            rows = fold_batch(
                frame(spark, part),
                fold,
                stored,
                snapshot_every=EVERY,
                include_unchanged=stored is not None,
            )
            rows = rows.localCheckpoint()
            one = rows.select("account", "topic", "partition", F.explode(SNAPSHOTS).alias("s"))
            taken += [state_of_row({**row.asDict(), **row.s.asDict()}) for row in one.collect()]
            stored = rows.select(*fold_events(frame(spark, []), fold).columns)
        assert stored is not None
        assert collect_states(stored) == states(log)
        assert ordered(taken) == ordered(snapshots(log, EVERY))
        assert collect_states(fold_events(frame(spark, log[::-1]), fold)) == states(log)

    agree()


@pytest.fixture(scope="module")
def log() -> list[Sent]:
    kinds = ("opened", "deposited", "withdrawn", "audited", "deposited", "closed")
    return with_log_positions(
        Event("abc"[n % 3], kinds[n % 6], 100 + n, "Ann", n * 10 - (35 if n % 4 == 0 else 0))
        for n in range(30)
    )


@pytest.mark.slow
def test_the_state_as_of_a_time_or_offsets_is_the_same_with_and_without_snapshots(
    spark: SparkSession, log: list[Sent]
) -> None:
    fold = balances()
    rows = frame(spark, log)
    folded = fold_batch(rows, fold, snapshot_every=EVERY).localCheckpoint()
    one = folded.select("account", "topic", "partition", F.explode(SNAPSHOTS).alias("s"))
    taken = one.select("account", "topic", "partition", "s.*").localCheckpoint()
    assert taken.count() == len(snapshots(log, EVERY)) > 6

    at = START + timedelta(milliseconds=160)
    until = states(sent for sent in log if sent.event.at <= 160)
    assert collect_states(fold_events_as_of(rows, fold, time=at)) == until
    assert collect_states(fold_events_as_of(rows, fold, time=at, snapshots=taken)) == until

    ends = {"t": {0: 9, 1: 14}}
    before = [sent for sent in log if sent.offset < ends["t"][sent.partition]]
    as_of = fold_events_as_of(rows, fold, offsets=ends)
    assert collect_states(as_of) == states(before)
    as_of = fold_events_as_of(rows, fold, offsets=ends, snapshots=taken)
    assert collect_states(as_of) == states(before)
    late = rows.where("offset >= 3")
    ends = {"t": {0: 99, 1: 99}}
    as_of = fold_events_as_of(late, fold, offsets=ends, snapshots=taken)
    assert collect_states(as_of) == states(log)


@pytest.mark.slow
def test_a_key_in_two_partitions_and_an_unknown_event_fail_the_query(
    spark: SparkSession,
) -> None:
    event = Event("a", "opened", 1, "Ann", 0)
    twice = frame(spark, [Sent(0, 0, event), Sent(1, 0, event)])
    fault = r'cannot process the log: the key \{"account":"a"\} has events in t/0 and in t/1'
    with pytest.raises(Exception, match=fault):
        fold_events(twice, balances()).count()
    audited = frame(spark, [Sent(0, 7, Event("a", "audited", 1, None, 0))])
    with pytest.raises(Exception, match="record at t/0 offset 7 has the unknown type audited"):
        fold_events(audited, balances(unknown="refuse")).count()
    assert fold_events(audited, balances()).count() == 0
    assert balances().unknown_events(audited).count() == 1


def test_an_overflow_is_an_error_instead_of_null(spark: SparkSession) -> None:
    log = frame(spark, with_log_positions([Event("a", "x", 1, None, 0)] * 9))
    wide = small_fold({"x": {"n": "state.n + 2000000000"}})
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        fold_events(log, wide).collect()


LABEL = r"handlers\['x'\]\['n'\]"
UNPARSABLE = LABEL + ".*PARSE_SYNTAX_ERROR"
INVALID_EXPRESSIONS: dict[str, tuple[dict[str, str], type[TidegateError], str]] = {
    "another type": ({"n": "state.n + 1.5"}, ColumnTypeError, f"type of {LABEL}: decimal"),
    "a wider type": ({"n": "state.n + 1L"}, ColumnTypeError, f"type of {LABEL}: bigint"),
    "an unknown column": ({"n": "event.nobody"}, ColumnError, LABEL),
    "a column without alias": ({"n": "n + 1"}, ColumnError, "state.<name> of n, m"),
    "an incomplete expression": ({"n": "state.n +"}, ArgumentError, UNPARSABLE),
    "an alias": ({"n": "state.n AS m"}, ArgumentError, UNPARSABLE),
    "unbalanced parentheses": ({"n": "1) + (2"}, ArgumentError, UNPARSABLE),
    "random": ({"n": "CAST(rand() * 5 AS INT)"}, ArgumentError, "one value"),
    "aggregate": ({"n": "CAST(sum(state.n) AS INT)"}, ArgumentError, "one value"),
}


@pytest.mark.parametrize("case", INVALID_EXPRESSIONS)
def test_an_invalid_expression_raises_at_the_call_with_its_label(
    spark: SparkSession, case: str
) -> None:
    assignments, error, match = INVALID_EXPRESSIONS[case]
    with pytest.raises(error, match=match):
        fold_events(frame(spark, []), small_fold({"x": assignments}))


INVALID_FOLDS: dict[str, tuple[dict[str, Any], str]] = {
    "no key": ({"key": []}, "invalid key"),
    "a clock": ({"handlers": {"x": {"n": "year(Current_Date())"}}}, "not deterministic"),
    "today": ({"handlers": {"x": {"n": "year(DATE 'Today')"}}}, "not deterministic"),
    "a key with the name of a metadata column": ({"key": ["topic"]}, "topic"),
    "an unknown state column": (
        {"handlers": {"x": {"k": "1"}}},
        r"invalid column in handlers\['x'\]: 'k'",
    ),
    "an expression that is not text": ({"handlers": {"x": {"n": 1}}}, LABEL),
    "a value without type": ({"initial": {"n": 0}}, r"initial\['n'\]"),
    "a value of another type": ({"initial": {"n": ("0", "INT")}}, "'0'\n.*that int represents"),
    "a value that would be rounded": ({"initial": {"n": (1.5, "DECIMAL(3, 0)")}}, "1.5"),
    "a reserved name": ({"initial": {"Offset": (0, "INT")}}, "Offset"),
    "an unknown type": ({"initial": {"n": (0, "INTT")}}, "INTT"),
    "on_unknown": ({"on_unknown": "drop"}, "invalid on_unknown: 'drop'"),
    "log_position": ({"log_position": ["topic"]}, "invalid log_position"),
}


@pytest.mark.parametrize("case", INVALID_FOLDS)
def test_an_invalid_fold_raises_at_construction(spark: SparkSession, case: str) -> None:
    arguments, match = INVALID_FOLDS[case]
    with pytest.raises(TidegateError, match=match):
        small_fold(**{"handlers": {"x": {"n": "1"}}, **arguments})


def test_the_name_of_a_clock_function_in_a_literal_is_valid(spark: SparkSession) -> None:
    text = "CASE WHEN event.owner = 'now' THEN state.n ELSE length('current_date') END"
    log = frame(spark, with_log_positions([Event("a", "x", 1, "Ann", 0)]))
    row = fold_events(log, small_fold({"x": {"n": text}})).head()
    assert row is not None
    assert row.n == 12
