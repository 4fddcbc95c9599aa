"""Folds: what is declared, what is refused, and states beside an oracle in plain Python."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.changes import Fold, folded, folded_as_of
from tidegate.changes.folding import SNAPSHOTS, advanced
from tidegate.errors import ArgumentError, ColumnError, ColumnTypeError, TidegateError

from ..worlds.accounts import START, Event, Sent, balances, ordered, snapshots, states, told
from .events import Cut, cuts, found, frame, placed

EVERY = 3


def small(on: dict[str, Any], **others: Any) -> Fold:
    initial = {"n": (0, "INT"), "m": (5, "INT"), "names": ((), "ARRAY<STRING>")}
    return Fold(**{"key": "account", "kind": "type", "initial": initial, "on": on, **others})


def test_each_type_of_event_sets_its_columns_from_the_state_before_it(spark: SparkSession) -> None:
    log = frame(spark, placed([Event("a", kind, 1, "Ann", 0) for kind in "xyxx"]))
    fold = small(
        {
            "x": {"n": "state.m", "m": "state.n"},
            "y": {"m": "NULL", "names": "concat(state.names, array(event.owner)) -- of all"},
        }
    )
    (row,) = folded(log.repartition(3), fold).collect()
    assert (row.n, row.m, row.names, row.events) == (5, None, ["Ann"], 4)
    (row,) = folded(log.where("offset < 5"), fold).collect()
    assert (row.n, row.m, row.offset) == (None, 5, 4)


@pytest.mark.slow
@pytest.mark.draws("examples", short=[1], long=[40])
def test_any_log_however_cut_and_read_again_gives_the_oracle_s_states_and_snapshots(
    spark: SparkSession, examples: int
) -> None:
    fold = balances()

    @settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(cut=cuts())
    def agree(cut: Cut) -> None:
        log = list(dict.fromkeys(sent for part in cut for sent in part))
        kept: DataFrame | None = None
        taken = []
        for part in cut:
            rows = advanced(frame(spark, part), fold, kept, every=EVERY, whole=kept is not None)
            rows = rows.localCheckpoint()
            one = rows.select("account", "topic", "partition", F.explode(SNAPSHOTS).alias("s"))
            taken += [told({**row.asDict(), **row.s.asDict()}) for row in one.collect()]
            kept = rows.select(*folded(frame(spark, []), fold).columns)
        assert kept is not None
        assert found(kept) == states(log)
        assert ordered(taken) == ordered(snapshots(log, EVERY))
        assert found(folded(frame(spark, log[::-1]), fold)) == states(log)

    agree()


@pytest.fixture(scope="module")
def log() -> list[Sent]:
    kinds = ("opened", "deposited", "withdrawn", "audited", "deposited", "closed")
    return placed(
        Event("abc"[n % 3], kinds[n % 6], 100 + n, "Ann", n * 10 - (35 if n % 4 == 0 else 0))
        for n in range(30)
    )


@pytest.mark.slow
def test_the_state_as_of_a_time_or_an_offset_is_that_of_its_events_with_snapshots_or_without(
    spark: SparkSession, log: list[Sent]
) -> None:
    fold = balances()
    rows = frame(spark, log)
    whole = advanced(rows, fold, every=EVERY).localCheckpoint()
    one = whole.select("account", "topic", "partition", F.explode(SNAPSHOTS).alias("s"))
    taken = one.select("account", "topic", "partition", "s.*").localCheckpoint()
    assert taken.count() == len(snapshots(log, EVERY)) > 6

    at = START + timedelta(milliseconds=160)
    until = states(sent for sent in log if sent.event.at <= 160)
    assert found(folded_as_of(rows, fold, time=at)) == until
    assert found(folded_as_of(rows, fold, time=at, snapshots=taken)) == until

    ends = {"t": {0: 9, 1: 14}}
    before = [sent for sent in log if sent.offset < ends["t"][sent.partition]]
    assert found(folded_as_of(rows, fold, offsets=ends)) == states(before)
    assert found(folded_as_of(rows, fold, offsets=ends, snapshots=taken)) == states(before)
    late = rows.where("offset >= 3")
    ends = {"t": {0: 99, 1: 99}}
    assert found(folded_as_of(late, fold, offsets=ends, snapshots=taken)) == states(log)


@pytest.mark.slow
def test_a_key_in_two_partitions_and_an_unknown_event_are_refused_by_name(
    spark: SparkSession,
) -> None:
    event = Event("a", "opened", 1, "Ann", 0)
    twice = frame(spark, [Sent(0, 0, event), Sent(1, 0, event)])
    with pytest.raises(Exception, match=r'key \{"account":"a"\} has events in t/0 and in t/1'):
        folded(twice, balances()).count()
    audited = frame(spark, [Sent(0, 7, Event("a", "audited", 1, None, 0))])
    with pytest.raises(Exception, match="event at t/0 7 is of the type audited"):
        folded(audited, balances(unknown="refuse")).count()
    assert folded(audited, balances()).count() == 0
    assert balances().set_aside(audited).count() == 1


def test_a_sum_that_does_not_fit_its_type_is_an_error_and_no_null(spark: SparkSession) -> None:
    log = frame(spark, placed([Event("a", "x", 1, None, 0)] * 9))
    wide = small({"x": {"n": "state.n + 2000000000"}})
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        folded(log, wide).collect()


REFUSED: dict[str, tuple[dict[str, str], type[TidegateError], str]] = {
    "another type": ({"n": "state.n + 1.5"}, ColumnTypeError, r"on\['x'\]\['n'\].*decimal"),
    "a wider type": ({"n": "state.n + 1L"}, ColumnTypeError, "is of type bigint"),
    "no such column": ({"n": "event.nobody"}, ColumnError, r"on\['x'\]\['n'\]"),
    "a bare name": ({"n": "n + 1"}, ColumnError, "state.<name> of n, m"),
    "no expression": ({"n": "state.n +"}, ArgumentError, "cannot be read"),
    "an alias": ({"n": "state.n AS m"}, ArgumentError, "cannot be read"),
    "brackets": ({"n": "1) + (2"}, ArgumentError, "cannot be read"),
    "random": ({"n": "CAST(rand() * 5 AS INT)"}, ArgumentError, "one value"),
    "aggregate": ({"n": "CAST(sum(state.n) AS INT)"}, ArgumentError, "one value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_expression_that_cannot_be_folded_is_refused_at_the_call_with_its_place(
    spark: SparkSession, case: str
) -> None:
    sets, error, match = REFUSED[case]
    with pytest.raises(error, match=match):
        folded(frame(spark, []), small({"x": sets}))


DECLARED: dict[str, tuple[dict[str, Any], str]] = {
    "no key": ({"key": []}, "key is"),
    "a clock": ({"on": {"x": {"n": "year(Current_Date())"}}}, "another time"),
    "today": ({"on": {"x": {"n": "year(DATE 'Today')"}}}, "another time"),
    "a key that a table of states has": ({"key": ["topic"]}, "topic"),
    "no column of the state": ({"on": {"x": {"k": "1"}}}, r"on\['x'\] sets k"),
    "no text": ({"on": {"x": {"n": 1}}}, r"on\['x'\]\['n'\]"),
    "no types": ({"initial": {"n": 0}}, r"initial\['n'\]"),
    "a value of another type": ({"initial": {"n": ("0", "INT")}}, "'0' of type int"),
    "a value that would be rounded": ({"initial": {"n": (1.5, "DECIMAL(3, 0)")}}, "1.5"),
    "a reserved name": ({"initial": {"Offset": (0, "INT")}}, "Offset"),
    "a type that cannot be read": ({"initial": {"n": (0, "INTT")}}, "INTT"),
    "unknown": ({"unknown": "drop"}, "unknown is 'drop'"),
}


@pytest.mark.parametrize("case", DECLARED)
def test_a_fold_that_does_not_hold_together_is_refused_where_it_is_declared(
    spark: SparkSession, case: str
) -> None:
    given_, match = DECLARED[case]
    with pytest.raises(TidegateError, match=match):
        small(**{"on": {"x": {"n": "1"}}, **given_})


def test_a_clock_s_name_in_a_text_or_as_a_field_is_no_clock(spark: SparkSession) -> None:
    text = "CASE WHEN event.owner = 'now' THEN state.n ELSE length('current_date') END"
    log = frame(spark, placed([Event("a", "x", 1, "Ann", 0)]))
    assert folded(log, small({"x": {"n": text}})).head().n == 12  # type: ignore[union-attr]
